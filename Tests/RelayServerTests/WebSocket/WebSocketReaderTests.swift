// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import RelayServer
import Testing

@Suite struct WebSocketReaderTests {
    @Test func framesAreReadFromRandomPieces() throws {
        let message = Array(repeating: UInt8(ascii: "x"), count: 70_000)
        let bytes =
            TestWebSocket.frame(opcode: 1, Array("one".utf8)) + TestWebSocket.frame(opcode: 9, [1, 2])
            + TestWebSocket.frame(opcode: 1, Array(message.prefix(300)), isFinal: false) + TestWebSocket.frame(opcode: 10, [])
            + TestWebSocket.frame(opcode: 0, Array(message.dropFirst(300))) + TestWebSocket.frame(opcode: 8, [0x03, 0xE8])
        let expected: [WebSocketReader.Event] = [
            .text(ByteBuffer(string: "one")), .ping(ByteBuffer(bytes: [1, 2])), .fragment, .pong, .text(ByteBuffer(bytes: message)),
            .close(code: 1000),
        ]
        for seed in UInt64(1)...50 {
            var generator = TransportGenerator(seed: seed)
            var reader = WebSocketReader(maximumMessageBytes: 70_000)
            var events: [WebSocketReader.Event] = []
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = Int.random(in: 1...(Bool.random(using: &generator) ? 7 : 20_000), using: &generator)
                reader.append(ByteBuffer(bytes: rest.prefix(count)))
                rest = rest.dropFirst(count)
                while let event = try reader.next() { events.append(event) }
            }
            #expect(events == expected, "seed \(seed)")
        }
    }

    @Test func randomBytesNeverTrapOrExceedTheLimit() {
        for seed in UInt64(1)...3_000 {
            var generator = TransportGenerator(seed: seed)
            var reader = WebSocketReader(maximumMessageBytes: 100)
            var bytes = (0..<Int.random(in: 0...60, using: &generator)).map { _ in UInt8.random(in: 0...255, using: &generator) }
            if Bool.random(using: &generator), bytes.count > 1 {
                // Into the deeper branches.
                bytes[0] = [0x81, 0x01, 0x80, 0x88, 0x89].randomElement(using: &generator) ?? 0x81
                bytes[1] |= 0x80
            }
            do throws(WebSocketReader.Violation) {
                for byte in bytes {
                    reader.append(ByteBuffer(integer: byte))
                    while case .text(let message)? = try reader.next() { #expect(message.readableBytes <= 100, "seed \(seed)") }
                }
            } catch {
                #expect([1002, 1003, 1007, 1009].contains(error.code), "seed \(seed)")
                #expect(error.reason.utf8.count <= 123)
            }
        }
    }

    /// Were all that came before copied for each, it would be a gigabyte a message.
    @Test(.timeLimit(.minutes(1))) func emptyFragmentsAreCheap() throws {
        var reader = WebSocketReader(maximumMessageBytes: 1 << 20)
        let message = Array(repeating: UInt8(ascii: "x"), count: 1_000_000)
        let empty = TestWebSocket.frame(opcode: 0, [], isFinal: false)
        // All that a message may have, and the next one has as many again.
        for _ in 0..<5 {
            let begun = TestWebSocket.frame(opcode: 1, message, isFinal: false)
            let pieces = repeatElement(empty, count: reader.maximumFragments - 2).joined()
            reader.append(ByteBuffer(bytes: begun + pieces + TestWebSocket.frame(opcode: 0, Array("y".utf8))))
            var fragments = 0
            var last: WebSocketReader.Event?
            while let event = try reader.next() {
                if case .fragment = event { fragments += 1 } else { last = event }
            }
            #expect(fragments == reader.maximumFragments - 1)
            #expect(last == .text(ByteBuffer(bytes: message + Array("y".utf8))))
        }
    }

    /// Otherwise a client that begins a message could keep the relay reading at no cost.
    @Test func fragmentsPerMessageAreLimited() throws {
        var reader = WebSocketReader(maximumMessageBytes: 100)
        let empty = TestWebSocket.frame(opcode: 0, [], isFinal: false)
        reader.append(ByteBuffer(bytes: TestWebSocket.frame(opcode: 1, [], isFinal: false)))
        for _ in 1..<reader.maximumFragments {
            #expect(try reader.next() == .fragment)
            reader.append(ByteBuffer(bytes: TestWebSocket.frame(opcode: 9, []) + empty))
            #expect(try reader.next() == .ping(ByteBuffer()))
        }
        let violation = #expect(throws: WebSocketReader.Violation.self) { try reader.next() }
        #expect(violation?.code == 1008)
        #expect(violation?.reason == "a message has at most 16384 fragments here")
    }

    @Test func lengthIsCheckedBeforeItsBytesArrive() {
        var reader = WebSocketReader(maximumMessageBytes: 1_000)
        reader.append(ByteBuffer(bytes: [0x81, 0xFE, 0x03, 0xE9]))
        let error = #expect(throws: WebSocketReader.Violation.self) { try reader.next() }
        #expect(error?.code == 1009)
    }
}
