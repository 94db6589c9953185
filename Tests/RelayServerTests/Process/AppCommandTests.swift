// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Crypto
import Foundation
import RelayProtocol
import RelayServer
import RelayTesting
import Testing

/// `relayd app`, with and without a running relay.
@Suite(.timeLimit(.minutes(10))) struct AppCommandTests {
    private func run(_ relayd: RelaydProcess, _ arguments: [String]) async throws -> RelaydProcess.Ended {
        try await RelaydProcess.run(["app"] + arguments + ["--data-directory", relayd.directory.path])
    }

    private func app(_ ended: RelaydProcess.Ended) throws -> AdminApp {
        try #require(ended.status == 0, "\(ended.error)")
        return try JSONDecoder().decode(AdminApp.self, from: Data(ended.output.utf8))
    }

    private func write(_ text: String) throws -> String {
        let file = FileManager.default.temporaryDirectory.appending(path: "credential-\(UUID().uuidString)")
        try Data(text.utf8).write(to: file)
        return file.path
    }

    @Test func credentialsAreStoredAndNotShown() async throws {
        let relayd = try await RelaydProcess()
        let key = P256.Signing.PrivateKey().pemRepresentation
        let keyFile = try write(key)
        let secret = "canary-" + UUID().uuidString
        let secretFile = try write(secret + "\n")
        let account = #"{"project_id":"project","client_email":"relay@project.example","private_key":"canary-\#(UUID().uuidString)"}"#
        let accountFile = try write(account)
        defer { for file in [keyFile, secretFile, accountFile] { try? FileManager.default.removeItem(atPath: file) } }
        let apns = ["--signing-key", keyFile, "--key-id", "ABCDEFGHIJ", "--team-id", "0123456789", "--topic", "org.example.player"]
        // Before the relay ever ran, and while it does.
        var shown = try app(try await run(relayd, ["credential", "apns", "default", "--json"] + apns))
        #expect(shown.credentials.map(\.type) == ["apns"])
        _ = try await relayd.start()
        shown = try app(try await run(relayd, ["credential", "fcm", "default", "--service-account", accountFile, "--json"]))
        shown = try app(
            try await run(relayd, ["credential", "wns", "default", "--package-sid", "ms-app://s-1", "--secret-file", secretFile, "--json"])
        )
        shown = try app(try await run(relayd, ["credential", "web-push", "default", "--contact", "mailto:me@example.org", "--json"]))
        #expect(Set(shown.credentials.map(\.type)) == ["apns", "fcm", "wns", "webPush"])
        let list = try await relayd.run("app", "list")
        #expect(list.contains("team 0123456789, key ABCDEFGHIJ, topic org.example.player") && list.contains("public key B"), "\(list)")
        // The database and the answers have nothing of the secrets.
        let keyLine = key.split(separator: "\n")[1]
        for file in try FileManager.default.contentsOfDirectory(atPath: relayd.directory.path) where file != "relay.socket" {
            let text = String(decoding: try Data(contentsOf: relayd.directory.appending(path: file)), as: UTF8.self)
            #expect(!text.contains(secret) && !text.contains("canary-") && !text.contains(keyLine), "\(file)")
        }
        #expect(!list.contains("canary-") && !list.contains(keyLine))
        // Removed credentials are gone.
        let id = try #require(shown.credentials.first).id
        #expect(try app(try await run(relayd, ["credential", "remove", "default", id, "--json"])).credentials.count == 3)
        #expect(try await run(relayd, ["credential", "remove", "default", id]).status == 1)
        #expect(try await relayd.stop() == 0)
        #expect(try await relayd.run("app", "list").contains("fcm, project project, relay@project.example"))
    }

    @Test func wrongArgumentsAreExplained() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.run("account", "add", "Anna")
        let text = try write("no key")
        defer { try? FileManager.default.removeItem(atPath: text) }
        let wrong: [(arguments: [String], status: Int32, error: String)] = [
            (["add", "https://example.org"], 1, "a domain"),
            (["add", "example.org", "--app", "amiga=x"], 1, "PLATFORM=ID"),
            (["verify", "example.org"], 1, "relayd app list"),
            (["verify", "default"], 1, "relayd app list"),
            (["remove", "example.org"], 1, "relayd app list"),
            (["credential", "fcm", "default", "--service-account", text], 2, "project_id"),
            (["credential", "wns", "default", "--secret-file", text], 2, "--package-sid"),
            (["credential", "web-push", "default", "--contact", "me@example.org"], 2, "mailto:"),
            (["credential", "web-push", "default", "--contact", "mailto:me@example.org", "--signing-key", text], 2, "no P-256 key"),
            (
                ["credential", "web-push", "default", "--contact", "mailto:me@example.org", "--signing-key", "/nowhere"], 2,
                "cannot be read"
            ),
            (["credential", "web-push", "example.org", "--contact", "mailto:me@example.org"], 1, "relayd app list"),
        ]
        for (arguments, status, error) in wrong {
            let ended = try await run(relayd, arguments)
            #expect(ended.status == status && ended.error.contains(error), "\(arguments): \(ended.error)")
        }
    }
}
#endif
