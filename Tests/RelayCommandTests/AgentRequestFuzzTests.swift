// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayTesting
import Testing

/// Bytes that are no request at each listener of an agent: any program of this machine, and any page in its browser, can send them.
@Suite(.serialized, .timeLimit(.minutes(10))) struct AgentRequestFuzzTests {
    private struct NoConnection: Error {}

    private enum Door {
        case port(UInt16)
        case socket(String)
    }

    /// Sends bytes on a connection of their own, with or without its end, and reads what comes.
    private static func send(_ bytes: [UInt8], to door: Door, ends: Bool) async throws {
        try await ProcessRun.blocking {
            let descriptor: Int32
            let isConnected: Int32
            switch door {
            case .port(let port):
                descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
                var address = sockaddr_in()
                address.sin_family = sa_family_t(AF_INET)
                address.sin_port = port.bigEndian
                address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
                isConnected = withUnsafeBytes(of: address) { raw in
                    connect(descriptor, raw.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t(raw.count))
                }
            case .socket(let path):
                descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
                var address = sockaddr_un()
                address.sun_family = sa_family_t(AF_UNIX)
                withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8).prefix($0.count - 1)) }
                isConnected = withUnsafeBytes(of: address) { raw in
                    connect(descriptor, raw.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t(raw.count))
                }
            }
            defer { close(descriptor) }
            guard isConnected == 0 else { throw NoConnection() }
            // The agent may close while bytes come.
            _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
            guard ends else { return }
            shutdown(descriptor, Int32(SHUT_WR))
            var patience = timeval(tv_sec: 2, tv_usec: 0)
            setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while recv(descriptor, &buffer, buffer.count, 0) > 0 {}
        }
    }

    private static func requests(host: String) -> [[UInt8]] {
        let head = "HTTP/1.1\r\nHost: \(host)\r\n"
        let texts = [
            "x\r\n", "\r\n\r\n", "\0\u{1}\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "CONNECT \(host) \(head)\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "GET / \(head)X: \(String(repeating: "a", count: 200_000))\r\n\r\n",
            "GET / \(head)\(String(repeating: "X: a\r\n", count: 2_000))\r\n",
            "GET /app.js \(head)\r\nGET /app.js \(head)\r\n", "GET /app.js \(head)\r\n\0garbage\r\n\r\n",
            "GET /app.js \(head)Accept-Encoding: gzip\r\n\r\nGET / HTTP/9.9\r\n\r\n",
            "GET /app.js \(head)Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "POST /v1/launches \(head)Content-Length: 5\r\nContent-Length: 6\r\n\r\n00000",
            "POST /v1/launches \(head)Content-Length: -1\r\n\r\n", "POST /v1/launches \(head)Content-Length: 99999999999999999999\r\n\r\n",
            "POST /v1/launches \(head)Transfer-Encoding: foo\r\n\r\n00000",
            "POST /v1/launches \(head)Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            "POST /v1/launches \(head)Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
            "POST /v1/console/sessions \(head)Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{",
            "POST /v1/console/sessions \(head)Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
            "GET /v1/events \(head)Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\r\n",
            "GET /%00%ff%zz?%=%&&& \(head)\r\n", "GET //../../etc/passwd \(head)\r\n",
        ]
        // The first bytes of a browser that speaks TLS.
        return texts.map { Array($0.utf8) } + [
            [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xFC, 0x03, 0x03] + [UInt8](repeating: 7, count: 600)
        ]
    }

    /// Changes some bytes.
    private static func changed(_ bytes: [UInt8], _ generator: inout SeededGenerator) -> [UInt8] {
        var bytes = Array(bytes.prefix(2_000))
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            let position = Int.random(in: 0..<max(bytes.count, 1), using: &generator)
            switch Int.random(in: 0..<4, using: &generator) {
            case 0 where !bytes.isEmpty: bytes[position] = UInt8.random(in: .min ... .max, using: &generator)
            case 1 where !bytes.isEmpty: bytes.remove(at: position)
            case 2: bytes.insert(contentsOf: Array("\r\n".utf8), at: min(position, bytes.count))
            default: bytes = Array(bytes.prefix(position))
            }
        }
        return bytes
    }

    @Test func bytesThatAreNoRequestEndTheirConnectionAlone() async throws {
        let port = try FreePort.take()
        let pair = try await AgentPair("api: {listen: \"127.0.0.1:\(port)\"}")
        let url = try #require(try await pair.desk.relay("console", "--print").output.first?.split(separator: "/#").first.map(String.init))
        let console = try #require(URL(string: url)?.port.flatMap { UInt16(exactly: $0) })
        let socket = try #require(
            try JSON.object(String(contentsOfFile: pair.desk.home + "/agent.json", encoding: .utf8))["socket"] as? String
        )
        let seed = UInt64.random(in: .min ... .max)
        var generator = SeededGenerator(seed: seed)
        for (door, host) in [
            (Door.port(console), "127.0.0.1:\(console)"), (.port(UInt16(port)), "127.0.0.1:\(port)"), (.socket(socket), "relay"),
        ] {
            let requests = Self.requests(host: host)
            let all = requests + (0..<60).map { _ in Self.changed(requests.randomElement(using: &generator) ?? [], &generator) }
            for (number, bytes) in all.enumerated() {
                for ends in [true, false] {
                    do {
                        try await Self.send(bytes, to: door, ends: ends)
                    } catch {
                        Issue.record("seed \(seed), \(door), number \(number): \(String(decoding: bytes.prefix(300), as: UTF8.self))")
                        return
                    }
                }
            }
            #expect(try await AgentAPI.curl(["\(url)/app.js"]).status == 200, "seed \(seed), \(door)")
            #expect(try await AgentAPI.curl(pair.desk, "/v1/devices").status == 200, "seed \(seed), \(door)")
        }
        // The page still comes compressed.
        #expect(try await AgentAPI.curl(["\(url)/app.js", "--compressed", "-H", "Accept-Encoding: gzip"]).text.contains("import"))
    }
}
#endif
