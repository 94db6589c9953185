// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import GRDB

extension DatabaseFile {
    /// Reads from one snapshot of a database that is of this version. It writes nothing, and the database may be in use.
    package static func snapshot<Value>(
        of path: String,
        migrator: DatabaseMigrator,
        _ body: (Database) throws -> Value
    ) throws -> Value {
        try translated(path) {
            guard PrivateFile.exists(path) else { throw TableError.missing(path) }
            let database = try read(path, migrator: migrator)
            return try database.read { database in
                guard try String.fetchOne(database, sql: "PRAGMA quick_check(1)") == "ok" else { throw DatabaseFileError.damaged }
                return try body(database)
            }
        }
    }

    /// Fills a new database in one transaction. Afterwards it is one file, and on disk.
    package static func fill(_ path: String, migrator: DatabaseMigrator, _ body: (Database) throws -> Void) throws {
        try translated(path) {
            let database = try open(path, migrator: migrator)
            try database.write(body)
            let isBusy = try database.writeWithoutTransaction { try Int.fetchOne($0, sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
            guard isBusy == 0 else { throw DatabaseError(resultCode: .SQLITE_BUSY) }
            try database.close()
            do throws(StorageError) { try PrivateFile.flush(path) } catch { throw DatabaseFileError.file(error) }
        }
    }

    /// Names the file in its errors. SQLite's messages may quote stored data; its result codes do not.
    private static func translated<Value>(_ path: String, _ body: () throws -> Value) throws -> Value {
        do {
            return try body()
        } catch let error as DatabaseFileError {
            throw TableError.file(path, error)
        } catch let error as DatabaseError {
            throw TableError.file(path, .sqlite(error.extendedResultCode))
        }
    }
}

extension TableError {
    static func description(_ path: String, _ error: DatabaseFileError) -> String {
        switch error {
        case .file(let error): "\(error)"
        case .tooNew: "\(path) was written by a newer version of the relay: run that version, or restore a backup of this one"
        case .notDurable: "\(path): SQLite does not flush commits to disk there"
        case .damaged: "\(path) is damaged: restore it from a backup"
        case .sqlite(let code):
            switch code.primaryResultCode {
            case .SQLITE_CORRUPT, .SQLITE_NOTADB: "\(path) is damaged: restore it from a backup"
            case .SQLITE_FULL: "the disk of \(path) is full"
            // See `read`.
            case .SQLITE_READONLY: "\(path) is of an older version: start this version's relay with it once, and stop it"
            case .SQLITE_BUSY, .SQLITE_LOCKED: "another process keeps \(path) locked: try again"
            default: "\(path) cannot be used (SQLite result \(code.rawValue))"
            }
        }
    }
}
