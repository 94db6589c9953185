// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Where the real service listens, and what it says there.
@Suite(.timeLimit(.minutes(10))) struct ListeningTests {
    @Test func tokensAndLinksNameTheActualPort() async throws {
        let relayd = try await RelaydProcess(port: 0)
        let ready = try await relayd.start()
        #expect(relayd.port != 0)
        #expect(ready.contains(relayd.origin))
        _ = try await relayd.run("account", "add", "Anna")
        let phone = WireEndpoint("Phone", at: relayd)
        let link = try await relayd.run("invite", "Anna")
        #expect(link.hasPrefix(relayd.origin + "/#"))
        try await phone.join(link)
        try await phone.connect()
        let answer = try await get("/auth/.well-known/openid-configuration", port: relayd.port)
        #expect(answer.contains("\"issuer\":\"\(relayd.origin)/auth\""))
        #expect(try await relayd.stop() == 0)
    }

    @Test func inviteWithPortZeroNeedsARunningRelay() async throws {
        let relayd = try await RelaydProcess(port: 0)
        relayd.standardError = .nullDevice
        _ = try await relayd.run("account", "add", "Anna")
        await #expect(throws: RelaydProcess.Failed.self) { try await relayd.run("invite", "Anna") }
    }

    @Test func metricsAreServedOnlyAtTheirAddress() async throws {
        // A port that was just free.
        let port = try await RelaydProcess().port
        let relayd = try await RelaydProcess(arguments: ["--metrics-listen", "127.0.0.1:\(port)"])
        let ready = try await relayd.start()
        #expect(!ready.contains(":\(port)"))
        #expect(try await get("/metrics", port: relayd.port).hasPrefix("HTTP/1.1 404"))
        let metrics = try await get("/metrics", port: port)
        #expect(metrics.hasPrefix("HTTP/1.1 200"))
        #expect(metrics.contains("\nrelay_control_channels 0\n"))
        // Nothing else is there, and a page whose name was rebound to it reads nothing.
        for path in ["/healthz", "/v1/connect", "/auth/jwks"] {
            #expect(try await get(path, port: port).hasPrefix("HTTP/1.1 404"))
        }
        #expect(try await get("/metrics", port: port, host: "rebound.example:\(port)").hasPrefix("HTTP/1.1 421"))
        #expect(try await relayd.stop() == 0)
    }

    @Test(arguments: ["--listen", "--tunnel-listen", "--metrics-listen"])
    func portInUseIsNamedAndUsesUpNoLink(option: String) async throws {
        let other = try await RelaydProcess()
        _ = try await other.start()
        let directory = FileManager.default.temporaryDirectory.appending(path: "port-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        var ports = ["--listen": "127.0.0.1:0", "--tunnel-listen": "127.0.0.1:0"]
        ports[option] = other.host
        let arguments = ["serve", "--data-directory", directory] + ports.flatMap { [$0.key, $0.value] }
        let ended = try await RelaydProcess.run(arguments)
        #expect(ended.status == 1)
        #expect(ended.error.contains("\(other.host) is in use by another program"), "\(ended.error)")
        #expect(ended.error.contains(":\(other.port)'` names") && ended.error.contains("another port with \(option)"), "\(ended.error)")
        #expect(ended.output.isEmpty)
        // The first start is still to come.
        #expect(try await RelaydProcess.run(["account", "list", "--data-directory", directory]).output.isEmpty)
        #expect(try await other.stop() == 0)
    }

    /// What people type: the relay's name alone.
    @Test func theRelaysAddressLeadsABrowserToTheAccountPage() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        for path in ["/", "/auth", "/auth/"] {
            let answer = try await get(path, port: relayd.port).lowercased()
            #expect(answer.hasPrefix("http/1.1 303") && answer.contains("\r\nlocation: /auth/account\r\n"), "\(answer)")
        }
        #expect(try await relayd.stop() == 0)
    }

    @Test func metricsAreOffWithoutAnAddress() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        #expect(try await get("/metrics", port: relayd.port).hasPrefix("HTTP/1.1 404"))
        #expect(try await relayd.stop() == 0)
    }

    @Test(arguments: [("debug", true), ("warning", false)])
    func logLevelIsApplied(level: String, isSaid: Bool) async throws {
        let relayd = try await RelaydProcess(arguments: ["--log-level", level])
        let log = FileManager.default.temporaryDirectory.appending(path: "log-\(UUID().uuidString)")
        #expect(FileManager.default.createFile(atPath: log.path, contents: nil))
        defer { try? FileManager.default.removeItem(at: log) }
        relayd.standardError = try FileHandle(forWritingTo: log)
        _ = try await relayd.start()
        let channel = try await TestWebSocket.open(try await TestSocket(port: relayd.port), host: relayd.host)
        _ = try await channel.challenge()
        try await channel.send(text: "no JSON")
        #expect(await channel.closeCode() != nil)
        #expect(try await relayd.stop() == 0)
        let said = try String(contentsOf: log, encoding: .utf8)
        #expect(said.contains(" debug control channel closes ") == isSaid)
        // The messages of the libraries belong to another level.
        #expect(said.split(separator: "\n").count { $0.contains(" debug ") } == (isSaid ? 1 : 0), "\(said)")
    }

    private func get(_ path: String, port: Int, host: String? = nil) async throws -> String {
        let socket = try await TestSocket(port: port)
        try await socket.send("GET \(path) HTTP/1.1\r\nHost: \(host ?? "127.0.0.1:\(port)")\r\nConnection: close\r\n\r\n")
        return await socket.textUntilClosed()
    }
}
