// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayServer
import Testing

@Suite(.timeLimit(.minutes(10))) struct PatienceTests {
    @Test func connectionWithAnUnfinishedRequestIsClosed() async throws {
        try await TestRelay.with(configure: { $0.limits[.helloSeconds] = 1 }) { relay in
            let silent = try await relay.connect()
            let slow = try await relay.connect()
            try await slow.send("GET /v1/connect HTTP/1.1\r\nHost: ")
            #expect(await slow.textUntilClosed().isEmpty)
            #expect(await silent.textUntilClosed().isEmpty)
        }
    }

    @Test func channelWithoutHelloIsClosed() async throws {
        try await TestRelay.with(configure: { $0.limits[.helloSeconds] = 1 }) { relay in
            let client = try await TestWebSocket.open(relay)
            _ = try await client.challenge()
            // Being alive is not enough.
            try await client.send(opcode: 9, [])
            #expect(await client.closeCode() == 1008)
        }
    }

    @Test func channelWithAnUnfinishedFrameIsClosed() async throws {
        try await TestRelay.with(configure: { $0.limits[.helloSeconds] = 1 }) { relay in
            let client = try await TestWebSocket.open(relay)
            try await client.socket.send([0x81, 0xFE, 0x10])
            #expect(await client.closeCode() == 1008)
        }
    }

    @Test func veryLongHelloTimeoutWorks() async throws {
        try await TestRelay.with(configure: { $0.limits[.helloSeconds] = 1 << 40 }) { relay in
            _ = try await TestWebSocket.welcomed(relay)
        }
    }

    @Test func anIdleHTTPConnectionIsClosed() async throws {
        try await TestRelay.with(configure: { $0.idleSeconds = 1 }) { relay in
            let socket = try await relay.connect()
            try await socket.send("GET /healthz HTTP/1.1\r\nHost: \(relay.host)\r\n\r\n")
            #expect(await socket.textUntilClosed().hasSuffix("ok\n"))
        }
    }

    @Test func unauthenticatedConnectionsPerAddressAreLimited() async throws {
        try await TestRelay.with(configure: { $0.unauthenticatedPerAddress = 2 }) { relay in
            // Known endpoints do not count.
            let known = try await TestWebSocket.welcomed(relay)
            let first = try await TestWebSocket.open(relay)
            let second = try await TestWebSocket.open(relay)
            let third = try await relay.connect()
            #expect(await third.textUntilClosed().isEmpty)
            await first.socket.close()
            #expect(try await eventually { relay.unauthenticated.total == 1 })
            let fourth = try await TestWebSocket.open(relay)
            _ = try await fourth.challenge()
            for client in [known, second, fourth] { await client.socket.close() }
        }
    }

    /// The sockets of either side that are open at a port, the listening one included.
    static func sockets(port: Int) -> Int {
        let table = FileManager.default.contents(atPath: "/proc/net/tcp").map { String(decoding: $0, as: UTF8.self) } ?? ""
        let suffix = ":" + String(repeating: "0", count: max(0, 4 - String(port, radix: 16).count)) + String(port, radix: 16).uppercased()
        // Other processes may use the number at their ends of connections.
        let files = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        let own = Set(files.compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)") })
        return table.split(separator: "\n").dropFirst().count { line in
            let columns = line.split(separator: " ")
            return columns.count > 9 && (columns[1].hasSuffix(suffix) || columns[2].hasSuffix(suffix))
                && own.contains("socket:[\(columns[9])]")
        }
    }

    @Test func connectionsLeaveNothingBehind() async throws {
        try await TestRelay.with { relay in
            let endpoint = TransportTestEndpoint()
            // What the process opens once is open after the first.
            let first = try await TestWebSocket.welcomed(relay, endpoint: endpoint)
            await first.socket.close()
            #expect(try await eventually { relay.core.disconnected.count == 1 })
            for round in 0..<200 {
                switch round % 4 {
                case 0:
                    let socket = try await relay.connect()
                    await socket.close()
                case 1:
                    let client = try await TestWebSocket.open(relay)
                    await client.socket.close()
                case 2:
                    let client = try await TestWebSocket.welcomed(relay, endpoint: endpoint)
                    await client.socket.close()
                default:
                    let client = try await TestWebSocket.welcomed(relay, endpoint: endpoint)
                    try await client.send(opcode: 8, [0x03, 0xE8])
                    #expect(await client.closeCode() == 1000)
                    await client.socket.close()
                }
            }
            #expect(try await eventually { relay.core.disconnected.count == 101 && relay.unauthenticated.total == 0 })
            #expect(relay.core.connected.count == 101)
            #expect(relay.metrics.text.contains("relay_control_channels 0\n"))
            #if os(Linux)
            #expect(try await eventually { Self.sockets(port: relay.port) == 1 })
            #endif
        }
    }
}
