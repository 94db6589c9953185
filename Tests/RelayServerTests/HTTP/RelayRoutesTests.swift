// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayServer
import Testing

@Suite(.timeLimit(.minutes(10))) struct RelayRoutesTests {
    static func get(_ path: String, relay: TestRelay, host: String? = nil) async throws -> String {
        let socket = try await relay.connect()
        try await socket.send("GET \(path) HTTP/1.1\r\nHost: \(host ?? relay.host)\r\n\r\n")
        let answer = await socket.answer()
        await socket.close()
        return answer
    }

    @Test func healthAndReadinessAreAnswered() async throws {
        try await TestRelay.with { relay in
            let answer1 = try await Self.get("/healthz", relay: relay)
            #expect(answer1.hasSuffix("ok\n"))
            let answer2 = try await Self.get("/readyz", relay: relay)
            #expect(answer2.hasPrefix("HTTP/1.1 200"))
            #expect(relay.core.isStarted)
        }
    }

    @Test func unreadyRelayReportsTheReason() async throws {
        try await TestRelay.with(obstacle: "The relay cannot store anything now: its disk is full.") { relay in
            let answer3 = try await Self.get("/healthz", relay: relay)
            #expect(answer3.hasPrefix("HTTP/1.1 200"))
            let answer = try await Self.get("/readyz", relay: relay)
            #expect(answer.hasPrefix("HTTP/1.1 503"))
            #expect(answer.contains("application/problem+json"))
            #expect(answer.contains(#""detail":"The relay cannot store anything now: its disk is full.""#))
        }
    }

    @Test func tunnelPortsAreReported() async throws {
        try await TestRelay.with(configure: { $0.tunnelListen = [ListenAddress(host: "127.0.0.1", port: 0)] }) { relay in
            let answer = try await Self.get("/v1/tunnels", relay: relay)
            #expect(answer.hasPrefix("HTTP/1.1 200"))
            let ports = try #require(answer.firstMatch(of: /\{"ports":\[([0-9]+)\]\}$/))
            let port = try #require(Int(ports.1))
            #expect(port != relay.port)
            let socket = try await TestSocket(port: port)
            await socket.close()
        }
        try await TestRelay.with(configure: { $0.tunnelListen = [] }) { relay in
            let answer = try await Self.get("/v1/tunnels", relay: relay)
            #expect(answer.hasSuffix(#"{"ports":[]}"#))
        }
    }

    @Test func metricsCountChannels() async throws {
        try await TestRelay.with { relay in
            let client = try await TestWebSocket.welcomed(relay)
            #expect(relay.metrics.text.contains("# TYPE relay_control_channels gauge\nrelay_control_channels 1\n"))
            await client.socket.close()
            #expect(try await eventually { relay.metrics.text.contains("relay_control_channels 0\n") })
        }
    }

    @Test func protectedResourceNamesTheIssuers() async throws {
        try await TestRelay.with { relay in
            let answer = try await Self.get("/.well-known/oauth-protected-resource", relay: relay)
            #expect(answer.contains("\"authorization_servers\":[\"https://issuer.example\"]"))
            #expect(!answer.contains("without_scopes"))
            #expect(answer.contains("\"resource\":\"\(relay.origin)\""))
        }
    }

    @Test func aConfiguredURLIsTheResource() async throws {
        try await TestRelay.with(configure: { $0.urls = [Origin(scheme: "https", host: "relay.example", port: 443)] }) { relay in
            let answer = try await Self.get("/.well-known/oauth-protected-resource", relay: relay)
            #expect(answer.contains("\"resource\":\"https://relay.example\""))
        }
    }

    @Test(arguments: ["rebound.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2", "[::1]", "a b", ""])
    func foreignHostsAreRefused(host: String) async throws {
        try await TestRelay.with { relay in
            let answer = try await Self.get("/healthz", relay: relay, host: host)
            #expect(answer.hasPrefix("HTTP/1.1 421"), "\(answer)")
        }
    }

    @Test func localhostIsAcceptedOnLoopback() async throws {
        try await TestRelay.with { relay in
            let answer4 = try await Self.get("/healthz", relay: relay, host: "LocalHost:\(relay.port)")
            #expect(answer4.hasPrefix("HTTP/1.1 200"))
        }
    }

    @Test func unknownPathReturnsProblemJSON() async throws {
        try await TestRelay.with { relay in
            let answer = try await Self.get("/nothing", relay: relay)
            #expect(answer.hasPrefix("HTTP/1.1 404"))
            #expect(answer.contains("application/problem+json"))
        }
    }

    /// Neither what was sent behind it is answered, nor is the rest of the request waited for.
    @Test(arguments: [
        ("GET /nothing", "\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"), ("POST /nothing", "Content-Length: 1000\r\n\r\nabc"),
    ])
    func errorClosesTheConnection(request: String, rest: String) async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            try await socket.send("\(request) HTTP/1.1\r\nHost: \(relay.host)\r\n\(rest)")
            let answer = await socket.textUntilClosed()
            #expect(answer.hasPrefix("HTTP/1.1 404"))
            #expect(answer.lowercased().contains("connection: close\r\n"))
            #expect(!answer.contains("ok\n"))
        }
    }
}
