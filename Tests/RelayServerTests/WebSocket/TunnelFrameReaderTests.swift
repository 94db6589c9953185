// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Testing

@testable import RelayServer

@Suite struct TunnelFrameReaderTests {
    typealias Violation = WebSocketReader.Violation

    /// Feeds bytes in pieces.
    static func read(_ pieces: [[UInt8]]) throws(Violation) -> (payload: [UInt8], events: [TunnelFrameReader.Event]) {
        var (reader, payload, events) = (TunnelFrameReader(), ByteBuffer(), [TunnelFrameReader.Event]())
        for piece in pieces {
            var bytes = ByteBuffer(bytes: piece)
            while let event = try reader.next(&bytes, payload: &payload) { events.append(event) }
            #expect(bytes.readableBytes == 0)
        }
        return (Array(payload.readableBytesView), events)
    }

    static func frame(_ opcode: UInt8, _ payload: [UInt8], isFinal: Bool = true) -> [UInt8] {
        TestWebSocket.frame(opcode: opcode, payload, isFinal: isFinal)
    }

    @Test(arguments: [0, 1, 7, 8, 9, 125, 126, 127, 1_000, 65_535, 65_536, 70_000])
    func everyLengthIsRead(count: Int) throws {
        let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        #expect(try Self.read([Self.frame(2, payload)]).payload == payload)
    }

    @Test(arguments: 1...24)
    func framesAreReadFromPiecesOfAnySize(size: Int) throws {
        let parts: [[UInt8]] = [[1, 2, 3], Array(4...150), [], Array(repeating: 9, count: 700)]
        let bytes =
            Self.frame(2, parts[0]) + Self.frame(2, parts[1], isFinal: false) + Self.frame(9, Array("ping".utf8)) + Self.frame(0, parts[2])
            + Self.frame(10, [5]) + Self.frame(2, parts[3]) + Self.frame(8, [3, 232, 65])
        let pieces = stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
        let (payload, events) = try Self.read(pieces)
        #expect(payload == parts.flatMap { $0 })
        #expect(events == [.ping(ByteBuffer(string: "ping")), .close(code: 1000)])
    }

    static let violations: [(bytes: [UInt8], code: UInt16)] = {
        let none: [UInt8] = []
        var all: [(bytes: [UInt8], code: UInt16)] = [(frame(1, [65]), 1003), (frame(0, [65]), 1002), (frame(3, none), 1002)]
        all.append((frame(2, [1], isFinal: false) + frame(2, [1]), 1002))
        // No mask, a reserved bit, a length that is not the shortest, one of 64 bits.
        all.append(([0x82, 1, 7], 1002))
        all.append(([0xC2, 0x81, 0, 0, 0, 0, 0], 1002))
        all.append(([0x82, 0xFE, 0, 5, 1, 2, 3, 4], 1002))
        all.append(([0x82, 0xFF] + Array(repeating: 0xFF, count: 12), 1002))
        all.append((frame(9, Array(repeating: 1, count: 126)), 1002))
        all.append((frame(9, none, isFinal: false), 1002))
        all.append((frame(8, [1]), 1002))
        all.append((frame(8, [3, 237]), 1002))
        all.append((frame(8, [3, 232, 0xFF]), 1007))
        return all
    }()

    @Test(arguments: violations)
    func protocolViolationIsAnError(bytes: [UInt8], code: UInt16) {
        #expect { try Self.read([bytes]) } throws: { ($0 as? Violation)?.code == code }
        #expect { try Self.read(bytes.map { [$0] }) } throws: { ($0 as? Violation)?.code == code }
    }

    /// An announced length is no reason to hold anything.
    @Test func hugeFrameIsReadInPieces() throws {
        var (reader, payload) = (TunnelFrameReader(), ByteBuffer())
        var head = ByteBuffer(bytes: [0x82, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4])
        #expect(try reader.next(&head, payload: &payload) == nil)
        for _ in 0..<3 {
            var bytes = ByteBuffer(repeating: 0, count: 100_001)
            payload.clear()
            #expect(try reader.next(&bytes, payload: &payload) == nil)
            #expect(payload.readableBytes == 100_001)
        }
        // The mask continues at its position: 300,003 bytes are three more than a multiple of four.
        var last = ByteBuffer(bytes: [0, 0])
        payload.clear()
        _ = try reader.next(&last, payload: &payload)
        #expect(Array(payload.readableBytesView) == [4, 1])
    }
}
