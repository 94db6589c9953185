// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import RelayProtocol
import RelayStorage
import RelayTesting
import Synchronization
import Testing

@testable import RelayPostgres
@testable import RelayServer

/// A database that has another primary, or was restored.
@Suite(.enabled(if: PostgresServer.isPossible)) struct PostgresHistoryTests {
    private let identity = Identity(issuer: "https://issuer.example", subject: "me")
    private var account: AccountID { AccountID(of: identity) }

    @discardableResult
    private func query(_ sql: String, _ database: [(name: String, value: String)]) throws -> String? {
        let connection = try PostgresConnection(database)
        try connection.begin()
        let row = try connection.run(sql, [], mayWrite: true).rows.first
        let text = try row?.optional(0) { column in try row?.text(column) } ?? nil
        try connection.commit()
        return text
    }

    private func began(_ database: [(name: String, value: String)]) throws -> String? {
        try query("SELECT CAST(began AS TEXT) FROM meta", database)
    }

    /// A node with an account, in a database that began long ago.
    private func node(on database: [(name: String, value: String)]) async throws -> PostgresStore {
        let store = try PostgresStore.opened(database)
        try await store.transactGlobally { try $0.setDatabaseBegan(5) }
        let (identity, account) = (identity, account)
        #expect(await store.claim(.of(identity)).isHere)
        try await store.transact(for: account) { try $0.addAccount(account, identity: identity, time: 1) }
        return store
    }

    private func pretendAnotherPrimary(_ database: [(name: String, value: String)]) throws {
        try query("UPDATE relay SET history = 'another'", database)
        try query("UPDATE node SET history = 'another'", database)
    }

    private func wait(until isMet: () throws -> Bool) async throws {
        while try !isMet() { try await Task.sleep(for: .milliseconds(50)) }
    }

    /// Nodes that find all that they have stored go on, with their accounts.
    @Test func standbyWithEverythingIsFollowed() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let (one, two) = (try await node(on: database), try PostgresStore.opened(database))
        try pretendAnotherPrimary(database)
        try await wait { try query("SELECT history FROM relay", database) != "another" }
        #expect(try began(database) == "5")
        let account = account
        try await one.transact(for: account) { try $0.setName("me", of: account) }
        #expect(await two.claim(.known(account), until: { $0.isElsewhere }).account == account)
        for store in [one, two] { store.close() }
    }

    /// One node's last transaction is missing.
    @Test func databaseThatHasLostSomethingBeginsAnew() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let (one, two) = (try await node(on: database), try PostgresStore.opened(database))
        let (lost, losses) = AsyncStream.makeStream(of: AccountID.self)
        let (begun, beginnings) = AsyncStream.makeStream(of: Milliseconds.self)
        one.begin { if case .lost(let account) = $0 { losses.yield(account) } }
        two.begin { if case .databaseBegan(let time) = $0, time != 5 { beginnings.yield(time) } }
        try query("UPDATE store_writer SET batch = batch - 1 WHERE batch > 0", database)
        try pretendAnotherPrimary(database)
        // The other node is told, and the account is nobody's.
        let time = try #require(await begun.first { _ in true })
        #expect(time.count > Int64(Date().timeIntervalSince1970 * 1_000))
        #expect(await lost.first { _ in true } == account)
        #expect(try query("SELECT history FROM relay", database) != "another")
        // Both go on.
        #expect(await two.claim(.known(account), until: { $0.isHere }).isHere)
        let account = account
        #expect(try await two.transact(for: account) { try $0.account(account) } != nil)
        for store in [one, two] { store.close() }
    }

    /// A backup that is started elsewhere: nobody who was alive can say what is missing.
    @Test func databaseThatNobodyKnowsBeginsAnew() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        try await node(on: database).close()
        try query("UPDATE relay SET history = 'another'", database)
        let store = try PostgresStore.opened(database)
        try store.waitUntilSettled()
        #expect(try began(database) != "5")
        #expect(await store.claim(.known(account), until: { $0.isHere }).isHere)
        store.close()
    }

    /// An earlier copy of the server's disk has the same system and timeline. Without the node's file, nobody can know.
    @Test(arguments: [true, false]) func earlierDiskIsNoticed(hasFile: Bool) async throws {
        let server = try await PostgresServer()
        let database = try await server.makeDatabase()
        let directory = FileManager.default.temporaryDirectory.appending(path: "node-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        func store() throws -> PostgresStore { try .opened(database, file: NodeFile(in: directory.path)) }
        try await node(on: database).close()
        try await server.copyData()
        // Without a loss, the next start goes on.
        for _ in 0..<2 {
            let again = try store()
            try again.waitUntilSettled()
            #expect(try began(database) == "5")
            again.close()
        }
        try await server.putCopyBack()
        if !hasFile { try FileManager.default.removeItem(at: directory.appending(path: NodeFile.name)) }
        let late = try store()
        try late.waitUntilSettled()
        #expect(try (began(database) != "5") == hasFile)
        late.close()
    }

    /// A node that was killed can confirm nothing, and its next start says so at once.
    @Test func nodeThatStartsAgainIsNotWaitedFor() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let directory = FileManager.default.temporaryDirectory.appending(path: "node-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        try await node(on: database).close()
        let killed = NodeFile.Content(id: NodeID(), history: "former", position: 0)
        try query("UPDATE relay SET history = 'former'", database)
        try query(
            "INSERT INTO node (id, version, schema, started, history) VALUES ('\(killed.node)', 'test', 1, 1, 'former')",
            database
        )
        NodeFile(in: directory.path).write(killed)
        let store = try PostgresStore.opened(database, file: NodeFile(in: directory.path))
        try store.waitUntilSettled()
        #expect(try began(database) != "5")
        try await wait {
            try query("SELECT CAST(count(*) AS TEXT) FROM node WHERE id = '\(killed.node)' AND dead IS NOT NULL", database) == "1"
        }
        store.close()
    }

    /// A start that ends before it has said what is lost leaves that to the next one.
    @Test(arguments: [true, false]) func startThatEndsAtOnceForgetsNoLoss(isSameHistory: Bool) async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let directory = FileManager.default.temporaryDirectory.appending(path: "node-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let file = NodeFile(in: directory.path)
        try await node(on: database).close()
        let history = try #require(try query("SELECT history FROM relay", database))
        let killed = NodeFile.Content(id: NodeID(), history: isSameHistory ? history : "former", position: isSameHistory ? .max : 0)
        try query("UPDATE relay SET history = '\(killed.history)'", database)
        try query(
            "INSERT INTO node (id, version, schema, started, history) VALUES ('\(killed.node)', 'test', 1, 1, '\(killed.history)')",
            database
        )
        file.write(killed)
        _ = try PostgresNode(database, url: nil, version: "", file: file) { 6 }
        #expect(file.read() == killed)
        // The others wait for it.
        #expect(try query("SELECT CAST(count(*) AS TEXT) FROM node WHERE id = '\(killed.node)' AND dead IS NULL", database) == "1")
        let store = try PostgresStore.opened(database, file: file)
        try store.waitUntilSettled()
        #expect(try began(database) != "5")
        store.close()
    }

    /// A thread that comes late, when another node has said what is lost, does not say it again.
    @Test(arguments: [true, false]) func threadThatComesLateSaysNothingAnew(isTold: Bool) async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let store = try await node(on: database)
        let hasLost = Mutex(false)
        let writer = PostgresWriter(database, node: NodeID(), thread: 0, hasLost: { hasLost.withLock { $0 = true } })
        let work = StoreWork(for: nil, { try $0.probe() }, completion: { _ in })
        for _ in 0..<2 { #expect(writer.commit([work]).failure == nil) }
        try query("UPDATE store_writer SET batch = 1 WHERE node = '\(writer.node)'", database)
        if isTold { try query("UPDATE meta SET began = 9", database) }
        try query(
            """
            SELECT CAST(count(pg_terminate_backend(pid)) AS TEXT) FROM pg_stat_activity
            WHERE application_name = '\(PostgresSettings.applicationName(of: writer.node))'
            """,
            database
        )
        while writer.commit([work]).failure != nil {}
        #expect(hasLost.withLock { $0 } != isTold)
        writer.close()
        store.close()
    }

    /// Rows are deleted by the database's clock: a living node may not know yet that it was found dead.
    @Test func startWithAWrongClockDeletesNoRows() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let store = try await node(on: database)
        let id = store.nodeID
        store.close()
        _ = try PostgresNode(database, url: nil, version: "") { 9_000_000_000_000 }
        #expect(try query("SELECT CAST(count(*) AS TEXT) FROM node WHERE id = '\(id)' AND dead IS NOT NULL", database) == "1")
    }

    /// A node that has started while nobody knew what is lost can say so after the next loss.
    @Test func nodeThatHasStartedMeanwhileConfirmsLater() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let store = try await node(on: database)
        try query("UPDATE node SET history = NULL", database)
        try await wait { try query("SELECT history FROM node", database) == query("SELECT history FROM relay", database) }
        store.close()
    }

    /// The first start ended before it had stored anything.
    @Test func emptyDatabaseWithAnotherPrimaryBegins() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        try PostgresStore.opened(database).close()
        try query("UPDATE relay SET history = 'another'", database)
        let store = try PostgresStore.opened(database)
        try store.waitUntilSettled()
        #expect(try began(database) != nil)
        store.close()
    }

    /// A node that the database does not know was started in what is lost.
    @Test func missingRowOfANodeIsALoss() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let store = try await node(on: database)
        try query("DELETE FROM node", database)
        try await wait { try began(database) != "5" }
        #expect(await store.claim(.known(account), until: { $0.isHere }).isHere)
        store.close()
    }
}
#endif
