// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayServer
import Testing

/// Upgrades on connections that have served requests before, as a proxy's pooled connections do.
@Suite(.timeLimit(.minutes(10))) struct LateUpgradeTests {
    private static func plain(_ relay: TestRelay, _ path: String = "/healthz", fields: String = "") -> String {
        "GET \(path) HTTP/1.1\r\nHost: \(relay.host)\r\n\(fields)\r\n"
    }

    /// The answers up to that of an upgrade, each by its status; the WebSocket's frames stay.
    private static func statuses(_ socket: TestSocket, _ count: Int) async -> [String] {
        var statuses: [String] = []
        while statuses.count < count {
            let bytes = await socket.bytes { Self.head(of: $0) != nil }
            guard let (status, length) = Self.head(of: bytes) else { return statuses + ["end"] }
            statuses.append(status)
            socket.drop(length)
        }
        return statuses
    }

    /// The status of the first answer, and its length with the body.
    private static func head(of bytes: [UInt8]) -> (status: String, length: Int)? {
        let end = Array("\r\n\r\n".utf8)
        guard let start = bytes.indices.first(where: { bytes[$0...].starts(with: end) }) else { return nil }
        let lines = String(decoding: bytes[..<start], as: UTF8.self).lowercased().split(separator: "\r\n")
        let status = String(lines.first?.dropFirst(9).prefix(3) ?? "")
        let body = lines.first { $0.hasPrefix("content-length:") }.flatMap { Int($0.dropFirst(15).filter { $0 != " " }) } ?? 0
        let length = start + end.count + (status == "101" ? 0 : body)
        return bytes.count >= length ? (status, length) : nil
    }

    private static let ping = TestWebSocket.frame(opcode: 9, Array("early".utf8))

    @Test(arguments: 0...4) func aRequestAfterOthersUpgrades(others: Int) async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            for _ in 0..<others {
                try await socket.send(Self.plain(relay))
                #expect(await Self.statuses(socket, 1) == ["200"])
            }
            let client = try await TestWebSocket.open(socket, host: relay.host)
            let challenge = try await client.challenge()
            // A whole conversation, so reads go on.
            let endpoint = TransportTestEndpoint()
            try await client.send(
                try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin, token: FixedTokens.good)
            )
            guard case .welcome = try await client.message(isWelcome: false) else { throw TestWebSocket.NotUpgraded(answer: "no welcome") }
            for round in 0..<20 {
                try await client.send(opcode: 9, Array("\(round)".utf8))
                #expect(await client.frame() == .pong(Array("\(round)".utf8)))
            }
            try await client.send(opcode: 8, [0x03, 0xE8])
            #expect(await client.closeCode() == 1000)
            await socket.close()
            #expect(try await eventually { relay.core.disconnected.count == 1 && relay.unauthenticated.total == 0 })
        }
    }

    /// All bytes in one write, the first frame of the WebSocket too.
    @Test(arguments: [1, 2, 40]) func pipelinedRequestsAreAnsweredBeforeTheUpgrade(others: Int) async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            let requests = String(repeating: Self.plain(relay), count: others) + TestWebSocket.request(host: relay.host)
            try await socket.send(Array(requests.utf8) + Self.ping)
            #expect(await Self.statuses(socket, others + 1) == Array(repeating: "200", count: others) + ["101"])
            let client = TestWebSocket(socket: socket)
            _ = try await client.challenge()
            #expect(await client.frame() == .pong(Array("early".utf8)))
        }
    }

    /// Wherever the bytes are divided.
    @Test func anyDivisionOfTheBytesIsTheSame() async throws {
        try await TestRelay.with { relay in
            let bytes = Array((Self.plain(relay) + TestWebSocket.request(host: relay.host)).utf8) + Self.ping
            for place in stride(from: 1, to: bytes.count, by: 7) {
                let socket = try await relay.connect()
                try await socket.send(Array(bytes[..<place]))
                try await socket.send(Array(bytes[place...]))
                #expect(await Self.statuses(socket, 2) == ["200", "101"], "at \(place)")
                let client = TestWebSocket(socket: socket)
                _ = try await client.challenge()
                #expect(await client.frame() == .pong(Array("early".utf8)))
                await socket.close()
            }
        }
    }

    @Test func aRefusedUpgradeClosesALaterRequestsConnectionToo() async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            try await socket.send(Self.plain(relay) + TestWebSocket.request(host: relay.host, path: "/v1/other") + Self.plain(relay))
            let text = await socket.textUntilClosed()
            #expect(text.hasPrefix("HTTP/1.1 200") && text.contains("HTTP/1.1 404") && text.components(of: "HTTP/1.1 ") == 2, "\(text)")
        }
    }

    /// An error, and an answer to `Connection: close`, are the last of their connection.
    @Test(arguments: [("/nowhere", ""), ("/healthz", "Connection: close\r\n"), ("/healthz", "Upgrade: h2c\r\nConnection: Upgrade\r\n")])
    func nothingUpgradesAfterTheLastResponse(path: String, fields: String) async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            try await socket.send(Self.plain(relay))
            #expect(await Self.statuses(socket, 1) == ["200"])
            try await socket.send(Self.plain(relay, path, fields: fields) + TestWebSocket.request(host: relay.host))
            let text = await socket.textUntilClosed()
            #expect(!text.contains(" 101 ") && text.components(of: "HTTP/1.1 ") == 1, "\(text)")
        }
    }

    @Test func aRelayThatStopsEndsALateChannel() async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            try await socket.send(Self.plain(relay))
            #expect(await Self.statuses(socket, 1) == ["200"])
            let client = try await TestWebSocket.open(socket, host: relay.host)
            _ = try await client.challenge()
            await relay.stop()
            #expect(await client.closeCode() == 1012)
        }
    }
}

extension String {
    fileprivate func components(of part: String) -> Int {
        var (count, rest) = (0, self[...])
        while let range = String(rest).range(of: part) {
            count += 1
            rest = String(rest)[range.upperBound...]
        }
        return count
    }
}
