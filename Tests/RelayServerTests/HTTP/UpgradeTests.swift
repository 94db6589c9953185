// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayServer
import Testing

@Suite(.timeLimit(.minutes(10))) struct UpgradeTests {
    @Test func upgradeReturnsTheRightAcceptValue() async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            try await socket.send(TestWebSocket.request(host: relay.host))
            let answer = await socket.answer()
            #expect(answer.hasPrefix("HTTP/1.1 101 "))
            // The key and its answer are those of RFC 6455 §1.3.
            #expect(answer.lowercased().contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"))
            #expect(answer.lowercased().contains("sec-websocket-protocol: device-relay.v1\r\n"))
            let challenge = try await TestWebSocket(socket: socket).challenge()
            #expect(challenge.relay == relay.key.id)
            #expect(challenge.versions == [1])
        }
    }

    @Test func everyChallengeHasItsOwnNonce() async throws {
        try await TestRelay.with { relay in
            let first = try await TestWebSocket.open(relay).challenge()
            let second = try await TestWebSocket.open(relay).challenge()
            #expect(first.nonce != second.nonce)
        }
    }

    @Test func bytesAfterTheRequestAreKept() async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            let ping = TestWebSocket.frame(opcode: 9, Array("early".utf8))
            try await socket.send(Array(TestWebSocket.request(host: relay.host).utf8) + ping)
            #expect(await socket.answer().hasPrefix("HTTP/1.1 101"))
            let client = TestWebSocket(socket: socket)
            _ = try await client.challenge()
            #expect(await client.frame() == .pong(Array("early".utf8)))
        }
    }

    @Test(arguments: [
        "upgrade", "Upgrade,", ", upgrade", "keep-alive ,\tupgrade", "upgrade\t", "close, upgrade", "upgrade , close", "x upgrade",
        "upgrade, upgrade", "upgradeupgrade", "up\tgrade", "keep-alive\t, upgrade",
    ])
    func requestAfterAnUpgradeIsNotAnswered(connection: String) async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            let request = TestWebSocket.request(host: relay.host, fields: ["Connection": connection])
            try await socket.send(request + "GET /healthz HTTP/1.1\r\nHost: \(relay.host)\r\n\r\n")
            #expect(!(await socket.textUntilClosed().contains("ok\n")))
            #expect(try await TestWebSocket.open(relay).challenge().relay == relay.key.id)
        }
    }

    @Test func requestMayArriveByteByByte() async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            for byte in TestWebSocket.request(host: relay.host).utf8 { try await socket.send([byte]) }
            #expect(await socket.answer().hasPrefix("HTTP/1.1 101"))
        }
    }

    struct Rejection: Sendable, CustomTestStringConvertible {
        var name: String
        var status: Int
        var path = "/v1/connect"
        var method = "GET"
        var fields: [String: String?] = [:]
        var testDescription: String { name }
    }

    @Test(arguments: [
        Rejection(name: "other path", status: 404, path: "/v1/other"),
        Rejection(name: "other method", status: 400, method: "POST"),
        Rejection(name: "body", status: 400, fields: ["Content-Length": "5"]),
        Rejection(name: "chunked body", status: 400, fields: ["Transfer-Encoding": "chunked"]),
        Rejection(name: "old version", status: 426, fields: ["Sec-WebSocket-Version": "8"]),
        Rejection(name: "no version", status: 426, fields: ["Sec-WebSocket-Version": nil]),
        Rejection(name: "no key", status: 400, fields: ["Sec-WebSocket-Key": nil]),
        Rejection(name: "short key", status: 400, fields: ["Sec-WebSocket-Key": "c2hvcnQ="]),
        Rejection(name: "no subprotocol", status: 400, fields: ["Sec-WebSocket-Protocol": nil]),
        Rejection(name: "other subprotocol", status: 400, fields: ["Sec-WebSocket-Protocol": "chat, device-relay.v2"]),
        Rejection(name: "foreign host", status: 421, fields: ["Host": "rebound.example"]),
        Rejection(name: "foreign host with this port", status: 421, fields: ["Host": "rebound.example:8080"]),
        Rejection(name: "foreign page", status: 403, fields: ["Origin": "https://evil.example"]),
        Rejection(name: "page without origin", status: 403, fields: ["Origin": "null"]),
    ])
    func rejectedUpgradesReturnProblemJSON(rejection: Rejection) async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            try await socket.send(
                TestWebSocket.request(host: relay.host, path: rejection.path, fields: rejection.fields, method: rejection.method)
            )
            let answer = await socket.textUntilClosed()
            #expect(answer.hasPrefix("HTTP/1.1 \(rejection.status) "), "\(answer)")
            #expect(answer.contains("application/problem+json"))
            #expect(answer.contains("\"status\":\(rejection.status)"))
        }
    }

    @Test func pageOfTheRelaysOriginMayConnect() async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            try await socket.send(TestWebSocket.request(host: relay.host, fields: ["Origin": relay.origin]))
            #expect(await socket.answer().hasPrefix("HTTP/1.1 101"))
        }
    }

    @Test func configuredURLIsAcceptedAsHostAndOrigin() async throws {
        try await TestRelay.with(configure: { $0.urls = [Origin(scheme: "https", host: "relay.example", port: 443)] }) { relay in
            let socket = try await relay.connect()
            try await socket.send(TestWebSocket.request(host: "relay.example", fields: ["Origin": "https://relay.example"]))
            #expect(await socket.answer().hasPrefix("HTTP/1.1 101"))
        }
    }

    @Test func requestThatOffersHTTP2IsAnsweredWithHTTP1() async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            try await socket.send(
                "GET /healthz HTTP/1.1\r\nHost: \(relay.host)\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                    + "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"
            )
            let answer = await socket.answer()
            #expect(answer.hasPrefix("HTTP/1.1 200"))
            #expect(answer.hasSuffix("ok\n"))
        }
    }

    @Test func malformedHTTPIsRejected() async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            try await socket.send("\u{16}\u{3}\u{1} hello\r\n\r\n")
            #expect(await socket.textUntilClosed().hasPrefix("HTTP/1.1 400"))
        }
    }

    @Test func endlessRequestHeadIsRejected() async throws {
        try await TestRelay.with { relay in
            let socket = try await relay.connect()
            try await socket.send("GET /healthz HTTP/1.1\r\nHost: \(relay.host)\r\n")
            let field = "X-Filler: " + String(repeating: "a", count: 4_000) + "\r\n"
            for _ in 0..<16 where !socket.isClosed { try? await socket.send(field) }
            let answer = await socket.textUntilClosed()
            #expect(answer.isEmpty || answer.hasPrefix("HTTP/1.1 400"))
        }
    }
}
