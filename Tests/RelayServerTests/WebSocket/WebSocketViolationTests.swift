// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayServer
import Testing

@Suite(.timeLimit(.minutes(10))) struct WebSocketViolationTests {
    @Test func eachViolationClosesItsChannelWithItsCode() async throws {
        try await TestRelay.with { relay in
            let violations = WebSocketCase.violations
            for violation in violations {
                let client = try await TestWebSocket.welcomed(relay)
                try await client.socket.send(violation.bytes)
                #expect(await .closed(client.closeCode()) == violation.outcome, "\(violation.testDescription)")
                await client.socket.close()
            }
            #expect(try await eventually { relay.core.disconnected.count == violations.count })
        }
    }

    @Test func relayEndsTheConnectionAfterTheClientsClose() async throws {
        try await TestRelay.with { relay in
            let client = try await TestWebSocket.welcomed(relay)
            try await client.send(opcode: 8, [0x03, 0xE8])
            #expect(await client.closeCode() == 1000)
            #expect(await client.frame() == .end)
        }
    }

    @Test func relayDoesNotWaitForTheClientsClose() async throws {
        try await TestRelay.with { relay in
            let client = try await TestWebSocket.welcomed(relay)
            try await client.send(opcode: 3, [])
            #expect(await client.closeCode() == 1002)
            #expect(await client.frame() == .end)
        }
    }

    @Test func controlFramesMayComeBetweenFragments() async throws {
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
    func messageLargerThanTheLimitClosesTheChannel(isFragmented: Bool) async throws {
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

            let unauthenticated = try await TestWebSocket.open(relay)
            _ = try await unauthenticated.challenge()
            try await send(message(of: 4_097), to: unauthenticated)
            #expect(await unauthenticated.closeCode() == 1009)
        }
    }
}
