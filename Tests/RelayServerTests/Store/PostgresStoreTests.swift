// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

@testable import RelayPostgres
@testable import RelayServer

/// A server that ends connections, and a network that loses answers.
@Suite(.enabled(if: PostgresServer.isPossible)) struct PostgresStoreTests {
    private let account = AccountID(of: Identity(issuer: "https://issuer.example", subject: "me"))

    private func addAccount(_ subject: String, to store: PostgresStore) async throws -> AccountID {
        let identity = Identity(issuer: "https://issuer.example", subject: subject)
        let id = AccountID(of: identity)
        #expect(await store.claim(.known(id)).isHere)
        try await store.transact(for: id) { try $0.addAccount(id, identity: identity, time: 1) }
        return id
    }

    /// Runs a statement on a connection of its own.
    private func run(_ sql: String, _ database: [(name: String, value: String)]) throws -> Int {
        let connection = try PostgresConnection(database)
        try connection.begin()
        let changes = try connection.run(sql, [], mayWrite: true).changes
        try connection.commit()
        return changes
    }

    @Test func endedConnectionsAreReplaced() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let store = try PostgresStore.opened(database)
        let id = try await addAccount("first", to: store)
        let others = """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'relayd %'
            """
        #expect(try run(others, database) > 0)
        // What was not begun may fail, and is not stored. What follows goes over a new connection.
        let isNamed = await (try? store.transact(for: id) { try $0.setName("lost", of: id) }) != nil
        #expect(try await store.transact(for: id) { try $0.name(of: id) } == (isNamed ? "lost" : nil))
        try await store.transact(for: id) { try $0.setName("me", of: id) }
        #expect(try await store.transact(for: id) { try $0.name(of: id) } == "me")
        store.close()
    }

    /// The server stores a group, and its answer does not arrive.
    @Test func commitWhoseAnswerIsLostIsReportedAsStored() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let proxy = try await CuttingProxy(to: database)
        let store = try PostgresStore.opened(proxy.parameters)
        let id = try await addAccount("first", to: store)
        // The group waits once, for its commit.
        for name in ["a", "b", "c"] {
            proxy.loseNextAnswer()
            try await store.transact(for: id) { try $0.setDisabled(name != "b", of: id) }
            #expect(try await store.transact(for: id) { try $0.isDisabled(id) } == (name != "b"))
        }
        #expect(proxy.cuts == 3)
        store.close()
        await proxy.end()
    }

    /// The server never gets a group.
    @Test func groupThatDoesNotArriveIsReportedAsFailed() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let proxy = try await CuttingProxy(to: database)
        let store = try PostgresStore.opened(proxy.parameters)
        let id = try await addAccount("first", to: store)
        proxy.loseNextRequest()
        await #expect(throws: StoreError.self) { try await store.transact(for: id) { try $0.setDisabled(true, of: id) } }
        #expect(try await !store.transact(for: id) { try $0.isDisabled(id) })
        store.close()
        await proxy.end()
    }

    /// The old connection of a thread must store nothing after a new one has looked.
    @Test func replacedConnectionStoresNothing() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let store = try PostgresStore.opened(database)
        let node = NodeID()
        let (old, new) = (PostgresWriter(database, node: node, thread: 0), PostgresWriter(database, node: node, thread: 0))
        let work = StoreWork(for: nil, { try $0.setDatabaseBegan(7) }, completion: { _ in })
        #expect(old.commit([work]).failure == nil)
        #expect(new.commit([StoreWork(for: nil, { try $0.setDatabaseBegan(8) }, completion: { _ in })]).failure == nil)
        #expect(old.commit([work]).failure != nil)
        let began = Mutex<Int64?>(nil)
        let look = StoreWork(for: nil, { try $0.databaseBegan() }, completion: { found in began.withLock { $0 = try? found.get() } })
        #expect(new.commit([look]).failure == nil)
        look.report(nil)
        #expect(began.withLock { $0 } == 8)
        store.close()
    }

    @Test func wrongDatabasesAreRefusedWithAReason() async throws {
        let server = try await PostgresServer.shared
        let database = try await server.makeDatabase()
        func reason(_ parameters: [(name: String, value: String)]) -> String {
            do {
                try PostgresStore.opened(parameters).close()
                return ""
            } catch {
                return "\(error)"
            }
        }
        #expect(reason(database).isEmpty)
        #expect(reason(database).isEmpty)
        let host = (name: "host", value: server.directory.path)
        #expect(reason([host, ("user", "relay"), ("dbname", "other")]).contains(#"database "other" does not exist"#))
        #expect(reason([host, ("user", "other"), ("dbname", "other")]).contains(#"role "other" does not exist"#))
        #expect(reason([("host", "/nowhere"), ("user", "relay"), ("dbname", "other")]).contains("/nowhere"))
        _ = try run("UPDATE schema SET version = 1000", database)
        #expect(reason(database).isEmpty)
        _ = try run("UPDATE schema SET oldest = 1000", database)
        #expect(reason(database).contains("newer version"))
        _ = try run("ALTER DATABASE \(database[2].value) SET default_transaction_read_only = on", database)
        #expect(reason(database).contains("read-only"))
    }

    @Test func textsAndNumbersAreStoredUnchanged() async throws {
        let store = try await PostgresStore.opened(PostgresServer.shared.makeDatabase())
        for text in ["a", "é", "e\u{301}", "🎬", "' OR 1 = 1", "$1", "?", "\\", String(repeating: "x", count: 200_000)] {
            let identity = AppIdentity(id: "example", proof: text, created: .max)
            try await store.transactGlobally { try $0.put(identity) }
            #expect(try await store.transactGlobally { try $0.appIdentity("example") } == identity)
        }
        for time in [.min, -1, 0, 1, Int64.max] {
            try await store.transactGlobally { try $0.setDatabaseBegan(time) }
            #expect(try await store.transactGlobally { try $0.databaseBegan() } == time)
        }
        await #expect(throws: (any Error).self) {
            try await store.transactGlobally { try $0.put(AppIdentity(id: "example", proof: "a\0b", created: 1)) }
        }
        store.close()
    }

    @Test func parametersAreNumbered() {
        #expect(PostgresConnection.numbered("SELECT ?, ?") == "SELECT $1, $2")
        #expect(PostgresConnection.numbered("SELECT 1") == "SELECT 1")
    }
}
#endif
