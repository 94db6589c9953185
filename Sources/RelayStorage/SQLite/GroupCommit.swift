// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import GRDB

/// Commits several pieces of work in one transaction, because the disk flushes once for each commit.
///
/// Work that fails undoes only its own writes. If the commit fails, nothing of the group is stored. The caller keeps the work and names it by
/// its index, so that a group needs no allocation here.
package struct GroupCommit {
    private let database: Database
    private let cache: (any GroupCommitCache)?

    /// - Parameters:
    ///   - database: A database outside a transaction.
    ///   - cache: Values in memory that follow the writes.
    package init(_ database: Database, cache: (any GroupCommitCache)? = nil) {
        self.database = database
        self.cache = cache
    }

    /// Runs the work `0..<count` in order, then the work that joins it, and commits all of it.
    /// - Parameters:
    ///   - join: Called at most once, after the first work and before the commit. Returns how much work joins the group; it has the next
    ///     indices.
    ///   - run: Runs the work at an index, and returns its error. If work fails after a write, the transaction is repeated, and all work
    ///     before it runs twice.
    ///   - finish: Called before the commit, if the group has written anything.
    /// - Throws: Why the group is not committed. In that case the database is outside a transaction. `SQLITE_MISUSE` means that it is closed.
    package func commit(_ count: Int, join: () -> Int = { 0 }, run: (Int) -> (any Error)?, finish: () throws -> Void = {}) throws {
        var count = count
        do {
            // A closed database has no count.
            try begin()
            let before = database.totalChangesCount
            do {
                try self.run(0..<count, inSavepoints: false, run)
                let first = count
                count += join()
                try self.run(first..<count, inSavepoints: false, run)
            } catch is HalfWritten {
                // This is rare. Savepoints around all work would cost more.
                undo()
                try begin()
                try self.run(0..<count, inSavepoints: true, run)
            }
            if database.totalChangesCount != before { try finish() }
            try database.cachedStatement(sql: "COMMIT").execute()
        } catch {
            undo()
            throw error
        }
        cache?.groupCommitted()
    }

    private func begin() throws {
        // GRDB would pass a null connection to SQLite.
        guard database.sqliteConnection != nil else { throw DatabaseError(resultCode: .SQLITE_MISUSE) }
        try database.cachedStatement(sql: "BEGIN IMMEDIATE").execute()
    }

    private func undo() {
        cache?.groupUndone()
        if database.isInsideTransaction { try? database.execute(sql: "ROLLBACK") }
    }

    private func run(_ indices: Range<Int>, inSavepoints: Bool, _ run: (Int) -> (any Error)?) throws {
        for index in indices {
            if inSavepoints { try database.cachedStatement(sql: "SAVEPOINT work").execute() }
            let before = database.totalChangesCount
            let failure = run(index)
            // A full or failing disk rolls back the whole transaction. Later statements would run outside it.
            guard database.isInsideTransaction else { throw failure ?? DatabaseError(resultCode: .SQLITE_IOERR) }
            let isPartial = failure != nil && database.totalChangesCount != before
            if isPartial, !inSavepoints { throw HalfWritten() }
            if failure == nil { cache?.workSucceeded() } else if isPartial { cache?.workUndone() } else { cache?.workFailed() }
            guard inSavepoints else { continue }
            if isPartial { try database.execute(sql: "ROLLBACK TO work") }
            try database.cachedStatement(sql: "RELEASE work").execute()
        }
    }

    /// Work has failed after a write.
    private struct HalfWritten: Error {}
}

/// Values in memory that depend on uncommitted writes.
package protocol GroupCommitCache: AnyObject {
    func workSucceeded()
    /// Work has failed before it wrote anything.
    func workFailed()
    /// Work has failed, and its writes are undone.
    func workUndone()
    func groupCommitted()
    /// All writes since the last commit are undone.
    func groupUndone()
}
