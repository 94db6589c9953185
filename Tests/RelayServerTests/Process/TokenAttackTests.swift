// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

/// Clients that send the issuer nonsense, so that others cannot join or refresh.
@Suite(.timeLimit(.minutes(10))) struct TokenAttackTests {
    private func running(_ arguments: String...) async throws -> RelaydProcess {
        let relayd = try await RelaydProcess(arguments: arguments)
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        return relayd
    }

    /// The status of the answer to a token request with a made-up refresh token.
    private func nonsense(_ relayd: RelaydProcess, for client: String? = nil) async throws -> String {
        let socket = try await TestSocket(port: relayd.port)
        let form = "grant_type=refresh_token&client_id=org.example.test&refresh_token=nonsense"
        try await socket.send(
            "POST /auth/token HTTP/1.1\r\nHost: \(relayd.host)\r\nConnection: close\r\n"
                + (client.map { "X-Forwarded-For: \($0)\r\n" } ?? "")
                + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: \(form.utf8.count)\r\n\r\n\(form)"
        )
        return String(await socket.textUntilClosed().dropFirst(9).prefix(3))
    }

    @Test func invalidRequestsFromAnAddressDoNotBlockJoining() async throws {
        let relayd = try await running()
        for _ in 0..<60 { #expect(try await nonsense(relayd) == "400") }
        #expect(try await nonsense(relayd) == "429")
        let phone = WireEndpoint("Phone", at: relayd)
        try await phone.join(try await relayd.run("invite", "Anna"))
        try await phone.connect()
        #expect(try await nonsense(relayd) == "429")
        #expect(try await relayd.stop() == 0)
    }

    @Test func invalidRequestsThroughAProxyCountForTheirClient() async throws {
        let relayd = try await running("--trusted-proxy", "127.0.0.1", "--token-failures-per-minute", "5")
        for _ in 0..<5 { #expect(try await nonsense(relayd, for: "192.0.2.1") == "400") }
        #expect(try await nonsense(relayd, for: "192.0.2.1") == "429")
        #expect(try await nonsense(relayd, for: "192.0.2.99, 192.0.2.1") == "429")
        #expect(try await nonsense(relayd, for: "192.0.2.2") == "400")
        // A network of IPv6 is one address.
        for host in 1...5 { #expect(try await nonsense(relayd, for: "2001:db8::\(host)") == "400") }
        #expect(try await nonsense(relayd, for: "2001:db8::99") == "429")
        #expect(try await nonsense(relayd, for: "2001:db8:0:1::1") == "400")
        #expect(try await relayd.stop() == 0)
    }

    @Test func invalidRequestsFromManyAddressesDoNotBlockOthers() async throws {
        let relayd = try await running(
            "--trusted-proxy",
            "127.0.0.1",
            "--token-failures-per-minute",
            "1",
            "--token-failure-addresses",
            "20"
        )
        for number in 1...60 { #expect(try await nonsense(relayd, for: "192.0.2.\(number)") == "400") }
        #expect(try await nonsense(relayd, for: "192.0.2.200") == "400")
        #expect(try await nonsense(relayd, for: "192.0.2.200") == "429")
        #expect(try await relayd.stop() == 0)
    }
}
