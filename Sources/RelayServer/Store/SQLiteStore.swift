// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import GRDB
import RelayStorage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The store in one SQLite database, for one relay.
package final class SQLiteStore: RelayStore {
    /// The maximum size of a group. A larger group would only delay its first item.
    private static let largestGroup = 512

    let database: DatabaseQueue
    private let lock: StoreLock?
    /// Used only in `commit`, which runs on the thread. `nil` in tests that compare the store with and without a cache.
    private nonisolated(unsafe) let cache: StoreCache?
    private let thread: StoreThread

    /// Opens the database in a directory, and creates both if they do not exist. Only one store can open a directory.
    package convenience init(directory: String) throws(StoreError) {
        try self.init(holding: try StoreLock(directory: directory))
    }

    /// Opens the database in the directory of a lock. `close` releases the lock.
    package convenience init(holding lock: StoreLock, metrics: StoreMetrics = StoreMetrics()) throws(StoreError) {
        let path = lock.directory + "/relay.sqlite"
        do {
            let database = try DatabaseFile.open(path, migrator: SQLiteSchema.migrator)
            let (mark, dropped) = try Self.beginAgainIfReplaced(database, lock)
            lock.write(mark: mark, isFirst: true)
            self.init(database: database, lock: lock, mark: mark, dropped: dropped, metrics: metrics)
        } catch {
            throw Self.openingError(error, path: path)
        }
    }

    // MARK: Copies

    /// How many commands were dropped because the database was found to be a copy of an earlier state; `nil` if it is none.
    package let droppedCommands: Int?

    /// The number of commits with changes, which the database and its directory have. It only grows. Used only on the thread.
    private nonisolated(unsafe) var mark: Int64

    /// The directory knows the mark of its database. A database with an earlier mark is a copy that has been put in its place, and one in
    /// another directory is a copy, too.
    /// - Returns: The latest mark, and how many commands a copy has lost.
    private static func beginAgainIfReplaced(_ database: DatabaseQueue, _ lock: StoreLock) throws -> (mark: Int64, dropped: Int?) {
        let (mark, last) = (try database.read { try Int64.fetchOne($0, sql: "SELECT mark FROM meta") }, lock.mark())
        guard let mark else { return (last ?? 0, nil) }
        if let last, mark >= last { return (mark, nil) }
        return (max(mark, last ?? 0), try database.write { try beginAgain($0) })
    }

    /// Makes a copy of a database usable as one that begins now. A command that was not offered when the copy was made may have been
    /// offered, cancelled or ended since. Only its sender knows whether it is still open, and sends it again.
    /// - Returns: The number of these commands.
    private static func beginAgain(_ database: Database) throws -> Int {
        try database.execute(sql: "DELETE FROM commands WHERE state = 0")
        let dropped = database.changesCount
        try database.execute(sql: "DELETE FROM meta")
        return dropped
    }

    /// Makes the database, which is a copy, one that begins when it is used next. Call it before any work is submitted.
    package func beginAgain() throws(StoreError) {
        do {
            _ = try database.write { try Self.beginAgain($0) }
        } catch {
            throw Self.unavailable(error)
        }
    }

    /// A database in memory, for tests.
    package convenience init() throws { try self.init(isCaching: true) }

    convenience init(isCaching: Bool) throws {
        let database = try DatabaseQueue()
        try SQLiteSchema.migrator.migrate(database)
        self.init(database: database, lock: nil, isCaching: isCaching)
    }

    private init(
        database: DatabaseQueue,
        lock: StoreLock?,
        mark: Int64 = 0,
        dropped: Int? = nil,
        isCaching: Bool = true,
        metrics: StoreMetrics = StoreMetrics()
    ) {
        cache = isCaching ? StoreCache() : nil
        self.mark = mark
        droppedCommands = dropped
        self.database = database
        self.lock = lock
        thread = StoreThread("relay.store", largestGroup: Self.largestGroup, metrics: metrics)
    }

    /// Waits for submitted work, then releases the directory. Later work fails. Repeated calls are allowed.
    package func close() {
        thread.sync {
            try? database.close()
            lock?.release()
        }
    }

    /// SQLite's setting: 2 is FULL.
    package func synchronous() throws -> Int? {
        try database.inDatabase { try Int.fetchOne($0, sql: "PRAGMA synchronous") }
    }

    package func submit(_ work: StoreWork) { thread.submit(work) { StoreThread.Outcome(self.commit(&$0)) } }

    package func hasRoom(for channel: ChannelID, of account: AccountID, waiter: any ControlPeer) -> Bool {
        thread.hasRoom(for: channel, of: account, waiter: waiter)
    }

    /// Commits a group, with work that joins it. Returns the error if it is not on disk.
    private func commit(_ group: inout [StoreWork]) -> StoreError? {
        database.inDatabase { database in
            let (transaction, last) = (database.transaction(cache: cache), mark)
            do {
                try GroupCommit(database, cache: cache).commit(group.count) {
                    // If threads share a core, others may be waiting for it with work for the store. The cost of a commit is shared by
                    // all work in it.
                    sched_yield()
                    return thread.join(&group)
                } run: { index in
                    group[index].run(transaction)
                } finish: {
                    mark += 1
                    try database.cachedStatement(sql: "UPDATE meta SET mark = ?").execute(arguments: .bound(mark))
                }
                // After the commit, so that a database is never behind its directory, unless it is a copy.
                if mark != last { lock?.write(mark: mark) }
                return nil
            } catch {
                return Self.unavailable(error)
            }
        }
    }

    static func unavailable(_ error: (any Error)?) -> StoreError {
        if let error = error as? StoreError { return error }
        guard let error = error as? DatabaseError else { return .unavailable("a write failed") }
        return switch error.resultCode {
        case .SQLITE_FULL: .unavailable("its disk is full")
        case .SQLITE_BUSY, .SQLITE_LOCKED: .unavailable("another process keeps it locked")
        case .SQLITE_READONLY: .unavailable("its directory cannot be written to")
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: .unavailable("it is damaged: stop the relay, and restore it from a backup")
        // The database is closed.
        case .SQLITE_MISUSE: .unavailable("the relay is stopping")
        default: .unavailable("SQLite error \(error.extendedResultCode)")
        }
    }

    private static func openingError(_ error: any Error, path: String) -> StoreError {
        guard let error = error as? DatabaseFileError else { return unavailable(error) }
        return switch error {
        case .file(let error) where [.readOnly, .full].contains(error.problem): .unavailable("\(error)")
        case .file: .directoryNotWritable(path)
        case .damaged: .notADatabase(path)
        case .tooNew: .tooNew(path)
        case .notDurable: .unavailable("SQLite does not flush commits to disk")
        case .sqlite(let code):
            switch code.primaryResultCode {
            case .SQLITE_NOTADB, .SQLITE_CORRUPT: .notADatabase(path)
            case .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM: .directoryNotWritable(path)
            case .SQLITE_BUSY, .SQLITE_LOCKED: .inUse(path)
            default: unavailable(DatabaseError(resultCode: code))
            }
        }
    }
}

extension Database: StoreDatabase {
    package static var isShared: Bool { false }

    package func probe() throws { try execute(sql: "PRAGMA user_version = 0") }

    package func failure(_ error: any Error) -> any Error { error is DatabaseError ? SQLiteStore.unavailable(error) : error }
}
