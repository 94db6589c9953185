// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

#if Postgres
@testable import RelayPostgres
#endif

/// Quotas in every store.
@Suite struct QuotaStoreTests {
    private let accounts = ["me", "other"].map { AccountID(of: Identity(issuer: "https://issuer.example", subject: $0)) }

    private func filled(_ store: any RelayStore) async throws {
        for (index, account) in accounts.enumerated() {
            try await store.transact(for: account) {
                try $0.addAccount(account, identity: Identity(issuer: "https://issuer.example", subject: "\(index)"), time: Int64(index))
            }
        }
    }

    @Test(arguments: RelayStoreTests.Kind.all) func quotasAreOfOneAccount(_ kind: RelayStoreTests.Kind) async throws {
        let store = try await kind.open()
        try await filled(store)
        let (account, other) = (accounts[0], accounts[1])
        try await store.transact(for: account) { store in
            #expect(try store.quotas(of: account).isEmpty)
            try store.setQuota(.endpointsPerAccount, to: 20, of: account)
            try store.setQuota(.endpointsPerAccount, to: 30, of: account)
            try store.setQuota(.accountBytes, to: Limits.ceiling, of: account)
            try store.setQuota(.mailboxBytes, to: nil, of: account)
            #expect(try store.quotas(of: account).values == [.endpointsPerAccount: 30, .accountBytes: Limits.ceiling])
        }
        try await store.transact(for: account) { store in
            #expect(try store.account(account)?.quotas.values == [.endpointsPerAccount: 30, .accountBytes: Limits.ceiling])
            try store.setQuota(.accountBytes, to: nil, of: account)
        }
        #expect(try await store.transact(for: other) { try $0.quotas(of: other) }.isEmpty)
        // What is undone was never read.
        _ = try? await store.transact(for: account) { store in
            try store.setQuota(.endpointsPerAccount, to: 5, of: account)
            #expect(try store.quotas(of: account)[.endpointsPerAccount] == 5)
            throw TestError("undo")
        }
        #expect(try await store.transact(for: account) { try $0.quotas(of: account) }.values == [.endpointsPerAccount: 30])
        let rows = try await store.transactGlobally { try $0.accounts() }
        #expect(rows.map(\.quotas.values) == [[.endpointsPerAccount: 30], [:]])
        // They go with the account.
        try await store.transact(for: account) { store in
            try store.removeAccount(account, time: 5)
            #expect(try store.quotas(of: account).isEmpty)
            try store.addAccount(account, identity: Identity(issuer: "again", subject: "me"), time: 6)
            #expect(try store.quotas(of: account).isEmpty)
        }
        await #expect(throws: (any Error).self) {
            try await store.transact(for: account) { try $0.setQuota(.accountBytes, to: 5, of: AccountID("none")) }
        }
    }

    @Test(arguments: RelayStoreTests.Kind.all) func factsOfAnAccountAreThoseOfItsRows(_ kind: RelayStoreTests.Kind) async throws {
        let store = try await kind.open()
        try await filled(store)
        let account = accounts[0]
        try await store.transact(for: account) { store in
            #expect(try store.facts(of: account) == AccountFacts())
            try store.setName("Anna", of: account)
            try store.setDisabled(true, of: account)
            for index in 0..<3 { try store.put(.sample(index, account)) }
            #expect(try store.facts(of: account) == AccountFacts(name: "Anna", isDisabled: true, endpoints: 3))
            #expect(try store.facts(of: AccountID("none")) == AccountFacts())
        }
    }

    /// Each command needs them, and only the first one reads them.
    @Test func quotasAreReadOnceUntilTheyMayHaveChanged() {
        let (cache, account, other) = (StoreCache(), accounts[0], accounts[1])
        var reads = 0
        func read(_ account: AccountID) {
            _ = cache.quotas(of: account) {
                reads += 1
                return AccountQuotas()
            }
        }
        for _ in 0..<3 { read(account) }
        #expect(reads == 1)
        read(other)
        let changes = [{ cache.forgetQuotas(of: account) }, { cache.forget(account) }]
        for (index, change) in changes.enumerated() {
            change()
            for _ in 0..<2 { read(account) }
            read(other)
            #expect(reads == 3 + index)
        }
        cache.workUndone()
        for account in [account, other, account] { read(account) }
        #expect(reads == 6)
    }

    @Test func earlierFileHasTheRelaysValues() async throws {
        let directory = try temporaryDirectory()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try await filled(try SQLiteStore(directory: directory))
        let file = try DatabaseQueue(path: "\(directory)/relay.sqlite")
        try await file.write { database in
            try database.execute(sql: "DROP TABLE quotas; DELETE FROM grdb_migrations WHERE identifier LIKE '3 %'")
        }
        try file.close()
        try await check(try SQLiteStore(directory: directory))
    }

    private func check(_ store: any RelayStore) async throws {
        let account = accounts[0]
        let rows = try await store.transactGlobally { try $0.accounts() }
        #expect(rows.map(\.id) == accounts && rows.allSatisfy(\.quotas.isEmpty))
        try await store.transact(for: account) { store in
            try store.setQuota(.mailboxBytes, to: 7, of: account)
            #expect(try store.quotas(of: account).values == [.mailboxBytes: 7])
        }
    }

    #if Postgres
    @Test(.enabled(if: PostgresServer.isPossible)) func earlierDatabaseHasTheRelaysValues() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        try await filled(ClaimingStore(PostgresStore.opened(database)))
        let connection = try PostgresConnection(database)
        try connection.begin()
        for statement in ["DROP TABLE quotas", "UPDATE schema SET version = 2"] { try connection.send(statement, [], mayWrite: true) }
        try connection.commit()
        try await check(ClaimingStore(PostgresStore.opened(database)))
    }
    #endif

    /// A newer version may set what this one does not know, and goes on with it later.
    @Test func unknownQuotasStay() async throws {
        let (store, account) = (try SQLiteStore(), accounts[0])
        try await filled(store)
        try await store.database.write { database in
            for name in ["commandBytes", "ofALaterVersion"] {
                try database.execute(
                    sql: "INSERT INTO quotas (account, name, value) VALUES (?, ?, 5)",
                    arguments: [account.rawValue, name]
                )
            }
        }
        try await store.transact(for: account) { store in
            #expect(try store.quotas(of: account).isEmpty)
            try store.setQuota(.mailboxBytes, to: 7, of: account)
        }
        #expect(try await store.database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM quotas") } == 3)
    }
}
