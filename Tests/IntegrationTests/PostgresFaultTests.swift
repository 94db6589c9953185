// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayTesting
import Testing

/// PostgreSQL servers that a relay cannot use, or can use no longer: it says what to do, and loses nothing.
@Suite(.timeLimit(.minutes(10)), .enabled(if: PostgresServer.isPossible)) struct PostgresFaultTests {
    // MARK: At the start

    /// What a relay says that does not start.
    private func refusal(of store: String) async throws -> String {
        let directory = FileManager.default.temporaryDirectory.appending(path: "node-\(UUID().uuidString)")
        let ended = try await RelaydProcess.run(
            ["serve", "--listen", "127.0.0.1:0", "--tunnel-listen", "off", "--store", store, "--data-directory", directory.path]
        )
        #expect(ended.status == 1 && ended.output.isEmpty)
        // No key is made for a database that was never seen.
        #expect(!FileManager.default.fileExists(atPath: directory.appending(path: "relay.key").path))
        try? FileManager.default.removeItem(at: directory)
        return ended.error
    }

    @Test func passwordComesFromAFileAndIsNeverSaid() async throws {
        let password = "canary-\(UUID().uuidString)"
        let server = try await PostgresServer(password: password)
        let address = try #require(server.address)
        try await server.makeDatabase("relay")
        let file = server.directory.appending(path: "pgpass")
        func write(_ password: String, mode: Int = 0o600) throws {
            try Data("*:*:relay:relay:\(password)\n".utf8).write(to: file)
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file.path)
        }
        let store = "postgres://relay@\(address)/relay?passfile=\(file.path)"
        try write("wrong-\(password)")
        let wrong = try await refusal(of: store)
        #expect(wrong.contains("password authentication failed") && wrong.contains("passfile=") && !wrong.contains("canary"))
        try write(password, mode: 0o644)
        let open = try await refusal(of: store)
        #expect(open.contains("mode 0600") && !open.contains("canary"))
        try FileManager.default.removeItem(at: file)
        #expect(try await refusal(of: store).contains("host:port:database:user:password"))

        try write(password)
        let errors = try ErrorLog()
        let home = try await TestHome(arguments: ["--store", store], relayErrors: errors.handle)
        try await home.relayIs(ready: true)
        let line = try String(contentsOfFile: "/proc/\(try #require(home.relayd.processIdentifier))/cmdline", encoding: .utf8)
        #expect(line.contains(address) && !line.contains("canary"))
        #expect(try await home.relayd.stop() == 0)
        #expect(!errors.text.contains("canary"))
    }

    @Test func missingDatabasesUsersAndServersAreNamed() async throws {
        let server = try await PostgresServer.shared
        let other = try await refusal(of: "postgres:///other?host=\(server.directory.path)&user=\(PostgresServer.user)")
        #expect(other.contains(#"database "other" does not exist"#) && other.contains("createdb"))
        let user = try await refusal(of: "postgres:///postgres?host=\(server.directory.path)&user=other")
        #expect(user.contains(#"role "other" does not exist"#) && user.contains("createuser"))
        let (first, second) = (try FreePort.take(), try FreePort.take())
        let none = try await refusal(of: "postgres://relay@127.0.0.1:\(first),127.0.0.1:\(second)/relay")
        // Each host is named.
        #expect(none.contains("\(first)") && none.contains("\(second)") && none.contains("see that PostgreSQL runs"))
        #expect(try await refusal(of: "postgres://relay@no-such-host.invalid/relay").contains("no-such-host.invalid"))
    }

    @Test func standbyAloneIsRefused() async throws {
        let primary = try await PostgresServer()
        try await primary.makeDatabase("relay")
        let standby = try await PostgresServer(following: primary)
        let refused = try await refusal(of: "postgres:///relay?host=\(standby.directory.path)&user=\(PostgresServer.user)")
        #expect(refused.contains("standby") && refused.contains("name the primary, or all servers"))
        let both = "postgres:///relay?host=\(standby.directory.path),\(primary.directory.path)&user=\(PostgresServer.user)"
        let home = try await TestHome(arguments: ["--store", both])
        try await home.relayIs(ready: true)
        #expect(try await home.relayd.stop() == 0)
    }

    // MARK: Poolers

    /// A pooler that gives each transaction another connection, with and without ignoring what it does not know.
    @Test(.enabled(if: Pooler.isPossible, "needs Debian's package pgbouncer"), arguments: ["", "server_round_robin = 1"])
    func poolerInTransactionModeIsRefused(settings: String) async throws {
        let server = try await PostgresServer.shared
        let database = try await server.makeDatabase()[2].value
        let pooler = try await Pooler(.transaction, to: server, settings: settings)
        // Twice: the first attempt leaves something in the server's processes.
        for _ in 0..<2 {
            let refused = try await refusal(of: pooler.uri(of: database))
            #expect(refused.contains("connect to the server directly, or by a pooler in session mode"))
        }
        #expect(try await server.query("SELECT count(*) FROM pg_tables WHERE tablename = 'node'", in: database) == "0")
    }

    @Test(.enabled(if: Pooler.isPossible, "needs Debian's package pgbouncer")) func relayWorksThroughAPoolerInSessionMode() async throws {
        let server = try await PostgresServer.shared
        let pooler = try await Pooler(.session, to: server)
        let home = try await TestHome(arguments: ["--store", pooler.uri(of: try server.makeDatabase()[2].value)])
        let (phone, pc, log) = (try await home.device("Phone"), try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let target = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        _ = try await RemoteLauncher(phone.platform).submit(try url("https://films.example/1"), on: target).outcome()
        #expect(await log.entries == ["https://films.example/1"])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
        #expect(try await home.relayd.stop() == 0)
    }

    // MARK: While it runs

    /// The server cannot write its log of changes, and ends. It is started again when there is room.
    @Test(.enabled(if: SmallDisk.isPossible, "needs to mount a small disk, which root alone may"))
    func primaryWithAFullDiskLosesNothing() async throws {
        let (disk, errors) = (try SmallDisk(megabytes: 96), try ErrorLog())
        let server = try await PostgresServer(on: disk)
        let home = try await TestHome(arguments: ["--store", try server.makeURI()], relayErrors: errors.handle)
        let (phone, pc, log) = (try await home.device("Phone"), try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let target = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        await pc.platform.shutdown()
        let launcher = RemoteLauncher(phone.platform)
        func page(_ number: Int) throws -> URL { try url("https://films.example/\(number)") }
        var commands: [RemoteCommand] = []
        for number in 1...3 { commands.append(try await launcher.submit(try page(number), on: target)) }
        for command in commands { #expect(await command.statuses.first { _ in true } != nil) }

        try disk.fill()
        while (try? await server.query("CREATE TEMPORARY TABLE t (n INTEGER); SELECT pg_switch_wal()")) != nil {}
        try await home.relayIs(ready: false)
        for number in 4...6 { commands.append(try await launcher.submit(try page(number), on: target)) }
        try await errors.contains("database")
        #expect(commands[3...].allSatisfy { $0.status == nil })
        #expect(home.relayd.isRunning)

        try disk.makeRoom()
        try await server.start()
        try await home.relayIs(ready: true)
        try await pc.restart { try $0.host(player(log: log), for: pc.account) }
        for command in commands { _ = try await command.outcome() }
        #expect(await log.entries == (1...6).map { "https://films.example/\($0)" })
        await phone.platform.shutdown()
        await pc.platform.shutdown()
        #expect(try await home.relayd.stop() == 0)
    }

    private struct Listed: Decodable {
        var phase: String
        var accounts: Int
    }

    /// Waits until the nodes are in these phases, and serve an account or none.
    private func nodes(_ phases: [String], serve: [Bool], _ store: String) async throws {
        while true {
            let ended = try await RelaydProcess.run(["node", "list", "--json", "--store", store])
            let listed = try JSONDecoder().decode([Listed].self, from: Data(ended.output.utf8))
            if listed.map(\.phase) == phases, listed.map({ $0.accounts > 0 }) == serve { return }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    /// A node whose clock is wrong takes no accounts. If it is very wrong, another node takes those that it has.
    @Test(.enabled(if: SettableClock.isPossible, "needs Debian's package faketime"))
    func nodeWithAWrongClockGivesItsAccountsUp() async throws {
        let (store, ports) = (try await PostgresServer.shared.makeURI(), try RelayNodes(2))
        let (clock, errors) = (try await SettableClock(), try ErrorLog())
        let home = try await TestHome(
            port: ports.ports[0],
            arguments: ports.arguments(0, store: store),
            relayErrors: errors.handle,
            relayEnvironment: clock.environment
        )
        let second = try await RelaydProcess(port: ports.ports[1], arguments: ports.arguments(1, store: store))
        try RelayNodes.copyKeys(from: home.relayd, to: second.directory)
        _ = try await second.start()
        let (pc, log) = (try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let phone = try await home.device("Phone")
        let target = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        let launcher = RemoteLauncher(phone.platform)
        try await nodes(["serving", "serving"], serve: [true, false], store)

        try clock.set(4)
        try await nodes(["suspended", "serving"], serve: [true, false], store)
        try await home.relayIs(ready: false)
        try await errors.contains("The clocks of this machine and of the database are")
        // Its own account goes on there, also for a device that connects anew.
        await phone.platform.networkChanged()
        _ = try await launcher.submit(try url("https://films.example/1"), on: target).outcome()
        try await nodes(["suspended", "serving"], serve: [true, false], store)

        try clock.set(30)
        _ = try await launcher.submit(try url("https://films.example/2"), on: target).outcome()
        try await nodes(["suspended", "serving"], serve: [false, true], store)

        try clock.set(0)
        try await nodes(["serving", "serving"], serve: [false, true], store)
        try await home.relayIs(ready: true)
        _ = try await launcher.submit(try url("https://films.example/3"), on: target).outcome()
        #expect(await log.entries == (1...3).map { "https://films.example/\($0)" })
        await phone.platform.shutdown()
        await pc.platform.shutdown()
        #expect(try await second.stop() == 0)
        #expect(try await home.relayd.stop() == 0)
    }
}
