// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
import RelayStorage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Copies a database that may be in use. The copy is a consistent snapshot between two transactions.
package enum DatabaseCopy {
    /// - Parameter destination: A file that does not exist.
    package static func make(of source: String, at destination: String) throws {
        // Opening a missing database would create it. This check must not open the file: closing it would release SQLite's locks in this
        // process.
        guard access(source, R_OK) == 0 else { throw StorageError(.notReadable, path: source) }
        _ = try StorageFile(creating: destination)
        do {
            var configuration = Configuration()
            configuration.busyMode = .timeout(5)
            let original = try DatabaseQueue(path: source, configuration: configuration)
            let copy = try DatabaseQueue(path: destination, configuration: configuration)
            // Copying in one step reads one snapshot. In WAL mode it does not block writers.
            try original.backup(to: copy)
            // In this journal mode the copy is a single file.
            try copy.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = DELETE") }
            let found = try copy.read { try String.fetchOne($0, sql: "PRAGMA quick_check(1)") }
            try copy.close()
            try original.close()
            guard found == "ok" else { throw BackupError.database(source, code: ResultCode.SQLITE_CORRUPT.rawValue) }
        } catch let error as BackupError {
            throw error
        } catch {
            throw BackupError.database(
                source,
                code: (error as? DatabaseError)?.extendedResultCode.rawValue ?? ResultCode.SQLITE_ERROR.rawValue
            )
        }
    }
}
