// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayServer
import Testing

@Suite(.timeLimit(.minutes(10))) struct WebSocketViolationTests {
    struct Violation: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var code: UInt16
        var bytes: [UInt8]

        init(_ name: String, _ code: UInt16, _ bytes: [UInt8]) {
            self.testDescription = name
            self.code = code
            self.bytes = bytes
        }
    }

    static let violations: [Violation] = [
        Violation("unmasked", 1002, TestWebSocket.frame(opcode: 1, Array("{}".utf8), isMasked: false)),
        Violation("binary", 1003, TestWebSocket.frame(opcode: 2, [1])),
        Violation("unknown opcode", 1002, TestWebSocket.frame(opcode: 3, [])),
        Violation("unknown control opcode", 1002, TestWebSocket.frame(opcode: 11, [])),
        Violation("reserved bit", 1002, TestWebSocket.frame(opcode: 1, Array("{}".utf8), rsv: 4)),
        Violation("long ping", 1002, TestWebSocket.frame(opcode: 9, Array(repeating: 0, count: 126))),
        Violation("split ping", 1002, TestWebSocket.frame(opcode: 9, [], isFinal: false)),
        Violation("continuation of nothing", 1002, TestWebSocket.frame(opcode: 0, [])),
        Violation(
            "text within text",
            1002,
            TestWebSocket.frame(opcode: 1, [0x7B], isFinal: false) + TestWebSocket.frame(opcode: 1, [0x7D])
        ),
        Violation("long form of a short length", 1002, [0x81, 0xFE, 0, 5, 1, 2, 3, 4, 0, 0, 0, 0, 0]),
        Violation("longest form of a short length", 1002, [0x81, 0xFF, 0, 0, 0, 0, 0, 0, 1, 0, 1, 2, 3, 4]),
        Violation("length over all bounds", 1009, [0x81, 0xFF] + Array(repeating: 0xFF, count: 8)),
        Violation("text that is not UTF-8", 1007, TestWebSocket.frame(opcode: 1, [0x7B, 0xFF, 0x7D])),
        Violation("close with one byte", 1002, TestWebSocket.frame(opcode: 8, [3])),
        Violation("close with a code not to send", 1002, TestWebSocket.frame(opcode: 8, [0x03, 0xED])),
        Violation("close with a reason that is not UTF-8", 1007, TestWebSocket.frame(opcode: 8, [0x03, 0xE8, 0xFF])),
        Violation("close", 1000, TestWebSocket.frame(opcode: 8, [0x03, 0xE8])),
        Violation("close without a code", 1000, TestWebSocket.frame(opcode: 8, [])),
    ]

    @Test(arguments: violations)
    func beforeWelcomeItClosesThisChannelOnly(violation: Violation) async throws {
        try await TestRelay.with { relay in
            let other = try await TestWebSocket.welcomed(relay)
            let client = try await TestWebSocket.open(relay)
            _ = try await client.challenge()
            try await client.socket.send(violation.bytes)
            #expect(await client.closeCode() == violation.code)
            try await other.send(opcode: 9, [1])
            #expect(await other.frame() == .pong([1]))
        }
    }

    @Test func afterWelcomeTheSameHolds() async throws {
        try await TestRelay.with { relay in
            for violation in Self.violations {
                let client = try await TestWebSocket.welcomed(relay)
                try await client.socket.send(violation.bytes)
                #expect(await client.closeCode() == violation.code, "\(violation.testDescription)")
                await client.socket.close()
            }
            #expect(try await eventually { relay.core.disconnected.count == Self.violations.count })
        }
    }

    @Test func theRelayEndsTheConnectionAfterTheClientsClose() async throws {
        try await TestRelay.with { relay in
            let client = try await TestWebSocket.welcomed(relay)
            try await client.send(opcode: 8, [0x03, 0xE8])
            #expect(await client.closeCode() == 1000)
            #expect(await client.frame() == .end)
        }
    }

    @Test func aClientThatNeverClosesIsNotWaitedFor() async throws {
        try await TestRelay.with { relay in
            let client = try await TestWebSocket.welcomed(relay)
            try await client.send(opcode: 3, [])
            #expect(await client.closeCode() == 1002)
            #expect(await client.frame() == .end)
        }
    }

    @Test func fragmentsMakeOneMessageAndControlFramesMayStandBetween() async throws {
        try await TestRelay.with { relay in
            let client = try await TestWebSocket.welcomed(relay)
            let text = Array(#"{"type":"unwatch","ref":5}"#.utf8)
            try await client.send(opcode: 1, Array(text.prefix(3)), isFinal: false)
            try await client.send(opcode: 9, [9])
            try await client.send(opcode: 0, [], isFinal: false)
            try await client.send(opcode: 0, Array(text.dropFirst(3)))
            #expect(await client.frame() == .pong([9]))
            #expect(try await client.message().ref?.number == 5)
        }
    }

    @Test(arguments: [false, true])
    func aMessageOfTheLimitPassesAndOneByteMoreCloses(isFragmented: Bool) async throws {
        try await TestRelay.with(configure: {
            $0.limits[.controlFrameBytes] = 70_000
            $0.limits[.controlFrameBytesBeforeWelcome] = 4_096
        }) { relay in
            func message(of count: Int) -> [UInt8] {
                let text = Array(#"{"type":"unwatch","ref":5,"x":""}"#.utf8)
                return text.dropLast(2) + Array(repeating: UInt8(ascii: "a"), count: count - text.count) + text.suffix(2)
            }
            func send(_ bytes: [UInt8], to client: TestWebSocket) async throws {
                guard isFragmented else { return try await client.send(opcode: 1, bytes) }
                try await client.send(opcode: 1, Array(bytes.prefix(bytes.count / 2)), isFinal: false)
                try await client.send(opcode: 0, Array(bytes.dropFirst(bytes.count / 2)))
            }
            let client = try await TestWebSocket.welcomed(relay)
            try await send(message(of: 70_000), to: client)
            #expect(try await client.message().ref?.number == 5)
            try await send(message(of: 70_001), to: client)
            #expect(await client.closeCode() == 1009)

            let stranger = try await TestWebSocket.open(relay)
            _ = try await stranger.challenge()
            try await send(message(of: 4_097), to: stranger)
            #expect(await stranger.closeCode() == 1009)
        }
    }
}
