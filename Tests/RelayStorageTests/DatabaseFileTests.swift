// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage
import RelayTesting
import Testing

@Suite final class DatabaseFileTests {
    private let directory = FileManager.default.temporaryDirectory.appending(path: "database-\(UUID().uuidString)").path
    private var path: String { directory + "/test.sqlite" }

    init() throws { try PrivateDirectory.make(directory) }

    deinit { try? FileManager.default.removeItem(atPath: directory) }

    private var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { try $0.execute(sql: "CREATE TABLE sample (id INTEGER PRIMARY KEY, value)") }
        return migrator
    }

    private func open() throws(DatabaseFileError) -> DatabaseQueue { try DatabaseFile.open(path, migrator: migrator, patience: 0.1) }

    @Test func commitsAreDurableAndPrivate() throws {
        let database = try open()
        try database.write { try $0.execute(sql: "INSERT INTO sample (value) VALUES (1)") }
        for name in try PrivateDirectory.names(in: directory) {
            #expect(try FileManager.default.attributesOfItem(atPath: "\(directory)/\(name)")[.posixPermissions] as? Int == 0o600, "\(name)")
        }
        let settings = try database.read { database in
            (
                try Int.fetchOne(database, sql: "PRAGMA synchronous"), try String.fetchOne(database, sql: "PRAGMA journal_mode"),
                try Int.fetchOne(database, sql: "PRAGMA foreign_keys")
            )
        }
        #expect(settings == (2, "wal", 1))
        try database.close()
        // Opening removes the permissions of others.
        try FileManager.default.setAttributes([.posixPermissions: 0o666], ofItemAtPath: path)
        #expect(try open().read { try Int.fetchOne($0, sql: "SELECT value FROM sample") } == 1)
        #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
    }

    @Test func snapshotReadsOnlyAndFailsWhenTheDatabaseIsClosed() throws {
        let database = try open()
        try database.write { try $0.execute(sql: "INSERT INTO sample (value) VALUES (1)") }
        func count() throws -> Int? {
            try database.inDatabase { database in try database.snapshot { try Int.fetchOne(database, sql: "SELECT count(*) FROM sample") } }
        }
        #expect(try count() == 1)
        #expect(throws: DatabaseError.self) {
            try database.inDatabase { database in try database.snapshot { try database.execute(sql: "DELETE FROM sample") } }
        }
        #expect(try count() == 1)
        try database.close()
        let error = #expect(throws: DatabaseError.self) { try count() }
        #expect(error?.resultCode == .SQLITE_MISUSE)
    }

    @Test func invalidOrDamagedDatabaseIsNotChanged() throws {
        try Data(repeating: 0x41, count: 4_096).write(to: URL(filePath: path))
        #expect(throws: DatabaseFileError.sqlite(.SQLITE_NOTADB)) { try open() }
        #expect(try Data(contentsOf: URL(filePath: path)) == Data(repeating: 0x41, count: 4_096))
        try FileManager.default.removeItem(atPath: path)
        let database = try open()
        try database.write { database in
            for _ in 0..<2_000 { try database.execute(sql: "INSERT INTO sample (value) VALUES (randomblob(100))") }
        }
        try database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
        try database.close()
        var bytes = try Data(contentsOf: URL(filePath: path))
        // Whole pages in the middle.
        for index in bytes.count / 2..<bytes.count / 2 + 40_960 { bytes[index] = 0xFF }
        try bytes.write(to: URL(filePath: path))
        #expect(throws: DatabaseFileError.self) { try open() }
        #expect(try Data(contentsOf: URL(filePath: path)) == bytes)
    }

    /// What a process leaves that is killed in the middle of a transaction without a WAL, as while a new database gets its WAL.
    @Test func interruptedTransactionIsUndone() throws {
        let source = directory + "/source.sqlite"
        let database = try DatabaseQueue(path: source)
        try database.writeWithoutTransaction { database in
            try database.execute(sql: "PRAGMA journal_mode = DELETE")
            try database.execute(sql: "CREATE TABLE sample (id INTEGER PRIMARY KEY, value)")
            try database.execute(sql: "INSERT INTO sample (value) VALUES (1)")
            // With a small cache, SQLite writes changed pages before the commit.
            try database.execute(sql: "PRAGMA cache_size = 1")
            try database.inTransaction {
                for _ in 0..<200 { try database.execute(sql: "INSERT INTO sample (value) VALUES (randomblob(1000))") }
                for suffix in ["", "-journal"] { try FileManager.default.copyItem(atPath: source + suffix, toPath: path + suffix) }
                return .rollback
            }
        }
        #expect(FileManager.default.fileExists(atPath: path + "-journal"))
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { _ in }
        let opened = try DatabaseFile.open(path, migrator: migrator, patience: 0.1)
        #expect(try opened.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM sample") } == 1)
    }

    @Test func newDatabaseIsCompleteWhenItGetsItsName() async throws {
        // Of several, one creates it, and all open the same.
        let (path, migrator) = (path, migrator)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    let database = try DatabaseFile.open(path, migrator: migrator)
                    try database.write { try $0.execute(sql: "INSERT INTO sample (value) VALUES (1)") }
                    try database.close()
                }
            }
            try await group.waitForAll()
        }
        func count() throws -> Int? { try open().read { try Int.fetchOne($0, sql: "SELECT count(*) FROM sample") } }
        #expect(try count() == 8)
        #expect(try PrivateDirectory.names(in: directory).allSatisfy { !$0.contains("draft") })
    }

    @Test func newerDatabaseIsRejected() throws {
        let database = try open()
        try database.write { try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('2')") }
        try database.close()
        #expect(throws: DatabaseFileError.tooNew) { try open() }
    }

    // MARK: Reading alone

    private func values(_ path: String) throws -> [Int] {
        let database = try DatabaseFile.read(path, migrator: migrator)
        defer { try? database.close() }
        #expect(throws: DatabaseError.self) { try database.write { try $0.execute(sql: "DELETE FROM sample") } }
        return try database.read { try Int.fetchAll($0, sql: "SELECT value FROM sample ORDER BY id") }
    }

    /// A disk takes no writes: it is full, or read-only. The database was closed, or a killed process has left its log.
    @Test(.enabled(if: SmallDisk.isPossible), arguments: [true, false], [true, false])
    func databaseIsReadWithoutWriting(isFull: Bool, isClosed: Bool) throws {
        let database = try open()
        try database.write { try $0.execute(sql: "INSERT INTO sample (value) VALUES (1), (2)") }
        if isClosed { try database.close() }
        let disk = try SmallDisk(megabytes: 1)
        let place = disk.directory.path + "/a folder?#%20.sqlite"
        for suffix in ["", "-wal", "-shm"] where FileManager.default.fileExists(atPath: path + suffix) {
            try FileManager.default.copyItem(atPath: path + suffix, toPath: place + suffix)
        }
        if isFull { try disk.fill() } else { try disk.setReadOnly(true) }
        #expect(try values(place) == [1, 2])
    }

    @Test func commitsOfAnotherProcessAreReadAtOnce() throws {
        let database = try open()
        try database.write { try $0.execute(sql: "INSERT INTO sample (value) VALUES (1)") }
        #expect(try values(path) == [1])
        try database.write { try $0.execute(sql: "INSERT INTO sample (value) VALUES (2)") }
        #expect(try values(path) == [1, 2])
    }

    @Test func databaseOfAnotherSchemaIsNotRead() throws {
        let database = try open()
        try database.write { try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('2')") }
        #expect(throws: DatabaseFileError.tooNew) { try DatabaseFile.read(path, migrator: migrator) }
        try database.write { try $0.execute(sql: "DELETE FROM grdb_migrations") }
        #expect(throws: DatabaseFileError.sqlite(.SQLITE_READONLY)) { try DatabaseFile.read(path, migrator: migrator) }
        #expect(throws: DatabaseFileError.sqlite(.SQLITE_CANTOPEN)) { try DatabaseFile.read(directory + "/none", migrator: migrator) }
    }

    @Test func missingDirectoryIsNamed() {
        #expect(throws: DatabaseFileError.file(StorageError(.notWritable, path: directory + "/none/x"))) {
            try DatabaseFile.open(directory + "/none/x", migrator: migrator)
        }
    }

    // MARK: Columns

    @Test func encodedNumbersKeepTheirOrder() {
        let numbers: [UInt64] = [0, 1, 1 << 62, 1 << 63 - 1, 1 << 63, 1 << 63 + 1, .max]
        let columns = numbers.map(NumberColumn.encode)
        #expect(columns == columns.sorted())
        #expect(columns.map(NumberColumn.decode) == numbers)
    }

    @Test func idsRoundTripThroughColumns() throws {
        let endpoint = EndpointID(digest: Digest256(hashing: [1]))
        let command = try #require(CommandID("018f0000-0000-7000-8000-000000000001"))
        let read = try open().write { database in
            try database.execute(
                sql: "INSERT INTO sample VALUES (1, ?), (2, ?), (3, X'01'), (4, NULL)",
                arguments: [endpoint.column, command.column]
            )
            let rows = try Row.fetchAll(database, sql: "SELECT value FROM sample ORDER BY id")
            #expect(throws: ColumnError.self) { try rows[2].endpoint("value") }
            #expect(throws: ColumnError.self) { try rows[2].commandID("value") }
            #expect(throws: ColumnError.self) { try rows[2].digest("value") }
            for row in [rows[3]] {
                #expect(throws: ColumnError.self) { try row.bytes("value") }
                #expect(try row.optionalBytes("value") == nil)
            }
            let byIndex = try database.first("SELECT value FROM sample WHERE id = 1") { try $0.endpoint(0) }
            return (try rows[0].endpoint("value"), try #require(byIndex), try rows[1].commandID("value"))
        }
        #expect(read == (endpoint, endpoint, command))
    }
}
