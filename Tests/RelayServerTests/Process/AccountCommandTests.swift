// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayServer
import RelayTesting
import Testing

/// What the operator does to accounts, while their devices are connected and while no relay runs.
@Suite(.timeLimit(.minutes(10))) struct AccountCommandTests {
    private func account(_ relayd: RelaydProcess, _ arguments: String...) async throws -> AdminAccount {
        let arguments = ["account"] + arguments + ["--json", "--data-directory", relayd.directory.path]
        return try JSONDecoder().decode(AdminAccount.self, from: Data(try await RelaydProcess.run(arguments).output.utf8))
    }

    private func list(_ relayd: RelaydProcess) async throws -> [AdminAccount] {
        try JSONDecoder().decode([AdminAccount].self, from: Data(try await relayd.run("account", "list", "--json").utf8))
    }

    private func joined(_ name: String, _ account: String, at relayd: RelaydProcess) async throws -> WireEndpoint {
        let endpoint = WireEndpoint(name, at: relayd)
        try await endpoint.join(try await relayd.run("invite", account))
        try await endpoint.connect()
        return endpoint
    }

    private func rejection(_ endpoint: WireEndpoint) async throws -> RelayMessage.Rejected? {
        let (socket, answer) = try await endpoint.greet(role: .host)
        await socket.socket.close()
        return if case .rejected(let rejected) = answer { rejected } else { nil }
    }

    private func invalidated(_ endpoint: WireEndpoint) async throws -> ControlErrorCode {
        let code = try await endpoint.event { if case .authInvalidated(let invalidated) = $0 { invalidated.code } else { nil } }
        #expect(await endpoint.closeCode() == 1008)
        return code
    }

    @Test func namesAreUniqueAndIDsAreNoFlags() async throws {
        let relayd = try await RelaydProcess()
        // Before the relay ever ran, and while it does.
        let anna = try await account(relayd, "add", "Anna")
        #expect(anna.name == "Anna" && !anna.isDisabled && anna.endpoints == 0)
        #expect(anna.identities.map(\.issuer) == ["embedded"])
        #expect(anna.id.count == 32)
        #expect(anna.id.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) })
        _ = try await relayd.start()
        let bert = try await account(relayd, "add", "Bert")
        #expect(try await list(relayd) == [anna, bert])
        for arguments in [["add", "Anna"], ["rename", "Bert", "Anna"], ["rename", "Nobody", "Carl"], ["rename", "Bert", "\u{1B}[2J"]] {
            let ended = try await RelaydProcess.run(["account"] + arguments + ["--data-directory", relayd.directory.path])
            #expect(ended.status == 1, "\(arguments)")
            #expect(!ended.error.isEmpty)
        }
        #expect(try await account(relayd, "rename", bert.id, "Carl").name == "Carl")
        // The former name is free, and the new one is known to the issuer.
        _ = try await account(relayd, "add", "Bert")
        let phone = try await joined("Phone", "Carl", at: relayd)
        #expect(phone.account == bert.id)
        #expect(try await list(relayd).map(\.name) == ["Anna", "Carl", "Bert"])
        #expect(try await list(relayd).map(\.endpoints) == [0, 1, 0])
        #expect(try await relayd.run("account", "list").contains("\(bert.id)  Carl  1 endpoint"))
        #expect(try await relayd.stop() == 0)
        #expect(try await list(relayd).map(\.name) == ["Anna", "Carl", "Bert"])
    }

    @Test func anAccountIsAddedWithAPasswordOrASetUpLink() async throws {
        let relayd = try await RelaydProcess()
        let directory = ["--data-directory", relayd.directory.path]
        // Before the relay ever ran: a password is checked before anything is made.
        let weak = try await RelaydProcess.run(["account", "add", "Anna", "--password"] + directory, input: "short\n")
        #expect(weak.status == 1 && !weak.error.isEmpty)
        let none = try await RelaydProcess.run(["account", "add", "Anna", "--password"] + directory, input: "")
        #expect(none.status == 2, "\(none.error)")
        let both = try await RelaydProcess.run(["account", "add", "Anna", "--password", "--set-up"] + directory, input: "correct horse\n")
        #expect(both.status == 2, "\(both.error)")
        #expect(!FileManager.default.fileExists(atPath: relayd.directory.path))
        let added = try await RelaydProcess.run(["account", "add", "Anna", "--password"] + directory, input: "correct horse battery\n")
        #expect(added.status == 0, "\(added.error)")
        _ = try await relayd.start()
        let anna = SignInBrowser(origin: relayd.origin)
        _ = try await anna.get("/auth/login")
        let signedIn = try await anna.post("/auth/login", ["name": "Anna", "password": "correct horse battery"])
        #expect(signedIn.location == "/auth/account", "\(signedIn.status)")

        struct Added: Decodable {
            var name: String
            var setUpLink: String
        }
        let answer = try await relayd.run("account", "add", "Bert", "--set-up", "--json")
        let bert = try JSONDecoder().decode(Added.self, from: Data(answer.utf8))
        #expect(bert.name == "Bert")
        try await SignInBrowser(origin: relayd.origin).setUp(bert.setUpLink)
        let lines = try await relayd.run("account", "add", "Carl", "--set-up").split(separator: "\n")
        #expect(lines.count == 2 && lines[0].count == 32 && lines[1].contains("/auth/setup?token="))
    }

    @Test func setUpLinkOpensTheSetUpPage() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        for name in ["Anna", "Bert"] { _ = try await relayd.run("account", "add", name) }
        let link = try await relayd.run("account", "set-up", "Anna").trimmingCharacters(in: .whitespacesAndNewlines)
        let url = try #require(URLComponents(string: link))
        #expect(url.path == "/auth/setup")
        let browser = SignInBrowser(origin: relayd.origin)
        let page = try await browser.get(link)
        #expect(page.status == 303 && page.location == "/auth/setup", "\(page)")
        #expect(browser.secrets["relay-browser"] != nil, "\(page)")
        for arguments in [["set-up", "Carl"], ["set-up"]] {
            let ended = try await RelaydProcess.run(["account"] + arguments + ["--data-directory", relayd.directory.path])
            #expect(ended.status != 0 && ended.output.isEmpty, "\(arguments)")
            #expect(ended.error.contains("relayd account list"), "\(ended.error)")
        }
    }

    @Test func firstStartPrintsLinksForTheOwner() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "relayd-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        let arguments = ["serve", "--data-directory", directory.path, "--listen", "127.0.0.1:0", "--tunnel-listen", "127.0.0.1:0"]
        let first = RelaydProcess.process(arguments)
        let output = try ProcessStart.reading(first)
        let lines = try await RelaydProcess.lines(of: output, 3)
        let link = try #require(lines[1].split(separator: " ").last)
        let origin = try JoinLink(parsing: String(link), plainHTTP: .allowed).origin
        let browser = SignInBrowser(origin: origin)
        try await browser.setUp(try #require(lines[2].split(separator: " ").last.map(String.init)))
        #expect(try await browser.get("/auth/account").status == 200)
        first.terminate()
        try await ProcessRun.end(of: first)
        #expect(try await ProcessRun.blocking { try output.readToEnd() }?.isEmpty ?? true)
        // With an account there is nothing to set up.
        let second = RelaydProcess.process(arguments)
        let later = try ProcessStart.reading(second)
        let ready = try await RelaydProcess.lines(of: later, 1)
        second.terminate()
        try await ProcessRun.end(of: second)
        #expect(ready.count == 1)
        #expect(try await ProcessRun.blocking { try later.readToEnd() }?.isEmpty ?? true)
    }

    @Test func disabledAccountRejectsItsEndpoints() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        for name in ["Anna", "Bert"] { _ = try await relayd.run("account", "add", name) }
        let phone = try await joined("Phone", "Anna", at: relayd)
        let other = try await joined("PC", "Bert", at: relayd)
        #expect(try await account(relayd, "disable", "Anna").isDisabled)
        #expect(try await invalidated(phone) == .accountDisabled)
        let rejected = try #require(try await rejection(phone))
        #expect(rejected.code == .accountDisabled)
        #expect(!rejected.retry)
        // It stays so after a restart, and for new devices; its endpoints cannot invite.
        #expect(try await relayd.stop() == 0)
        _ = try await relayd.start()
        #expect(try await rejection(phone)?.code == .accountDisabled)
        #expect(try await !phone.invite().contains(" 20"))
        let new = WireEndpoint("New", at: relayd)
        try await new.join(try await relayd.run("invite", "Anna"))
        #expect(try await rejection(new)?.code == .accountDisabled)
        try await other.connect()
        #expect(try await !account(relayd, "enable", "Anna").isDisabled)
        try await phone.connect()
        #expect(try await relayd.stop() == 0)
    }

    @Test func removalDeletesAllDataOfTheAccount() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        for name in ["Anna", "Bert"] { _ = try await relayd.run("account", "add", name) }
        let phone = try await joined("Anna's phone", "Anna", at: relayd)
        let tablet = try await joined("Anna's tablet", "Anna", at: relayd)
        let other = try await joined("PC", "Bert", at: relayd)
        guard case .ok = try await phone.publish("org.example.player") else { throw WireEndpoint.Unexpected(message: "not published") }
        await tablet.disconnect()
        let command = try phone.launch("https://secret.example", on: tablet, number: 1)
        guard case .ok = try await phone.send(command) else { throw WireEndpoint.Unexpected(message: "not sent") }
        let export = try await relayd.run("account", "export", "Anna", "--json")
        let exported = try JSONDecoder().decode(AdminExport.self, from: Data(export.utf8))
        #expect(Set(exported.endpoints.map(\.endpoint.name)) == ["Anna's phone", "Anna's tablet"])
        #expect(exported.endpoints.flatMap(\.apps).map(\.id) == ["org.example.player"])
        #expect(exported.commands == 1)
        #expect(!export.contains("secret.example") && !export.contains(phone.token))
        let id = phone.account
        let thumbprint = phone.identityKey.publicKey.jwkThumbprint
        #expect(try DatabaseDump.contains(id, in: relayd.directory, "relay.sqlite"))

        // Without a terminal to ask on, nothing is removed, however the account is named.
        for name in ["Anna", "ANNA", " anna", id] {
            let arguments = ["account", "remove", name, "--data-directory", relayd.directory.path]
            let unasked = try await RelaydProcess.run(arguments, input: "yes\n")
            #expect(unasked.status == 2 && unasked.error.contains("--yes"), "\(unasked.error)")
        }
        let unknown = try await RelaydProcess.run(["account", "remove", "Carl", "--yes", "--data-directory", relayd.directory.path])
        #expect(unknown.status == 1 && unknown.error.contains("no such account"), "\(unknown.error)")
        let left = try await list(relayd).compactMap(\.name)
        #expect(Set(left).isSuperset(of: ["Anna", "Bert"]), "\(left)")
        #expect(try await account(relayd, "remove", "ANNA", "--yes").id == id)
        #expect(try await invalidated(phone) == .accountUnknown)
        // Their tokens have not expired.
        for endpoint in [phone, tablet] {
            let rejected = try #require(try await rejection(endpoint))
            #expect([.accountUnknown, .tokenRevoked].contains(rejected.code))
        }
        await #expect(throws: (any Error).self) { try await phone.refresh() }
        _ = try await other.receivedMessages()
        #expect(try await list(relayd).filter { $0.endpoints > 0 || $0.name == "Anna" }.map(\.name) == ["Bert"])
        #expect(try await relayd.stop() == 0)
        _ = try await relayd.start()
        // A relay that has forgotten the revoked logins makes no new account either.
        for endpoint in [phone, tablet] {
            let rejected = try #require(try await rejection(endpoint))
            #expect([.accountUnknown, .tokenRevoked].contains(rejected.code))
        }
        #expect(try await list(relayd).filter { $0.endpoints > 0 || $0.name == "Anna" }.map(\.name) == ["Bert"])
        #expect(try await relayd.stop() == 0)
        for text in [id, thumbprint, "Anna", "org.example.player"] {
            #expect(try !DatabaseDump.contains(text, in: relayd.directory, "relay.sqlite"), "\(text)")
            #expect(try !DatabaseDump.contains(text, in: relayd.directory, "issuer.sqlite"), "\(text)")
        }
        // The name is free.
        _ = try await relayd.run("account", "add", "Anna")
    }
}
