// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import RelayProtocol
import RelayTesting
import Testing

/// What is as large as it may be, one more, and far more; and JSON that is made to hurt. A running relay takes or refuses each, and
/// serves the next client.
@Suite(.timeLimit(.minutes(10))) struct BoundaryTests {
    private func relay() async throws -> (RelaydProcess, Eve) {
        // A short timeout, because some requests are never answered.
        let relayd = try await RelaydProcess(arguments: ["--limit", "helloSeconds=3"])
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Eve")
        return (relayd, Eve(endpoint: try await Victim.endpoint("Eve", of: "Eve", at: relayd)))
    }

    /// Used by one thread at a time.
    private struct Eve: @unchecked Sendable {
        let endpoint: WireEndpoint

        func channel(_ port: Int, isWelcome: Bool) throws -> RawWebSocket {
            let channel = try RawWebSocket(port: port)
            if isWelcome { try channel.greet(as: endpoint, role: .client) } else { _ = try channel.message() }
            return channel
        }
    }

    private static func text(_ count: Int) -> [UInt8] {
        let text = Array(#"{"type":"noise"}"#.utf8)
        return text + Array(repeating: 0x20, count: count - text.count)
    }

    @Test(arguments: [false, true])
    func sizeOfControlMessagesIsLimited(isWelcome: Bool) async throws {
        let (relayd, eve) = try await relay()
        let port = relayd.port
        let limit = isWelcome ? 512 << 10 : 32 << 10
        try await onThread {
            let taken = try eve.channel(port, isWelcome: isWelcome)
            for size in [limit - 1, limit] {
                try taken.send(Self.text(size))
                // The same in fragments.
                let text = Self.text(size)
                taken.socket.send(TestWebSocket.frame(opcode: 1, Array(text.prefix(size / 2)), isFinal: false))
                taken.socket.send(TestWebSocket.frame(opcode: 0, Array(text.dropFirst(size / 2))))
                try taken.send(opcode: 9, [1])
                #expect(try taken.frame().opcode == 10)
            }
            let tooLarge: [[UInt8]] = [
                TestWebSocket.frame(opcode: 1, Self.text(limit + 1)),
                TestWebSocket.frame(opcode: 1, Self.text(limit), isFinal: false) + TestWebSocket.frame(opcode: 0, [0x20]),
                // Announced, and never sent.
                [0x81, 0xFF, 0, 0, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF],
                [0x81, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
            ]
            for bytes in tooLarge {
                let channel = try eve.channel(port, isWelcome: isWelcome)
                channel.socket.send(bytes)
                #expect(channel.closeCode() == 1009)
            }
        }
        #expect(try await relayd.stop() == 0)
    }

    @Test func headersOfHTTPRequestsAreLimited() async throws {
        let (relayd, _) = try await relay()
        let (port, host) = (relayd.port, relayd.host)
        func request(_ fields: String, path: String = "/healthz") -> String {
            "GET \(path) HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\(fields)\r\n"
        }
        func field(_ count: Int) -> String { String(repeating: "a", count: count) }
        let fields = (0..<100).map { "x-\($0): a\r\n" }.joined()
        let cases: [(String, String, [Int?])] = [
            ("a field of 15 KiB", request("x: \(field(15 << 10))\r\n"), [200]),
            ("a field of 17 KiB", request("x: \(field(17 << 10))\r\n"), [400]),
            ("a field of 16 MiB", request("x: \(field(16 << 20))\r\n"), [400, 431, nil]),
            ("fields of 48 KiB", request((0..<4).map { "x\($0): \(field(12 << 10))\r\n" }.joined()), [400]),
            ("100 fields", request(fields), [200]),
            ("1,000 fields", request((0..<1_000).map { "x-\($0): a\r\n" }.joined()), [400, 431, nil]),
            ("a path of 64 KiB", request("", path: "/" + field(64 << 10)), [400, 414, 431, nil]),
            ("two hosts", request("Host: elsewhere.example\r\n"), [400]),
            ("somebody else's name", "GET /healthz HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n\r\n", [421]),
            ("no host", "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", [400]),
            ("two lengths", request("Content-Length: 1\r\nContent-Length: 2\r\n"), [400]),
            ("a length below zero", request("Content-Length: -1\r\n"), [400]),
            ("a length beyond all", request("Content-Length: 99999999999999999999\r\n"), [400]),
            ("a length and chunks", request("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n", [400]),
            ("a folded field", request("x: a\r\n b\r\n"), [200, 400]),
            ("a space before the colon", request("x : a\r\n"), [400]),
            ("a zero in a field", request("x: a\0b\r\n"), [400]),
            ("no HTTP at all", "\u{1}\u{2}\u{3}\u{4}\r\n\r\n", [400]),
            ("another version", "GET / HTTP/9.9\r\n\r\n", [400, 505]),
        ]
        let found = try await onThread { cases.map { Self.status(of: $0.1, port: port) } }
        for ((name, _, expected), status) in zip(cases, found) {
            #expect(expected.contains(status), "\(name): \(status.map(String.init) ?? "-")")
        }
        #expect(try await relayd.stop() == 0)
    }

    @Test func bodiesOfFormsAreLimited() async throws {
        let (relayd, _) = try await relay()
        let (port, host) = (relayd.port, relayd.host)
        func post(_ length: String, _ body: String) -> String {
            "POST /auth/token HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n"
                + "Content-Type: application/x-www-form-urlencoded\r\n\(length)\r\n\r\n\(body)"
        }
        func form(_ count: Int) -> String { "grant_type=" + String(repeating: "a", count: count - 11) }
        let fields = (0..<40).map { "a\($0)=a" }.joined(separator: "&")
        let cases: [(String, String, [Int?])] = [
            ("16 KiB", post("Content-Length: 16384", form(16_384)), [400]),
            ("one more", post("Content-Length: 16385", form(16_385)), [413]),
            ("far more", post("Content-Length: 16777216", form(1 << 24)), [413, nil]),
            ("far more, announced", post("Content-Length: 9223372036854775807", form(20_000)), [413]),
            ("chunks without end", post("Transfer-Encoding: chunked", String(repeating: "400\r\n\(form(1_024))\r\n", count: 64)), [413]),
            ("a chunk beyond all", post("Transfer-Encoding: chunked", "ffffffffffffffffff\r\n"), [400, nil]),
            ("40 fields", post("Content-Length: \(fields.utf8.count)", fields), [400]),
            ("half a character", post("Content-Length: 16", "grant_type=%E2%8"), [400]),
            ("not UTF-8", post("Content-Length: 14", "grant_type=%FF"), [400]),
        ]
        let found = try await onThread { cases.map { Self.status(of: $0.1, port: port) } }
        for ((name, _, expected), status) in zip(cases, found) {
            #expect(expected.contains(status), "\(name): \(status.map(String.init) ?? "-")")
        }
        #expect(try await relayd.stop() == 0)
    }

    /// `nil` if the relay closes without an answer, as it may while it is still being sent to.
    private static func status(of request: String, port: Int) -> Int? {
        guard let socket = RawSocket(port: port) else { return nil }
        // As much as possible: the relay reads no more after its answer.
        var rest = Array(request.utf8)
        while !rest.isEmpty, let sent = socket.offer(rest), sent > 0 { rest.removeFirst(sent) }
        var text: [UInt8] = []
        while text.count < 12, let bytes = socket.receive() { text += bytes }
        return String(decoding: text, as: UTF8.self).hasPrefix("HTTP/1.1 ") ? Int(String(decoding: text[9..<12], as: UTF8.self)) : nil
    }

    /// Each ends its own channel, by the frame's fault or the message's, or is passed over.
    @Test(arguments: [false, true])
    func jsonBombsEndOnlyTheirChannel(isWelcome: Bool) async throws {
        let (relayd, eve) = try await relay()
        let port = relayd.port
        try await onThread {
            let bombs = JSONBombs.all(isWelcome ? 100_000 : 30_000, beginning: isWelcome ? #""type":"noise","# : #""type":"hello","#)
            for bomb in bombs {
                let channel = try eve.channel(port, isWelcome: isWelcome)
                try channel.send(bomb.bytes)
                try channel.send(opcode: 9, [0xB0])
                let (opcode, payload) = try channel.frame()
                // 1007: no message. 1002: a message that is not awaited.
                let isSound =
                    opcode == 10 || opcode == 8 && ([[0x03, 0xEF], [0x03, 0xEA]] as [[UInt8]]).contains(Array(payload.prefix(2)))
                #expect(isSound, "\(bomb.name): \(opcode) \(payload.prefix(2))")
                // Nothing of it is said back.
                #expect(payload.count <= 125)
            }
            _ = try eve.channel(port, isWelcome: true)
        }
        #expect(try await relayd.stop() == 0)
    }

    /// Where JSON stands within something else: an access token's parts, and a proof's.
    @Test func jsonBombsInTokensAndProofsAreRejected() async throws {
        let (relayd, _) = try await relay()
        let (port, host) = (relayd.port, relayd.host)
        let mallory = Eve(endpoint: WireEndpoint("Mallory", at: relayd))
        try await onThread {
            for bomb in JSONBombs.all(6_000, beginning: #""alg":"ES256","typ":"dpop+jwt","#) {
                let part = Base64.url.encode(bomb.bytes)
                for token in ["\(part).\(part).AAAA", "\(part).e30.", "eyJhbGciOiJFUzI1NiJ9.\(part).AAAA"] {
                    mallory.endpoint.token = token
                    let channel = try RawWebSocket(port: port)
                    guard case .challenge(let challenge) = try channel.message() else {
                        throw RawWebSocket.Broken(description: "no challenge")
                    }
                    try channel.send(try mallory.endpoint.hello(to: challenge, role: .host))
                    guard case .rejected = try channel.message() else {
                        throw RawWebSocket.Broken(description: "\(bomb.name): not rejected")
                    }
                }
                let form = "grant_type=refresh_token&client_id=a&refresh_token=a"
                for field in ["DPoP: \(part).\(part).AAAA", "DPoP: eyJhbGciOiJFUzI1NiJ9.\(part).AAAA"] {
                    let request =
                        "POST /auth/token HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\(field)\r\n"
                        + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: \(form.utf8.count)\r\n\r\n\(form)"
                    #expect([400, 401, 429].contains(Self.status(of: request, port: port)), "\(bomb.name)")
                }
            }
        }
        #expect(try await relayd.stop() == 0)
    }
}
#endif
