// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayIssuer
package import RelayProtocol
import RelayServer
import RelayStorage

#if Postgres
import RelayPostgres
#endif

/// Moves a relay from the SQLite files of a data directory into a PostgreSQL database, or back. The source stays as it is, and the receiver has
/// everything or nothing. The keys stay in the data directory.
package struct StoreCopy {
    package let relay: RelayID
    /// How many rows each table has, by its name.
    package private(set) var rows: [String: Int] = [:]
    private let progress: (_ table: String, _ rows: Int) -> Void

    #if Postgres
    /// - Parameter progress: Is called after each row, with the number of the table's rows so far.
    package static func make(
        from directory: DataDirectory,
        to uri: String,
        progress: @escaping (_ table: String, _ rows: Int) -> Void
    ) throws -> StoreCopy {
        let location = try PostgresLocation(uri)
        let lock = try directory.lock()
        defer { lock.release() }
        let (key, master) = try keys(in: directory.path)
        var copy = StoreCopy(relay: key.id, progress: progress)
        try RelayTables.snapshot(in: directory.path) { relay in
            try IssuerTables.snapshot(in: directory.path) { issuer in
                try IssuerTables.checkSeal(of: issuer, by: master)
                try RelayTables.checkIsLatest(relay, in: lock)
                try location.fill(for: key.id, RelayTables.all + IssuerTables.all) { receiver in
                    try copy.add(RelayTables.all, of: relay, to: receiver)
                    try copy.add(IssuerTables.all, of: issuer, to: receiver)
                }
            }
        }
        return copy
    }

    /// - Parameters:
    ///   - directory: Has the relay's keys, and no databases.
    ///   - progress: Is called after each row, with the number of the table's rows so far.
    package static func make(
        from uri: String,
        to directory: DataDirectory,
        progress: @escaping (_ table: String, _ rows: Int) -> Void
    ) throws -> StoreCopy {
        let location = try PostgresLocation(uri)
        let lock = try StoreLock(directory: directory.path)
        defer { lock.release() }
        let (key, master) = try keys(in: directory.path)
        var copy = StoreCopy(relay: key.id, progress: progress)
        let draft = try draft(in: directory.path)
        // Higher than that of any file that was in the directory before: such a file is then known to be older.
        let mark = (lock.mark() ?? 0) + 1
        do {
            try location.snapshot(of: key.id) { source in
                try IssuerTables.checkSeal(of: source, by: master)
                try RelayTables.fill(in: draft, mark: mark) { try copy.add(RelayTables.all, of: source, to: $0) }
                try IssuerTables.fill(in: draft) { try copy.add(IssuerTables.all, of: source, to: $0) }
            }
        } catch {
            try? FileManager.default.removeItem(atPath: draft)
            throw error
        }
        lock.write(mark: mark, isFirst: true)
        for name in names { try PrivateFile.move("\(draft)/\(name)", to: "\(directory.path)/\(name)") }
        try PrivateDirectory.flush(directory.path)
        try FileManager.default.removeItem(atPath: draft)
        return copy
    }
    #else
    package static func make(from: DataDirectory, to: String, progress: (String, Int) -> Void) throws -> StoreCopy {
        throw ConfigurationError.withoutPostgres
    }

    package static func make(from: String, to: DataDirectory, progress: (String, Int) -> Void) throws -> StoreCopy {
        throw ConfigurationError.withoutPostgres
    }
    #endif

    private static let names = [RelayTables.fileName, IssuerTables.fileName]

    private static func keys(in directory: String) throws -> (RelayKey, MasterKey) {
        (try RelayKey.load(in: directory), try MasterKey(path: "\(directory)/\(Issuer.keyFileName)", mayCreate: false))
    }

    /// Makes the directory of the draft, which is on disk before any database is in place. Databases beside the draft of an earlier copy are
    /// that copy's, because no relay starts there.
    private static func draft(in directory: String) throws -> String {
        let draft = "\(directory)/\(DataDirectory.copying)"
        let present = names.flatMap { name in ["", "-wal", "-shm", "-journal"].map { "\(directory)/\(name)\($0)" } }
            .filter(PrivateFile.exists)
        if PrivateFile.exists(draft) {
            for path in present { try PrivateFile.delete(path) }
            try FileManager.default.removeItem(atPath: draft)
        } else if let path = present.first {
            throw ConfigurationError(
                "\(path) is there already: move the databases there away, or name another directory that has the two keys with --data-directory"
            )
        }
        try PrivateDirectory.create(draft)
        try PrivateDirectory.flush(directory)
        return draft
    }

    private mutating func add(_ tables: [SQLTable], of source: some SQLDatabase, to receiver: some SQLDatabase) throws {
        for table in tables {
            var count = 0
            try source.copy(table, to: receiver) {
                count += 1
                progress(table.name, count)
            }
            rows[table.name] = count
        }
    }
}
