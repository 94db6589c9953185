// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import Testing

@testable import RelayProtocol

/// The control frame encoder and decoder, compared with Foundation's JSON.
@Suite struct ControlFrameCodingTests {
    /// A frame with every type of value.
    private struct Anything: Codable, Equatable {
        var text: String?
        var number: Int?
        var small: UInt8?
        var fraction: Double?
        var flag: Bool?
        var list: [Anything]?
        var names: [String: Int]?
        var nested: [[String?]]?
    }

    private func mine(_ json: String) throws -> Anything { try ControlFrameDecoder().decode(Anything.self, from: Array(json.utf8)) }
    private func foundations(_ json: String) throws -> Anything { try JSONDecoder().decode(Anything.self, from: Data(json.utf8)) }

    private static let texts = [
        "", "a", "\"", "\\", "/", "\u{1}\u{8}\u{9}\u{A}\u{C}\u{D}\u{1F}\u{7F}", "\u{2028}", "ä€🦀", "e\u{301}", "\u{FFFF}", "🏳️‍🌈",
    ]

    private func random(_ random: inout SeededGenerator, depth: Int = 0) -> Anything {
        func maybe<T>(_ make: (inout SeededGenerator) -> T) -> T? { Bool.random(using: &random) ? make(&random) : nil }
        return Anything(
            text: maybe { Self.texts.randomElement(using: &$0) ?? "" },
            number: maybe { [.min, -1, 0, 7, 1 << 53, .max].randomElement(using: &$0) ?? 0 },
            small: maybe { .random(in: 0...255, using: &$0) },
            fraction: maybe { [0, -1.5, 1e300, 0.1, -5e-300].randomElement(using: &$0) ?? 0 },
            flag: maybe { .random(using: &$0) },
            list: depth > 2
                ? nil : maybe { random in (0..<Int.random(in: 0...3, using: &random)).map { _ in self.random(&random, depth: depth + 1) } },
            names: maybe { random in
                Dictionary((0..<Int.random(in: 0...40, using: &random)).map { ("\(Self.texts[$0 % 11])\($0)", $0) }) { first, _ in first }
            },
            nested: maybe { _ in [[], [nil, "x"]] }
        )
    }

    @Test(arguments: 1...5 as ClosedRange<UInt64>) func bothReadWhatBothWrite(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<200 {
            let value = random(&generator)
            let own = String(buffer: try ControlFrameEncoder.encode(value))
            let pretty = JSONEncoder()
            pretty.outputFormatting = .prettyPrinted
            #expect(try foundations(own) == value)
            #expect(try mine(own) == value)
            #expect(try mine(String(decoding: try pretty.encode(value), as: UTF8.self)) == value)
        }
    }

    /// Random damage: a frame that decodes also decodes with Foundation, with the same result. The reverse does not hold for
    /// unread values and extra commas. Frames with duplicate keys are left out, because their meaning is not defined.
    @Test(arguments: 1...5 as ClosedRange<UInt64>) func nothingIsTakenThatFoundationRefuses(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let fragments = [
            "null", "1.0", "1e2", "-0", "01", "1.", ".5", "+1", "1e400", "9223372036854775808", "true", "tru", "\"\\u00e9\"",
            "\"\\ud83e\\udd80\"",
            "\"\\ud83e\"", "\"\\x\"", "[", "]", "{", "}", ",", ":", " ", "\n", "\"", "\\", "[[\"a\"]]", "{\"text\":null}",
        ]
        var taken = 0
        for _ in 0..<800 {
            var text = Array(String(buffer: try ControlFrameEncoder.encode(random(&generator))).unicodeScalars)
            for _ in 0..<Int.random(in: 0...2, using: &generator) {
                let place = Int.random(in: 0...text.count, using: &generator)
                let end = min(text.count, place + Int.random(in: 0...4, using: &generator))
                text.replaceSubrange(place..<end, with: Array((fragments.randomElement(using: &generator) ?? "").unicodeScalars))
            }
            let json = String(String.UnicodeScalarView(text))
            let (one, other) = (try? mine(json), try? foundations(json))
            guard let one, !hasEqualKeys(json) else { continue }
            #expect(one == other, "\(json)")
            taken += 1
        }
        #expect(taken > 100)
    }

    private func hasEqualKeys(_ json: String) -> Bool {
        guard let index = try? JSONIndex(Array(json.utf8)) else { return false }
        return index.nodes.indices.contains { object in
            guard index.nodes[object].kind == .object else { return false }
            var (keys, key): ([String], Int) = ([], object + 1)
            while key < index.nodes[object].next {
                keys.append(index.text(index.nodes[key]))
                key = index.nodes[key + 1].next
            }
            return Set(keys).count < keys.count
        }
    }

    @Test func ofEqualKeysTheFirstCounts() throws {
        let many = (0..<40).map { #""k\#($0)":\#($0),"# }.joined()
        #expect(try mine(#"{"number":1,"number":2}"#).number == 1)
        #expect(try mine("{\(many)" + #""number":1,"number":2}"#).number == 1)
        #expect(try mine(#"{"\u006eumber":3}"#).number == 3)
    }

    @Test func nestingHasAnEnd() {
        func nested(_ levels: Int) -> [UInt8] {
            Array((String(repeating: "[", count: levels) + String(repeating: "]", count: levels)).utf8)
        }
        #expect(throws: Never.self) { try JSONIndex(nested(JSONIndex.mostLevels)) }
        #expect(throws: JSONIndex.Malformed.self) { try JSONIndex(nested(JSONIndex.mostLevels + 1)) }
    }

    @Test func messagesAreWrittenAsFoundationWouldWriteThem() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        struct Frame: Encodable {
            let message: any ControlMessage
            func encode(to encoder: any Encoder) throws { try message.encodeFrame(to: encoder) }
        }
        for message in ControlSamples.fromRelay.map(\.content) + ControlSamples.fromEndpoint.map(\.content) {
            let frame = Frame(message: message)
            let (own, other) = (try ControlFrameEncoder.encode(frame), try encoder.encode(frame))
            let (left, right) = (
                try JSONSerialization.jsonObject(with: Data(own.readableBytesView)), try JSONSerialization.jsonObject(with: other)
            )
            #expect(left as? NSDictionary == right as? NSDictionary)
            #expect(own.readableBytes == other.count)
        }
    }

    private static let frequent: Set<String> = [
        "ok", "command", "command.status", "command.settled", "command.send", "command.received", "command.result", "command.acknowledge",
    ]

    /// The fast encoder of frequent messages writes the same bytes as `Encodable`.
    @Test func frequentMessagesAreWrittenAsAllAre() throws {
        struct Frame: Encodable {
            let message: any ControlMessage
            func encode(to encoder: any Encoder) throws { try message.encodeFrame(to: encoder) }
        }
        let odd = Presence(.unknown, .init(rawValue: "\"\\\n🦀"), since: 0)
        let messages =
            ControlSamples.fromRelay + [
                .endpointUpdated(.init(endpoint: ControlSamples.endpoint)),
                .endpointUpdated(.init(endpoint: ControlSamples.endpoint, presence: odd)),
                .ok(.init(ref: ControlSamples.ref(), result: .init())),
                .endpointAdded(
                    .init(endpoint: ControlSamples.endpoint, introduction: .init(record: Blob([1])), registrations: [], presence: odd)
                ),
            ]
        let all =
            messages.map { ($0.content, $0.frequentJSON) } + ControlSamples.fromEndpoint.map { ($0.content, $0.frequentJSON) }
        var frequent: Set<String> = []
        for (content, json) in all {
            guard let json else { continue }
            frequent.insert(type(of: content).type)
            #expect(ByteBuffer(bytes: json) == (try ControlFrameEncoder.encode(Frame(message: content))))
        }
        #expect(frequent == Self.frequent.union(["endpoint.added", "endpoint.updated"]))
    }

    /// The fast decoder of frequent messages returns the same as `Decodable`, whatever happens to the members.
    @Test(arguments: 1...5 as ClosedRange<UInt64>) func frequentMessagesAreReadAsAllAre(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let values = [
            "null", "7", "7.0", "0", "-1", "true", "false", "\"\"", "\"AQ==\"", "\"AQ=\"", "\"\\u0041Q==\"", "\"A Q==\"", "[]", "{}",
            #"{"state":"waking","tunnel":null}"#, #"{"record":"AQ==","vouchers":null}"#, "[\"AQ==\"]", "\"final\"", "\"relay\"",
            "\"\(ControlSamples.endpoint)\"", "\"018F0000-0000-7000-8000-000000000001\"",
        ]
        let samples =
            try ControlSamples.fromEndpoint.map { (type(of: $0.content).type, try $0.encode()) }
            + ControlSamples.fromRelay.map { (type(of: $0.content).type, try $0.encode()) }
        var (whole, taken): (Set<String>, Int) = ([], 0)
        for round in 0..<60 {
            for (type, frame) in samples {
                var members = try members(of: frame)
                for _ in 0..<(round == 0 ? 0 : Int.random(in: 1...2, using: &generator)) where !members.isEmpty {
                    let (place, value) = (
                        members.indices.randomElement(using: &generator) ?? 0, values.randomElement(using: &generator) ?? ""
                    )
                    switch Int.random(in: 0..<5, using: &generator) {
                    case 0: members[place].value = value
                    case 1: members.append((members[place].key, value))
                    case 2: members.append(("\"unknown\"", value))
                    case 3: members.shuffle(using: &generator)
                    default: members.remove(at: place)
                    }
                }
                let json = "{ " + members.map { "\($0.key) :\($0.value)" }.joined(separator: ", ") + "}"
                let index = try JSONIndex(Array(json.utf8))
                let fields = FrequentFields(index: index, limits: Limits())
                if let read = EndpointMessage(frequent: fields) {
                    let slowly = try ControlFrame.decode(EndpointMessage.Reader.self, from: index, limits: Limits()).received
                    #expect(slowly == .message(read), "\(json)")
                } else if let read = RelayMessage(frequent: fields) {
                    let slowly = try ControlFrame.decode(RelayMessage.Reader.self, from: index, limits: Limits()).message
                    #expect(slowly == read, "\(json)")
                } else {
                    continue
                }
                taken += 1
                if round == 0 { whole.insert(type) }
            }
        }
        #expect(whole == Self.frequent)
        #expect(taken > 100)
    }

    private func members(of frame: ByteBuffer) throws -> [(key: String, value: String)] {
        let index = try JSONIndex(Array(frame.readableBytesView))
        func text(_ node: JSONIndex.Node) -> String {
            let text = String(decoding: index.bytes[node.start..<node.end], as: UTF8.self)
            return node.kind == .string ? "\"\(text)\"" : text
        }
        var (members, place): ([(key: String, value: String)], Int) = ([], 1)
        while place < index.nodes[0].next {
            members.append((text(index.nodes[place]), text(index.nodes[place + 1])))
            place = index.nodes[place + 1].next
        }
        return members
    }

    /// Encodes with a closure.
    private struct Told: Encodable {
        let body: (any Encoder) throws -> Void
        init(_ body: @escaping (any Encoder) throws -> Void) { self.body = body }
        func encode(to encoder: any Encoder) throws { try body(encoder) }
    }

    private enum Key: String, CodingKey { case a, b, c }

    private func written(_ body: @escaping (any Encoder) throws -> Void) throws -> String {
        String(buffer: try ControlFrameEncoder.encode(Told(body)))
    }

    @Test func containersWithinContainersAreWritten() throws {
        let text = try written { encoder in
            var object = encoder.container(keyedBy: Key.self)
            var list = object.nestedUnkeyedContainer(forKey: .a)
            try list.encode(1)
            var inner = list.nestedContainer(keyedBy: Key.self)
            try inner.encode(Told { _ in }, forKey: .b)
            try inner.encodeNil(forKey: .c)
            try list.encode(["x"])
            _ = object.nestedContainer(keyedBy: Key.self, forKey: .b)
            // A second container of the same object continues it.
            var same = encoder.container(keyedBy: Key.self)
            try same.encode(true, forKey: .c)
        }
        #expect(text == #"{"a":[1,{"b":{},"c":null},["x"]],"b":{},"c":true}"#)
        #expect(try written { _ in } == "{}")
    }

    @Test func aValueThatWasLeftIsNotTakenUpAgain() {
        #expect(throws: EncodingError.self) {
            try written { encoder in
                var object = encoder.container(keyedBy: Key.self)
                var list = object.nestedUnkeyedContainer(forKey: .a)
                try object.encode(1, forKey: .b)
                try list.encode(1)
            }
        }
        #expect(throws: EncodingError.self) {
            try written { encoder in
                var container = encoder.singleValueContainer()
                try container.encode(1)
                try container.encode(2)
            }
        }
        #expect(throws: EncodingError.self) {
            try written { encoder in
                try "text".encode(to: encoder)
                var object = encoder.container(keyedBy: Key.self)
                try object.encode(1, forKey: .a)
            }
        }
        #expect(throws: EncodingError.self) {
            try written { encoder in
                var object = encoder.container(keyedBy: Key.self)
                var other = object.superEncoder().unkeyedContainer()
                try object.encode(1, forKey: .a)
                try other.encode(1)
            }
        }
    }
}
