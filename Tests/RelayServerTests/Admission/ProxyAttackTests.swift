// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import RelayServer
import RelayTesting
import Testing

/// A client behind a proxy that wants the others behind it shut out.
@Suite(.timeLimit(.minutes(5))) struct ProxyAttackTests {
    private func behindProxy(_ work: @Sendable (TestRelay) async throws -> Void) async throws {
        try await TestRelay.with(
            configure: {
                $0.unauthenticatedPerAddress = 2
                $0.trustedProxies = TrustedProxies([IPNetwork(parsing: "127.0.0.1")].compactMap { $0 })
            },
            work
        )
    }

    private func upgrade(_ relay: TestRelay, for client: String) async throws -> (TestSocket, String) {
        let socket = try await relay.connect()
        try await socket.send(TestWebSocket.request(host: relay.host, fields: ["X-Forwarded-For": client]))
        return (socket, String(await socket.answer().prefix(12)))
    }

    @Test func idleChannelsOfOneClientDoNotBlockOtherClients() async throws {
        try await behindProxy { relay in
            var held: [TestSocket] = []
            for _ in 0..<2 {
                let (socket, status) = try await upgrade(relay, for: "192.0.2.1")
                #expect(status == "HTTP/1.1 101")
                held.append(socket)
            }
            #expect(try await upgrade(relay, for: "192.0.2.1").1 == "HTTP/1.1 429")
            // What the client claims before the proxy's own entry changes nothing.
            #expect(try await upgrade(relay, for: "nonsense, 192.0.2.77, 192.0.2.1").1 == "HTTP/1.1 429")
            for number in 2..<40 {
                let (socket, status) = try await upgrade(relay, for: "192.0.2.\(number)")
                #expect(status == "HTTP/1.1 101")
                held.append(socket)
            }
            for socket in held { await socket.close() }
            #expect(try await eventually { relay.unauthenticated.total == 0 })
        }
    }

    @Test func oneProxyConnectionCarriesRequestsOfManyClients() async throws {
        try await behindProxy { relay in
            let (first, _) = try await upgrade(relay, for: "192.0.2.1")
            let (second, _) = try await upgrade(relay, for: "192.0.2.1")
            func request(for client: String, on socket: TestSocket) async throws {
                try await socket.send("GET /healthz HTTP/1.1\r\nHost: \(relay.host)\r\nX-Forwarded-For: \(client)\r\n\r\n")
                let answer = await socket.bytes { String(decoding: $0, as: UTF8.self).hasSuffix("ok\n") }
                #expect(String(decoding: answer, as: UTF8.self).hasPrefix("HTTP/1.1 200"))
                socket.drop(answer.count)
            }
            let pooled = try await relay.connect()
            for client in ["192.0.2.2", "192.0.2.3", "192.0.2.2"] { try await request(for: client, on: pooled) }
            // An idle connection of the proxy counts for no client that it has served.
            var idle: [TestSocket] = []
            for _ in 0..<4 {
                let socket = try await relay.connect()
                try await request(for: "192.0.2.4", on: socket)
                idle.append(socket)
            }
            for socket in idle { await socket.close() }
            try await pooled.send("GET /healthz HTTP/1.1\r\nHost: \(relay.host)\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
            #expect(await pooled.textUntilClosed().hasPrefix("HTTP/1.1 429"))
            for socket in [first, second] { await socket.close() }
        }
    }

    /// The operator is told once that a proxy is not trusted.
    @Test(arguments: [(true, false), (false, false), (true, true)])
    func aProxyThatIsNotTrustedIsNamedOnce(isForwarding: Bool, isTrusted: Bool) async throws {
        let log = CapturedLog()
        try await TestRelay.with(
            logger: Logger(label: "test") { _ in log },
            configure: {
                if isTrusted { $0.trustedProxies = TrustedProxies([IPNetwork(parsing: "127.0.0.1")].compactMap { $0 }) }
            }
        ) { relay in
            for _ in 0..<3 {
                let socket = try await relay.connect()
                try await socket.send(
                    TestWebSocket.request(host: relay.host, fields: isForwarding ? ["X-Forwarded-For": "192.0.2.1"] : [:])
                )
                #expect(await socket.answer().hasPrefix("HTTP/1.1 101"))
                await socket.close()
            }
        }
        let lines = log.lines.filter { $0.contains("--trusted-proxy") }
        #expect(lines.count == (isForwarding && !isTrusted ? 1 : 0), "\(lines)")
    }

    @Test func forwardedForOfAnUntrustedClientIsIgnored() async throws {
        try await TestRelay.with(configure: { $0.unauthenticatedPerAddress = 2 }) { relay in
            let (first, _) = try await upgrade(relay, for: "192.0.2.1")
            let (second, _) = try await upgrade(relay, for: "192.0.2.2")
            // By its own address it has two connections already; what it says of a client is not read.
            let third = try await relay.connect()
            try? await third.send(TestWebSocket.request(host: relay.host, fields: ["X-Forwarded-For": "192.0.2.3"]))
            #expect(await third.textUntilClosed().isEmpty)
            for socket in [first, second] { await socket.close() }
        }
    }
}
