// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import GRDB

/// SQLite databases in files for one user only, in which every commit survives a loss of power.
package enum DatabaseFile {
    /// Opens or creates a database, in WAL mode with `synchronous = FULL`, and migrates it. A file that is damaged, or that a newer version
    /// wrote, is not changed. A new database is complete and on disk before it gets its name.
    /// - Parameters:
    ///   - patience: How long to wait for a lock of another process, in seconds.
    ///   - label: The name of the database's dispatch queue.
    package static func open(
        _ path: String,
        migrator: DatabaseMigrator,
        patience: Double = 5,
        label: String? = nil
    ) throws(DatabaseFileError) -> DatabaseQueue {
        do {
            if PrivateFile.exists(path) {
                // SQLite creates the WAL files with the mode of the database file.
                try PrivateFile.restrict(path)
            } else {
                try create(path, migrator)
            }
            var configuration = Configuration()
            configuration.label = label
            configuration.busyMode = .timeout(patience)
            try check(path, configuration)
            let database = try connect(path, configuration)
            if try database.read(migrator.hasBeenSuperseded) { throw DatabaseFileError.tooNew }
            try migrator.migrate(database)
            return database
        } catch {
            throw DatabaseFileError(error)
        }
    }

    /// Opens a database for reads alone. It writes nothing, and needs no folder that can be written.
    package static func read(_ path: String, migrator: DatabaseMigrator) throws(DatabaseFileError) -> DatabaseQueue {
        do {
            let database = try reader(path)
            if try database.read(migrator.hasBeenSuperseded) { throw DatabaseFileError.tooNew }
            // Another process of this version has to migrate it first, which is a write.
            guard try database.read(migrator.hasCompletedMigrations) else { throw DatabaseError(resultCode: .SQLITE_READONLY) }
            return database
        } catch {
            throw DatabaseFileError(error)
        }
    }

    private static func reader(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.readonly = true
        do {
            let database = try DatabaseQueue(path: path, configuration: configuration)
            try database.read { _ = try $0.schemaVersion() }
            return database
        } catch let error as DatabaseError {
            // Without an index of its log, SQLite makes one, unless the file does not change (see https://www.sqlite.org/uri.html). No process
            // has the file open then, and without a log it is complete.
            let log = URL(filePath: path + "-wal")
            guard PrivateFile.exists(path), (try? log.resourceValues(forKeys: [.fileSizeKey]).fileSize) ?? 0 == 0 else { throw error }
            return try DatabaseQueue(path: URL(filePath: path).absoluteString + "?immutable=1", configuration: configuration)
        }
    }

    /// Creates a database beside its place, and gives it its name when it is complete. A process that ends in between leaves a draft, which
    /// no later start opens. Of several concurrent calls, one succeeds, and the others keep its file.
    private static func create(_ path: String, _ migrator: DatabaseMigrator) throws {
        let draft = PrivateFile.draft(of: path)
        do {
            _ = try PrivateFile.write([], to: draft, of: path)
            let database = try connect(draft, Configuration())
            try migrator.migrate(database)
            // On a full disk, closing alone would ignore that the content is still in the WAL.
            let isBusy = try database.writeWithoutTransaction { try Int.fetchOne($0, sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
            guard isBusy == 0 else { throw DatabaseError(resultCode: .SQLITE_BUSY) }
            try database.close()
            try PrivateFile.flush(draft)
            _ = try PrivateFile.publish(draft, as: path, replacing: false)
        } catch {
            for suffix in ["", "-wal", "-shm", "-journal"] { try? PrivateFile.delete(draft + suffix) }
            throw error
        }
    }

    private static func connect(_ path: String, _ configuration: Configuration) throws -> DatabaseQueue {
        var configuration = configuration
        configuration.journalMode = .wal
        configuration.foreignKeysEnabled = true
        // After a disk failure a transaction may be open. Without this setting GRDB would trap.
        configuration.allowsUnsafeTransactions = true
        let database = try DatabaseQueue(path: path, configuration: configuration)
        try database.inDatabase { try flushCommits(of: $0) }
        return database
    }

    /// Checks the whole file before it is opened for writing. Opening changes the file, and a damaged file may still be recoverable.
    private static func check(_ path: String, _ configuration: Configuration) throws {
        do {
            try check(path, configuration, isReadOnly: true)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_READONLY {
            // A process ended in the middle of a transaction. SQLite undoes it first, which it can only do when it may write.
            try check(path, configuration, isReadOnly: false)
        }
    }

    private static func check(_ path: String, _ configuration: Configuration, isReadOnly: Bool) throws {
        var configuration = configuration
        configuration.readonly = isReadOnly
        let database = try DatabaseQueue(path: path, configuration: configuration)
        let isIntact = try database.read { database in
            try String.fetchOne(database, sql: "PRAGMA quick_check(1)") == "ok" && !database.hasCutText()
        }
        try database.close()
        guard isIntact else { throw DatabaseFileError.damaged }
    }

    /// GRDB sets `synchronous = NORMAL` in WAL mode, with which a loss of power can undo commits.
    private static func flushCommits(of database: Database) throws {
        try database.execute(sql: "PRAGMA synchronous = FULL")
        #if canImport(Darwin)
        try database.execute(sql: "PRAGMA fullfsync = 1")
        #endif
        guard try Int.fetchOne(database, sql: "PRAGMA synchronous") == 2,
            try String.fetchOne(database, sql: "PRAGMA journal_mode") == "wal"
        else { throw DatabaseFileError.notDurable }
    }
}

/// Why a database was not opened.
package enum DatabaseFileError: Error, Equatable, Sendable {
    /// The file cannot be created, or its mode cannot be set.
    case file(StorageError)
    /// The integrity check failed, or a text has U+0000.
    case damaged
    /// A newer version of this software wrote it.
    case tooNew
    /// SQLite did not accept WAL mode with `synchronous = FULL`.
    case notDurable
    case sqlite(ResultCode)

    fileprivate init(_ error: any Error) {
        switch error {
        case let error as DatabaseFileError: self = error
        case let error as StorageError: self = .file(error)
        case let error as DatabaseError: self = .sqlite(error.extendedResultCode)
        default: self = .sqlite(.SQLITE_ERROR)
        }
    }

    /// SQLite's extended result code, or the nearest one.
    package var code: ResultCode {
        switch self {
        case .file(let error): error.problem == .full ? .SQLITE_FULL : .SQLITE_CANTOPEN
        case .damaged: .SQLITE_CORRUPT
        case .tooNew: .SQLITE_SCHEMA
        case .notDurable: .SQLITE_CANTOPEN
        case .sqlite(let code): code
        }
    }
}

extension Database {
    /// Reads from one snapshot of the committed data. The database may be closed, in which case GRDB's `read` would pass a null connection
    /// to SQLite, which crashes.
    /// - Throws: `SQLITE_MISUSE` if the database is closed.
    package func snapshot<Value>(_ body: () throws -> Value) throws -> Value {
        guard sqliteConnection != nil else { throw DatabaseError(resultCode: .SQLITE_MISUSE) }
        try beginTransaction(.deferred)
        defer { try? rollback() }
        return try readOnly(body)
    }
}
