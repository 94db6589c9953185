// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// The relay behind nginx, which uses its connections to the relay for many requests (`keepalive`).
@Suite(.timeLimit(.minutes(10)), .enabled(if: Nginx.isPossible, "needs Debian's package nginx")) struct NginxTests {
    @Test func aConnectionThatNginxHasUsedBeforeBecomesAChannel() async throws {
        let port = try FreePort.take()
        let host = "127.0.0.1:\(port)"
        let relayd = try await RelaydProcess(arguments: ["--url", "http://\(host)", "--trusted-proxy", "127.0.0.1"])
        _ = try await relayd.start()
        let nginx = try Nginx(port: port, upstream: "server \(relayd.host); keepalive 1;")
        try await nginx.wait {
            guard let socket = try? await TestSocket(port: port) else { return false }
            await socket.close()
            return true
        }
        var channels: [TestWebSocket] = []
        for _ in 0..<8 {
            let browser = try await TestSocket(port: port)
            try await browser.send("GET /healthz HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n")
            #expect(await browser.textUntilClosed().hasPrefix("HTTP/1.1 200"))
            let channel = try await TestWebSocket.open(try await TestSocket(port: port), host: host)
            _ = try await channel.challenge()
            channels.append(channel)
        }
        for (number, channel) in channels.enumerated() {
            try await channel.send(opcode: 9, Array("\(number)".utf8))
            #expect(await channel.frame() == .pong(Array("\(number)".utf8)))
        }
        #expect(try await relayd.stop() == 0)
        for channel in channels { #expect(await channel.closeCode() == 1012) }
        withExtendedLifetime(nginx) {}
    }
}
