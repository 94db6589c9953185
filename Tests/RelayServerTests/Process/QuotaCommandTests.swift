// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayServer
import RelayTesting
import Testing

/// `relayd account quota`, with a relay that runs and without one.
@Suite(.timeLimit(.minutes(10))) struct QuotaCommandTests {
    private func ended(_ relayd: RelaydProcess, _ arguments: [String]) async throws -> RelaydProcess.Ended {
        try await RelaydProcess.run(["account", "quota"] + arguments + ["--data-directory", relayd.directory.path])
    }

    private func quotas(_ relayd: RelaydProcess, _ arguments: String...) async throws -> [String: AdminQuotas.Quota] {
        let ended = try await ended(relayd, arguments + ["--json"])
        guard ended.status == 0 else { throw WireEndpoint.Unexpected(message: ended.error) }
        let quotas = try JSONDecoder().decode(AdminQuotas.self, from: Data(ended.output.utf8)).quotas
        return Dictionary(uniqueKeysWithValues: quotas.map { ($0.name, $0) })
    }

    private func joining(_ name: String, _ relayd: RelaydProcess) async throws -> WireEndpoint {
        let endpoint = WireEndpoint(name, at: relayd)
        try await endpoint.join(try await relayd.run("invite", "Anna"))
        return endpoint
    }

    private func rejection(_ endpoint: WireEndpoint) async throws -> RelayMessage.Rejected? {
        // The first answer names the account.
        _ = try? await endpoint.connect()
        guard case .rejected(let rejected) = try await endpoint.greet(role: .host).1 else { return nil }
        return rejected
    }

    @Test func quotaIsReachedRaisedAndGoneOnWith() async throws {
        let relayd = try await RelaydProcess(arguments: ["--limit", "mailboxCommands=900"])
        let before = try await RelaydProcess.run(["account", "add", "Anna", "--data-directory", relayd.directory.path])
        #expect(before.status == 0)
        // Without a relay.
        let first = try await quotas(relayd, "Anna")
        #expect(first.keys.sorted() == AccountQuotas.limits.map(\.rawValue).sorted())
        #expect(first.values.allSatisfy { !$0.isSet && $0.used == 0 && $0.value == $0.relayValue })
        #expect(try await quotas(relayd, "Anna", "--set", "endpointsPerAccount=2")["endpointsPerAccount"]?.isSet == true)
        _ = try await relayd.start()
        // The value that is not set is that of the relay that runs.
        #expect(try await quotas(relayd, "anna")["mailboxCommands"]?.value == 900)
        let (phone, pc) = (try await joining("Phone", relayd), try await joining("PC", relayd))
        for endpoint in [phone, pc] { try await endpoint.connect() }
        let tablet = try await joining("Tablet", relayd)
        let rejected = try #require(try await rejection(tablet))
        #expect(rejected.code == .limitExceeded && rejected.message.contains("endpointsPerAccount is limited to 2"), "\(rejected)")
        let raised = try await quotas(relayd, "Anna", "--set", "endpointsPerAccount=3", "--set", "mailboxCommands=1")
        #expect(raised["endpointsPerAccount"]?.value == 3 && raised["endpointsPerAccount"]?.used == 2)
        #expect(raised["endpointsPerAccount"]?.relayValue == Limit.endpointsPerAccount.defaultValue)
        for endpoint in [phone, pc] { #expect(await endpoint.closeCode() == 1012) }
        try await tablet.connect()
        for endpoint in [phone, pc] { try await endpoint.connect() }
        guard case .welcome(let welcome) = try await phone.greet(role: .client).1 else {
            throw WireEndpoint.Unexpected(message: "rejected")
        }
        #expect(welcome.limits[.endpointsPerAccount] == 3 && welcome.limits[.mailboxCommands] == 1 && welcome.accountName == "Anna")

        await pc.disconnect()
        func send(_ number: UInt64) async throws -> RelayMessage.Failure? {
            let answer = try await phone.send(try phone.launch("film:\(number)", on: pc, number: number))
            return if case .failure(let failure) = answer { failure } else { nil }
        }
        #expect(try await send(1) == nil)
        let full = try #require(try await send(2))
        #expect(full.code == .mailboxFull && full.limit?.name == "mailboxCommands" && full.message.contains("limited to 1"), "\(full)")
        // The power fails. What was answered is there, and holds.
        try await relayd.kill()
        _ = try await relayd.start()
        try await phone.connect()
        #expect(try await send(2)?.limit?.name == "mailboxCommands")
        let reset = try await quotas(relayd, "Anna", "--reset", "mailboxCommands")
        #expect(
            reset["mailboxCommands"]?.isSet == false && reset["mailboxCommands"]?.used == 1 && reset["endpointsPerAccount"]?.isSet == true
        )
        #expect(try await send(2) == nil)
        // Lowered below its use: the devices stay, and nothing waits in vain.
        #expect(
            try await quotas(relayd, "Anna", "--set", "endpointsPerAccount=1", "--set", "mailboxCommands=1")["endpointsPerAccount"]?.used
                == 3
        )
        for endpoint in [pc, tablet] { try await endpoint.connect() }
        for number in 1...2 { #expect(try await pc.handleNext() == .launch(.init(uri: try LaunchURI("film:\(number)")))) }

        let line = try await ended(relayd, ["Anna"])
        #expect(line.output.contains("endpointsPerAccount       1 (set, default 64), 3 used"), "\(line.output)")
        #expect(try await relayd.run("account", "list").contains("3 endpoints, endpointsPerAccount 1, mailboxCommands 1"))
        let export = try JSONDecoder().decode(AdminExport.self, from: Data(try await relayd.run("account", "export", "Anna").utf8))
        #expect(export.account.quotas == ["endpointsPerAccount": 1, "mailboxCommands": 1])
        #expect(try await relayd.stop() == 0)
        // Without a relay again.
        #expect(try await quotas(relayd, "Anna", "--reset", "all").values.allSatisfy { !$0.isSet })
        #expect(try await !relayd.run("account", "list").contains("mailboxCommands"))
    }

    @Test func badRequestsChangeNothingAndSayWhatToDo() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        let cases: [([String], Int32, String)] = [
            (["Nobody"], 1, "relayd account list"), (["Nobody", "--set", "mailboxBytes=5"], 1, "relayd account list"),
            ([], 2, "account"), (["Anna", "--set", "mailboxBytes"], 2, "NAME=VALUE"),
            (["Anna", "--set", "mailboxBytes=-1"], 2, "from 1 to 1073741824"),
            (["Anna", "--set", "mailboxBytes=99999999999999999999"], 2, "from 1"),
            (["Anna", "--set", "films=1"], 2, "the quotas are endpointsPerAccount"),
            (["Anna", "--set", "uriBytes=1"], 2, "relayd serve --limit"),
            (["Anna", "--set", "mailboxBytes=5", "--set", "films=1"], 2, "the quotas are"),
            (["Anna", "--reset", "films"], 2, "the quotas are"),
            (["Anna", "--set", "mailboxBytes=5", "--reset", "all"], 2, "choose one"),
        ]
        for (arguments, status, words) in cases {
            let ended = try await ended(relayd, arguments)
            #expect(ended.status == status && ended.output.isEmpty && ended.error.contains(words), "\(arguments): \(ended)")
        }
        // What the command would not send.
        for change in [QuotaChange(["mailboxBytes": .min]), QuotaChange(["films": 1]), QuotaChange(reset: ["films"])] {
            await #expect(throws: AdminError.self) {
                _ = try await AdminSocket.ask(.accountQuotas("Anna", change), in: relayd.directory.path)
            }
        }
        #expect(try await quotas(relayd, "Anna").values.allSatisfy { !$0.isSet })
        #expect(try await relayd.stop() == 0)
    }

    /// The introduction of a device has a voucher from each other one, and has to fit into a frame.
    @Test func moreDevicesThanAFrameCanIntroduceAreRefused() async throws {
        let small = [
            "controlFrameBytes=40000", "endpointsPerAccount=2", "commandBytes=4096", "replyBytes=4096", "appRegistrationsBytes=2048",
        ]
        let relayd = try await RelaydProcess(arguments: (small + ["appRegistrationBytes=2048"]).flatMap { ["--limit", $0] })
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        let ended = try await ended(relayd, ["Anna", "--set", "endpointsPerAccount=1000"])
        #expect(ended.status == 1 && ended.error.contains("controlFrameBytes"), "\(ended)")
        #expect(try await quotas(relayd, "Anna", "--set", "endpointsPerAccount=3")["endpointsPerAccount"]?.value == 3)
        #expect(try await relayd.stop() == 0)
    }

    @Test func quotasAreInBackups() async throws {
        let relayd = try await RelaydProcess()
        let file = FileManager.default.temporaryDirectory.appending(path: "quota-\(UUID().uuidString).tar")
        defer { try? FileManager.default.removeItem(at: file) }
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        _ = try await quotas(relayd, "Anna", "--set", "accountBytes=5000000")
        _ = try await relayd.run("backup", file.path)
        _ = try await quotas(relayd, "Anna", "--reset", "all")
        #expect(try await relayd.stop() == 0)
        _ = try await relayd.run("restore", file.path, "--force")
        #expect(try await quotas(relayd, "Anna")["accountBytes"]?.value == 5_000_000)
    }

    @Test func tableOfAnImportHasQuotas() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        func importing(_ table: String) async throws -> RelaydProcess.Ended {
            try await RelaydProcess.run(["account", "import", "-", "--data-directory", relayd.directory.path], input: table)
        }
        let made = try await importing("endpointsPerAccount,name,accountBytes\n5,Anna,\n,Bert,\n7,Carl,1000000\n")
        #expect(made.status == 0, "\(made.error)")
        #expect(try await quotas(relayd, "Anna").values.filter(\.isSet).map(\.value) == [5])
        #expect(try await quotas(relayd, "Bert").values.allSatisfy { !$0.isSet })
        #expect(try await quotas(relayd, "Carl").values.filter(\.isSet).map(\.value).sorted() == [7, 1_000_000])
        // Those that exist get them, too, and an empty field changes nothing.
        let again = try await importing("name,endpointsPerAccount,accountBytes\nAnna,,2000000\nBert,8,\n")
        #expect(again.status == 0 && !again.output.contains(",added,"), "\(again)")
        #expect(try await quotas(relayd, "Anna").values.filter(\.isSet).map(\.value).sorted() == [5, 2_000_000])
        #expect(try await quotas(relayd, "Bert")["endpointsPerAccount"]?.value == 8)
        for (table, words) in [
            ("name,endpointsPerAccount\nDora,0\nEmil,5\nFritz,many\n", ["line 2: ", "line 4: ", "from 1 to 1024"]),
            ("name,endpointsPerAccount,endpointsPerAccount\nDora,1,2\n", ["each column once"]),
            ("endpointsPerAccount\n5\n", ["has to name the column name"]),
            ("name,uriBytes\nDora,5\n", ["'uriBytes'", "name, endpointsPerAccount"]),
        ] {
            let refused = try await importing(table)
            #expect(refused.status == 1 && words.allSatisfy(refused.error.contains), "\(table): \(refused)")
        }
        #expect(try await !relayd.run("account", "list").contains("Emil"))
        // More of them than fit into one request.
        let columns = AccountQuotas.limits.map(\.rawValue)
        let rows = (1...400).map { "Person \($0)," + columns.map { _ in "1000" }.joined(separator: ",") + "\n" }
        let many = try await importing("name,\(columns.joined(separator: ","))\n" + rows.joined())
        #expect(many.status == 0 && many.output.matches(of: #/,added,/#).count == 400, "\(many.error)")
        #expect(try await quotas(relayd, "Person 400").values.allSatisfy { $0.isSet && $0.value == 1_000 })
        #expect(try await relayd.stop() == 0)
    }
}
