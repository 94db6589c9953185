// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import Testing

@testable import RelayServer

/// What only a store on disk can do, or fail to.
@Suite struct SQLiteStoreTests {
    @Test func commitsAreFlushedToDisk() throws {
        let store = try SQLiteStore(directory: temporaryDirectory())
        #expect(try store.synchronous() == 2)
        let mode = try store.database.inDatabase { try String.fetchOne($0, sql: "PRAGMA journal_mode") }
        #expect(mode == "wal")
        #expect(try store.database.inDatabase { try Int.fetchOne($0, sql: "PRAGMA foreign_keys") } == 1)
    }

    @Test func onlyTheRelaysUserCanReadTheDatabase() async throws {
        let directory = try temporaryDirectory()
        let store = try SQLiteStore(directory: directory)
        try await store.transact { try $0.setDatabaseBegan(1) }
        func mode(_ path: String) throws -> Int? {
            try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        }
        #expect(try mode(directory) == 0o700)
        let files = try FileManager.default.contentsOfDirectory(atPath: directory)
        #expect(files.contains("relay.sqlite-wal"))
        for file in files { #expect(try mode(directory + "/" + file) == 0o600, "\(file)") }
    }

    @Test func completedTransactionsSurviveACrash() async throws {
        let directory = try temporaryDirectory()
        let store = try SQLiteStore(directory: directory)
        let account = AccountID(of: Identity(issuer: "a", subject: "b"))
        try await store.transact { try $0.addAccount(account, identity: Identity(issuer: "a", subject: "b"), time: 1) }
        for index in 0..<40 {
            try await store.transact { try $0.put(.sample(index, account)) }
            guard index % 8 == 0 else { continue }
            // The files at the moment of the kill. The shared memory ends with the process.
            let copy = try temporaryDirectory()
            try FileManager.default.createDirectory(atPath: copy, withIntermediateDirectories: true)
            for file in ["relay.sqlite", "relay.sqlite-wal"] {
                try FileManager.default.copyItem(atPath: directory + "/" + file, toPath: copy + "/" + file)
            }
            let revived = try SQLiteStore(directory: copy)
            let ids = Set(try await revived.transact { try $0.endpoints(of: account) }.map(\.id))
            #expect(ids == Set((0...index).map { EndpointRow.sample($0, account).id }))
        }
    }

    /// Neither for itself nor with what comes after it.
    @Test func failedTransactionDoesNotCountBytes() async throws {
        let (store, account) = (try SQLiteStore(), AccountID("account"))
        await #expect(throws: TestError.self) {
            try await store.transact { store in
                try #require(store as? CachingTransaction<SQLTransaction<Database>>).cache.use.add(100, to: account)
                throw TestError("no")
            }
        }
        try await store.transact { _ in }
        #expect(try await store.transact { try $0.storedBytes(of: account) } == 0)
    }

    @Test func storeCanBeOpenedAgainOnlyAfterClose() async throws {
        let directory = try temporaryDirectory()
        let first = try SQLiteStore(directory: directory)
        try await first.transact { try $0.setDatabaseBegan(77) }
        #expect(throws: StoreError.inUse(directory)) { try SQLiteStore(directory: directory) }
        first.close()
        first.close()
        let second = try SQLiteStore(directory: directory)
        #expect(try await second.transact { try $0.databaseBegan() } == 77)
        await #expect(throws: StoreError.unavailable("the relay is stopping")) {
            try await first.transact { try $0.setDatabaseBegan(78) }
        }
        #expect(try await second.transact { try $0.databaseBegan() } == 77)
    }

    @Test func errorNamesTheFileThatCannotBeOpened() throws {
        let directory = try temporaryDirectory()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let file = directory + "/relay.sqlite"
        try Data(repeating: 0x41, count: 4_096).write(to: URL(filePath: file))
        #expect(throws: StoreError.notADatabase(file)) { try SQLiteStore(directory: directory) }
        #expect(throws: StoreError.directoryNotWritable(file)) { try SQLiteStore(directory: file) }
        #expect(throws: StoreError.directoryNotWritable("/proc/relay")) { try SQLiteStore(directory: "/proc/relay") }
    }

    @Test func newerDatabaseIsNotOpened() throws {
        let directory = try temporaryDirectory()
        let store = try SQLiteStore(directory: directory)
        try store.database.write { try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('999 of tomorrow')") }
        store.close()
        #expect(throws: StoreError.tooNew(directory + "/relay.sqlite")) { try SQLiteStore(directory: directory) }
    }

    /// A large blob is many pages, of which a change of state writes one.
    @Test func changeOfStateDoesNotRewriteTheBlob() async throws {
        let store = try SQLiteStore(directory: temporaryDirectory())
        let account = AccountID(of: Identity(issuer: "a", subject: "b"))
        let sample = try CommandDescriptor.sample(1, EndpointRow.sample(1, account).id, EndpointRow.sample(2, account).id)
        let command = CommandDescriptor(
            id: sample.id,
            lane: sample.lane,
            number: 1,
            created: 1_800_000_000_000,
            expires: 1_800_000_300_000,
            digest: sample.digest,
            size: 250_000
        )
        let key = StoredCommandKey(account: account, command: command.key)
        let blob = (0..<250_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        try await store.transact { store in
            try store.addAccount(account, identity: Identity(issuer: "a", subject: "b"), time: 1)
            _ = try store.add(MailboxCommand(restoring: command, state: .stored), urgency: .urgent, blob: blob, account: account)
        }
        try await store.database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
        try await store.transact {
            let state = MailboxCommand.State.offered(received: false, cancelRequested: true)
            try $0.update(MailboxCommand(restoring: command, state: state), account: account)
        }
        let pages = try await store.database.writeWithoutTransaction { database in
            try Row.fetchOne(database, sql: "PRAGMA wal_checkpoint(PASSIVE)").map { row -> Int in row[1] }
        }
        #expect(try #require(pages) <= 8)
        let read = try store.database.inDatabase { try SQLTransaction(database: $0).blob(of: key) }
        #expect(read == blob)
    }

    @Test func fullDiskFailsOnlyTheUnwrittenTransactions() async throws {
        let store = try SQLiteStore(directory: temporaryDirectory())
        let account = AccountID(of: Identity(issuer: "a", subject: "b"))
        try await store.transact { try $0.addAccount(account, identity: Identity(issuer: "a", subject: "b"), time: 1) }
        try await store.database.write { database in
            let pages = try Int.fetchOne(database, sql: "PRAGMA page_count") ?? 0
            try database.execute(sql: "PRAGMA max_page_count = \(pages + 20)")
        }
        var stored: Set<EndpointID> = []
        var failures: Set<String> = []
        for index in 0..<60 {
            var row = EndpointRow.sample(index, account)
            row.record = Array(repeating: 7, count: 4_000)
            do {
                try await store.transact { [row] in try $0.put(row) }
                stored.insert(row.id)
            } catch {
                failures.insert("\(error)")
            }
        }
        #expect(failures == [StoreError.unavailable("its disk is full").description])
        #expect(stored.count > 5)
        #expect(Set(try await store.transact { try $0.endpoints(of: account) }.map(\.id)) == stored)

        // There is room again, so the store continues.
        try await store.database.write { try $0.execute(sql: "PRAGMA max_page_count = 100000") }
        try await store.transact { try $0.put(.sample(99, account)) }
    }

    /// `DEVICE_RELAY_MEASURE=1 swift test --filter SQLiteStoreTests` tells how many writes are made durable in a second.
    @Test(.enabled(if: ProcessInfo.processInfo.environment["DEVICE_RELAY_MEASURE"] != nil, "only when it is to be measured"))
    func writesPerSecond() async throws {
        let store = try SQLiteStore(directory: temporaryDirectory())
        let account = AccountID(of: Identity(issuer: "a", subject: "b"))
        try await store.transact { try $0.addAccount(account, identity: Identity(issuer: "a", subject: "b"), time: 1) }
        for outstanding in [1, 16, 256] {
            let clock = ContinuousClock()
            let writes = outstanding * 40
            let time = try await clock.measure {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for task in 0..<outstanding {
                        group.addTask {
                            for round in 0..<40 {
                                try await store.transact { try $0.put(.sample(task &* 1_000 &+ round, account)) }
                            }
                        }
                    }
                    try await group.waitForAll()
                }
            }
            print("\(outstanding) outstanding: \(Int(Double(writes) / (time / .seconds(1)))) writes/s")
        }
    }
}
