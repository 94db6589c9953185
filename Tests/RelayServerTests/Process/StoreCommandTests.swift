// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import RelayProtocol
import RelayServer
import RelayTesting
import Testing

/// `relayd store` as a process.
@Suite(.timeLimit(.minutes(10)), .enabled(if: PostgresServer.isPossible)) struct StoreCommandTests {
    private let server: PostgresServer
    private let uri: String
    private let database: String

    init() async throws {
        server = try await PostgresServer.shared
        uri = try await server.makeURI()
        database = String(try #require(uri.firstMatch(of: /test_\w+/)).output)
    }

    private func store(_ arguments: String..., in directory: String) async throws -> RelaydProcess.Ended {
        try await RelaydProcess.run(["store"] + arguments + ["--data-directory", directory])
    }

    /// The words of a command that the output names, as a shell reads them.
    private func command(_ words: String, in output: String) async throws -> [String] {
        let line = try #require(output.split(separator: "\n").first { $0.hasPrefix("  relayd \(words)") })
        let text = try await ProcessRun.output(of: ["sh", "-c", "relayd() { printf '%s\\n' \"$@\"; }; \(line)"])
        return text.split(separator: "\n").map(String.init)
    }

    // MARK: Devices

    private func launch(_ number: UInt64, from phone: WireEndpoint, to pc: WireEndpoint) async throws {
        let command = try phone.launch("film:\(number)", on: pc, number: number)
        guard case .ok = try await phone.send(command) else { throw WireEndpoint.Unexpected(message: "not accepted") }
        #expect(try await pc.handleNext() == .launch(.init(uri: try LaunchURI("film:\(number)"))))
        #expect(try await phone.outcome(of: command, target: try pc.record().payload) == .succeeded)
    }

    @Test func devicesGoOnAfterCopies() async throws {
        let relayd = try await RelaydProcess()
        let directory = relayd.directory.path
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        let (phone, pc) = (WireEndpoint("Phone", at: relayd), WireEndpoint("PC", at: relayd))
        for endpoint in [phone, pc] {
            try await endpoint.join(try await relayd.run("invite", "Anna"))
            try await endpoint.connect()
        }
        guard case .ok = try await pc.publish("org.example.player") else { throw WireEndpoint.Unexpected(message: "not published") }
        try await launch(1, from: phone, to: pc)
        // One that nobody has got yet.
        await pc.disconnect()
        let waiting = try phone.launch("film:2", on: pc, number: 2)
        guard case .ok = try await phone.send(waiting) else { throw WireEndpoint.Unexpected(message: "not accepted") }
        let running = try await store("check", in: directory)
        #expect(running.status == 0 && running.output.contains("2 endpoints, 1 commands"), "\(running)")
        let refused = try await store("copy", "--to", uri, in: directory)
        #expect(refused.status == 1 && refused.error.contains("another relay uses \(directory): stop it first"))
        #expect(try await relayd.stop() == 0)

        let copied = try await store("copy", "--to", uri, in: directory)
        #expect(copied.status == 0 && copied.output.contains("2 endpoints, 1 commands"), "\(copied)")
        let check = try await RelaydProcess.run(command("store check", in: copied.output))
        #expect(check.status == 0 && check.output.contains("2 endpoints, 1 commands"), "\(check)")
        let serve = try await command("serve", in: copied.output)
        #expect(serve == ["serve", "--store", uri, "--data-directory", directory])

        // The relay goes on in PostgreSQL, at its address, without the files.
        for name in try FileManager.default.contentsOfDirectory(atPath: directory) where name.contains(".sqlite") {
            let file = relayd.directory.appending(path: name)
            try FileManager.default.moveItem(at: file, to: relayd.directory.appending(path: "old-\(name)"))
        }
        let node = try await RelaydProcess(port: relayd.port, directory: relayd.directory, arguments: ["--store", uri])
        _ = try await node.start()
        for endpoint in [phone, pc] { try await endpoint.connect() }
        #expect(try await pc.handleNext() == .launch(.init(uri: try LaunchURI("film:2"))))
        #expect(try await phone.outcome(of: waiting, target: try pc.record().payload) == .succeeded)
        try await launch(3, from: phone, to: pc)
        let whole = try await store("check", "--store", uri, in: directory)
        #expect(whole.status == 0 && whole.output.contains("2 endpoints"), "\(whole)")
        let refusedBack = try await store("copy", "--from", uri, in: directory)
        #expect(refusedBack.status == 1 && refusedBack.error.contains("another relay uses \(directory)"), "\(refusedBack)")
        #expect(try await node.stop() == 0)

        // And back.
        let back = try await store("copy", "--from", uri, "--json", in: directory)
        #expect(back.status == 0 && back.output.contains("\"endpoints\" : 2"), "\(back)")
        _ = try await relayd.start()
        for endpoint in [phone, pc] { try await endpoint.connect() }
        try await launch(4, from: phone, to: pc)
        #expect(try await relayd.stop() == 0)
    }

    @Test(arguments: [
        (["copy"], "--to or --from"), (["copy", "--to", "postgres:///a", "--from", "postgres:///b"], "--to or --from"),
        (["copy", "--to", "sqlite"], "PostgreSQL"), (["copy", "--to", "mysql://a"], "PostgreSQL"),
        (["copy", "--to", "postgres:///a", "--store", "postgres:///a"], "--store"),
        (["copy", "--to", "postgres://a:secret@127.0.0.1/a"], "~/.pgpass"), (["copy", "--from", "postgres:///a"], "put relay.key"),
        (["check"], "relay's data"), (["finish-upgrade"], "--store"),
    ])
    func wrongUseIsRefused(arguments: [String], reason: String) async throws {
        let directory = try temporaryDirectory()
        if arguments.contains(where: { $0.contains("secret") }) { _ = try RelayKey.load(in: directory) }
        let ended = try await RelaydProcess.run(["store"] + arguments + ["--data-directory", directory])
        #expect(ended.status == 2 && ended.error.contains(reason) && !ended.error.contains("secret"), "\(ended)")
    }

    @Test func damagedRowsEndTheCheckWithOne() async throws {
        let relay = try await StoredRelay()
        try relay.run("UPDATE passkey SET key = X'63616e617279'", in: "issuer.sqlite")
        let text = try await store("check", in: relay.directory)
        #expect(text.status == 1 && text.output.hasPrefix("damaged: passkey 0102\n"), "\(text)")
        #expect(text.error == "relayd: 1 rows cannot be decoded: mend or delete them in the database, or restore a backup\n")
        let json = try await store("check", "--json", in: relay.directory)
        #expect(json.status == 1 && json.output.contains("\"table\" : \"passkey\""), "\(json)")
        #expect(!"\(text)\(json)".contains("canary"))
    }

    // MARK: Kills

    /// A relay whose copy takes a moment.
    private func largeRelay() async throws -> StoredRelay {
        let relay = try await StoredRelay()
        try relay.run(
            """
            WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000)
            INSERT INTO removed_identities SELECT hex(randomblob(50)), n, n FROM n
            """,
            in: "relay.sqlite"
        )
        try relay.run(
            """
            WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000)
            INSERT INTO issuer_used SELECT randomblob(32), n FROM n
            """,
            in: "issuer.sqlite"
        )
        return relay
    }

    /// Kills a copy as soon as something is the case.
    /// - Returns: Whether it was before its end.
    private func kill(_ arguments: [String], when isTime: () async throws -> Bool) async throws -> Bool {
        let process = RelaydProcess.process(["store", "copy"] + arguments)
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try ProcessStart.alone { try process.run() }
        while process.isRunning, try await !isTime() { try await Task.sleep(for: .milliseconds(2)) }
        _ = Foundation.kill(process.processIdentifier, SIGKILL)
        try await ProcessRun.end(of: process)
        return process.terminationReason == .uncaughtSignal
    }

    /// What another transaction adds to a table is seen by its file.
    @Test(arguments: ["accounts", "removed_identities", "commands", "\"user\"", "issuer_used"])
    func killedCopyLeavesPostgreSQLEmpty(table: String) async throws {
        let relay = try await largeRelay()
        let rows = try relay.rows()
        let isKilled = try await kill(["--to", uri, "--data-directory", relay.directory]) {
            (try? await server.query("SELECT pg_relation_size('\(table)')", in: database)).flatMap { Int($0) } ?? 0 > 0
        }
        #expect(isKilled)
        // The server notices it when it next writes to the connection.
        let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        while try await server.query(others, in: database) != "0" { try await Task.sleep(for: .milliseconds(20)) }
        #expect(try await server.query("SELECT count(id) FROM relay", in: database) == "0")
        #expect(try await server.query("SELECT count(*) FROM accounts", in: database) == "0")
        #expect(try relay.rows() == rows)
        let again = try await store("copy", "--to", uri, in: relay.directory)
        #expect(again.status == 0, "\(again)")
        #expect(try await store("check", "--store", uri, in: relay.directory).status == 0)
        #expect(try relay.rows() == rows)
    }

    @Test(arguments: ["copying", "copying/relay.sqlite", "copying/issuer.sqlite", "relay.sqlite", "issuer.sqlite"])
    func killedCopyBackIsDoneAgain(file: String) async throws {
        let relay = try await largeRelay()
        #expect(try await store("copy", "--to", uri, in: relay.directory).status == 0)
        let other = try StoredRelay(keysOf: relay)
        let isKilled = try await kill(["--from", uri, "--data-directory", other.directory]) {
            FileManager.default.fileExists(atPath: "\(other.directory)/\(file)")
        }
        // The last files come shortly before the end.
        #expect(isKilled || !file.contains("copying"))
        if FileManager.default.fileExists(atPath: "\(other.directory)/copying") {
            for command in ["serve", "backup"] {
                let arguments = command == "backup" ? ["\(other.directory)/backup"] : ["--listen", "127.0.0.1:0", "--tunnel-listen", "off"]
                let refused = try await RelaydProcess.run([command] + arguments + ["--data-directory", other.directory])
                #expect(refused.status == 2 && refused.error.contains("do it again with `relayd store copy --from`"), "\(refused)")
            }
            let again = try await store("copy", "--from", uri, in: other.directory)
            #expect(again.status == 0, "\(again)")
        }
        #expect(try other.rows() == relay.rows())
        #expect(try await store("check", in: other.directory).status == 0)
    }
}
#endif
