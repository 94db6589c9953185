// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct HostileControlFrameTests {
    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    private func expectMalformed(_ bytes: [UInt8], _ comment: Comment) {
        let buffer = ByteBuffer(bytes: bytes)
        for decode in [
            { try EndpointMessage.decode(from: buffer, limits: Limits()) as Any },
            { try RelayMessage.decode(from: buffer, limits: Limits()) as Any },
        ] {
            do {
                Issue.record("\(comment) was taken as \(try decode())")
            } catch {
                let error = error as? ControlFrameError
                #expect(error?.closeCode == 1007, comment)
                #expect(error.map { (1...123).contains($0.description.utf8.count) } ?? false, comment)
            }
        }
    }

    @Test(arguments: [
        "", " ", "null", "1", #""a""#, "[]", "{", "}", "{}", #"{"type"}"#, #"{"type":}"#, #"{"type":null}"#, #"{"type":1}"#,
        #"{"type":["watch"]}"#, #"{"type":"watch""#, #"{"type":"watch","ref":1}x"#, #"{"type":"watch","ref":1}{}"#, "{'type':'watch'}",
        #"{"type":"\ud800"}"#, #"{"type":"\udc00\ud800"}"#, #"{"\ud800":1,"type":"watch"}"#, #"{"type":"a","x":"\u12"}"#,
        #"{"type":"a","x":"\"#, #"{"type":"a","x":tru}"#, #"{"type":"a","x":NaN}"#, "{\"type\":\"a\u{1}\"}",
        "{\"type\":\"a\",\"x\":\"\0\"}", "\u{FEFF}{\"type\":\"sing\"}", #"[{"type":"watch"}]"#,
    ])
    func invalidMessageClosesTheChannel(text: String) {
        expectMalformed(bytes(text), "\(text)")
    }

    @Test func otherEncodingsThanUTF8AreRejected() {
        let text = #"{"type":"sing"}"#
        expectMalformed(
            text.utf16.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] },
            "UTF-16, little end first"
        )
        expectMalformed(
            text.utf16.flatMap { [UInt8(truncatingIfNeeded: $0 >> 8), UInt8(truncatingIfNeeded: $0)] },
            "UTF-16, big end first"
        )
        expectMalformed(text.unicodeScalars.flatMap { [UInt8(truncatingIfNeeded: $0.value), 0, 0, 0] }, "UTF-32")
        for invalid: [UInt8] in [[0xFF], [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xE2, 0x82]] {
            expectMalformed(bytes(#"{"type":"sing","x":""#) + invalid + bytes(#""}"#), "invalid UTF-8 in a field nobody reads")
            expectMalformed(bytes(#"{"type":""#) + invalid + bytes(#""}"#), "invalid UTF-8 in the type")
        }
    }

    @Test func deepNestingIsRejectedWithoutRecursion() {
        let count = 100_000
        expectMalformed(Array(repeating: UInt8(ascii: "["), count: count), "open arrays")
        expectMalformed(bytes(String(repeating: #"{"a":"#, count: count / 2)), "open objects")
        let closed = Array(repeating: UInt8(ascii: "["), count: count) + Array(repeating: UInt8(ascii: "]"), count: count)
        expectMalformed(bytes(#"{"type":"sing","x":"#) + closed + bytes("}"), "closed arrays in a field nobody reads")
        expectMalformed(bytes(#"{"type":"watch","ref":"#) + closed + bytes("}"), "closed arrays as a ref")
    }

    @Test(arguments: [
        "1e400", "-1e400", "1e99999999999", "9223372036854775808", "-9223372036854775809", "1.5", "0.1e-999", "1e18446744073709551616",
        String(repeating: "9", count: 100_000), "-0.0000001", "--1", "1e", "+1", "0x1", "01",
    ])
    func invalidNumbersAreNotRefs(number: String) throws {
        #expect(throws: ControlFrameError.self) {
            try EndpointMessage.decode(from: controlFrame(#"{"type":"watch","ref":\#(number)}"#), limits: Limits())
        }
        // An unread field may pass or fail, without harm.
        _ = try? RelayMessage.decode(from: controlFrame(#"{"type":"sing","x":\#(number)}"#), limits: Limits())
        _ = try? RelayMessage.decode(from: controlFrame(#"{"type":"restarting","after":\#(number),"spread":\#(number)}"#), limits: Limits())
        _ = try? RelayMessage.decode(
            from: controlFrame(
                #"{"type":"error","ref":1,"code":"","message":"","limit":{"name":"","allowed":\#(number),"requested":\#(number)}}"#
            ),
            limits: Limits()
        )
    }

    @Test func objectMembersAreBounded() throws {
        func many(_ count: Int) -> String { "{" + (0..<count).map { #""k\#($0)":1,"# }.joined() + #""type":"watch","ref":1}"# }
        func repeated(_ count: Int) -> String { "{" + String(repeating: #""k":1,"#, count: count) + #""type":"watch","ref":1}"# }
        for text in [many(2_045), repeated(2_045)] {
            #expect(try EndpointMessage.decode(from: controlFrame(text), limits: Limits()) == .message(.watch(.init(ref: .first))))
        }
        // Messages have few members; more would only keep the decoder busy.
        for text in [many(2_046), repeated(2_046), many(30_000), repeated(60_000)] {
            let error = #expect(throws: ControlFrameError.self) {
                try EndpointMessage.decode(from: controlFrame(text), limits: Limits())
            }
            #expect(error?.closeCode == 1007)
        }
        // It is undefined which of two equal keys counts, but it is one of them.
        let twice = try EndpointMessage.decode(from: controlFrame(#"{"type":"watch","type":"unwatch","ref":1,"ref":1}"#), limits: Limits())
        #expect([.message(.watch(.init(ref: .first))), .message(.unwatch(.init(ref: .first)))].contains(twice))
    }

    @Test func errorsNameFieldsWithoutTheirValues() {
        let canary = "canary9f8e7d"
        let frames = [
            #"{"type":"hello","version":1,"token":["\#(canary)"]}"#, #"{"type":"hello","version":"\#(canary)"}"#,
            #"{"type":"hello","version":1,"token":"\#(canary)","record":"\#(canary)"}"#, #"{"type":"\#(canary)"#, "{\(canary)}",
            #"{"\#(canary)":1,"\#(canary)"}"#,
        ]
        for text in frames {
            do {
                _ = try EndpointMessage.decode(from: controlFrame(text), limits: Limits())
                Issue.record("was taken: \(text)")
            } catch {
                #expect(!"\(error)".contains(canary))
            }
        }
        let limits =
            #"{"type":"welcome","limits":{"\#(String(repeating: "\u{1F980}", count: 300))":"x"},"intervals":{},"urls":[],"features":[]}"#
        #expect(throws: ControlFrameError.malformed("limits.… has the wrong type")) {
            try RelayMessage.decode(from: controlFrame(limits), limits: Limits())
        }
    }

    /// Random damage to valid frames: nothing traps, and a message that decodes survives encoding and decoding.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func damagedFramesNeverTrap(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let frames = try ControlSamples.fromEndpoint.map { try $0.encode() } + ControlSamples.fromRelay.map { try $0.encode() }
        let fragments = ["null", "[]", "{}", "\"\"", "-1", "9007199254740993", "true", "\\u0000", ",", ":", "}", "\u{FFFD}"].map {
            Array($0.utf8)
        }
        for _ in 0..<10_000 {
            guard var bytes = frames.randomElement(using: &random).map({ Array($0.readableBytesView) }) else { return }
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let position = Int.random(in: 0..<max(1, bytes.count), using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0 where !bytes.isEmpty: bytes[position] = UInt8.random(in: 0...255, using: &random)
                case 1 where !bytes.isEmpty:
                    bytes.removeSubrange(position..<min(bytes.count, position + Int.random(in: 1...9, using: &random)))
                case 2: bytes.insert(contentsOf: fragments.randomElement(using: &random) ?? [], at: min(position, bytes.count))
                default: bytes.insert(UInt8.random(in: 0x20...0x7E, using: &random), at: min(position, bytes.count))
                }
            }
            let buffer = ByteBuffer(bytes: bytes)
            if case .message(let message)? = try? EndpointMessage.decode(from: buffer, limits: Limits()) {
                #expect(try EndpointMessage.decode(from: try message.encode(), limits: Limits()) == .message(message), "seed \(seed)")
            }
            if let message = try? RelayMessage.decode(from: buffer, limits: Limits()) {
                // The encodings are compared, because `Limits` with some of the limits do not equal `Limits` with all of them.
                let encoded = try message.encode()
                let again = try RelayMessage.decode(from: encoded, limits: Limits())
                #expect(try again?.encode() == encoded, "seed \(seed)")
            }
        }
    }
}
