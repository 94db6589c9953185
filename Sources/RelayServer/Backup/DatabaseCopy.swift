// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// A copy of a database that may be in use: of one moment, between two transactions.
package enum DatabaseCopy {
    /// - Parameter destination: a file that is not there.
    package static func make(of source: String, at destination: String) throws(BackupError) {
        // Opening would make it.
        guard access(source, R_OK) == 0 else { throw .notReadable(source, code: errno) }
        _ = try BackupFile(creating: destination)
        do {
            var configuration = Configuration()
            configuration.busyMode = .timeout(5)
            let original = try DatabaseQueue(path: source, configuration: configuration)
            let copy = try DatabaseQueue(path: destination, configuration: configuration)
            // In one step, which reads of one moment and, with a log to write ahead, holds nobody up.
            try original.backup(to: copy)
            // Without that log the copy is one file.
            try copy.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = DELETE") }
            let found = try copy.read { try String.fetchOne($0, sql: "PRAGMA quick_check(1)") }
            try copy.close()
            try original.close()
            guard found == "ok" else { throw BackupError.database(source, code: ResultCode.SQLITE_CORRUPT.rawValue) }
        } catch let error as BackupError {
            throw error
        } catch {
            throw .database(source, code: (error as? DatabaseError)?.extendedResultCode.rawValue ?? ResultCode.SQLITE_ERROR.rawValue)
        }
    }
}
