// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import GRDB
package import RelayProtocol
import RelayStorage
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What one endpoint must not forget: the commands it has sent and taken, their lanes' numbers, the peers it has pinned. One
/// SQLite database, which the processes of an endpoint share.
///
/// What is submitted while a commit is under way is committed together in the next one. Results are told after the commit, in the
/// order of submission; so whoever acts on a result acts on what is on disk.
package final class Journal: Sendable {
    private struct Queue {
        var work: [any JournalWork] = []
        var isWorking = false
    }

    /// A larger group would only make its first wait.
    private static let largestGroup = 256
    /// Looking for old commands takes longer than to store a new one, so it is done once for so many that this share of the limit is new.
    private static let trimmedShare = 16

    let endpoint: EndpointID
    let limits: Limits
    private let path: String
    private let database: DatabaseQueue
    private let queue = Mutex(Queue())
    private let thread = DispatchQueue(label: "device-relay.journal")
    private let insertions = Mutex(0)

    /// Opens the journal of an endpoint, and makes it if it is not there. A file that is damaged, locked or too new is left alone.
    /// - Parameter patience: How long to wait for other processes, in seconds.
    package init(path: String, endpoint: EndpointID, limits: Limits = Limits(), patience: Double = 5) throws(JournalError) {
        self.path = path
        self.endpoint = endpoint
        self.limits = limits
        do {
            database = try DatabaseFile.open(path, migrator: JournalSchema.migrator, patience: patience)
            try database.write { database in
                try database.execute(sql: "INSERT OR IGNORE INTO meta (id, endpoint) VALUES (1, ?)", arguments: [endpoint.column])
                let owner = try Row.fetchOne(database, sql: "SELECT endpoint FROM meta")?.endpoint("endpoint")
                guard owner == endpoint else { throw JournalError.otherEndpoint(path) }
            }
        } catch {
            throw Self.error(error, path: path)
        }
    }

    // MARK: Access

    /// Runs the body in a transaction, and tells its result once that is committed, on the journal's thread. If the body throws,
    /// nothing of it is stored, and others in the same commit are not affected; it may be run twice then.
    package func write<Value: Sendable>(
        _ body: @escaping @Sendable (JournalTransaction) throws -> Value,
        completion: @escaping @Sendable (Result<Value, any Error>) -> Void
    ) {
        let work = Work(body, completion, path: path)
        let wasWorking = queue.withLock { queue in
            queue.work.append(work)
            defer { queue.isWorking = true }
            return queue.isWorking
        }
        if !wasWorking { thread.async { self.work() } }
    }

    /// The same, for those who can wait: from the journal's thread straight back to their actor.
    package func write<Value: Sendable>(
        isolation: isolated (any Actor)? = #isolation,
        _ body: @escaping @Sendable (JournalTransaction) throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            write(body) { continuation.resume(with: $0) }
        }
    }

    /// Reads, in one view of everything committed.
    package func read<Value>(_ body: (JournalTransaction) throws -> Value) throws(JournalError) -> Value {
        do {
            return try database.read { try body(JournalTransaction(database: $0, journal: self)) }
        } catch {
            throw Self.error(error, path: path)
        }
    }

    /// Closes the database. Nothing may be written or read afterwards.
    package func close() {
        thread.sync { try? database.close() }
    }

    /// Counts a new command.
    func isTimeToTrim() -> Bool {
        insertions.withLock { insertions in
            defer { insertions += 1 }
            return insertions.isMultiple(of: max(1, limits[.mailboxCommands] / Self.trimmedShare))
        }
    }

    private func work() {
        while true {
            let group = queue.withLock { queue in
                let group = Array(queue.work.prefix(Self.largestGroup))
                queue.work.removeFirst(group.count)
                if group.isEmpty { queue.isWorking = false }
                return group
            }
            if group.isEmpty { return }
            let failure = commit(group)
            for work in group { work.report(failure) }
        }
    }

    /// Why the group is not on disk; `nil` if it is.
    private func commit(_ group: [any JournalWork]) -> JournalError? {
        database.inDatabase { database in
            do {
                do {
                    try run(group, in: database, inSavepoints: false)
                } catch is HalfWritten {
                    // Seldom enough: savepoints around all would cost more.
                    undo(database)
                    try run(group, in: database, inSavepoints: true)
                }
                return nil
            } catch {
                undo(database)
                return Self.error(error, path: path)
            }
        }
    }

    private func undo(_ database: Database) {
        if database.isInsideTransaction { try? database.execute(sql: "ROLLBACK") }
    }

    private func run(_ group: [any JournalWork], in database: Database, inSavepoints: Bool) throws {
        try database.cachedStatement(sql: "BEGIN IMMEDIATE").execute()
        for work in group {
            if inSavepoints { try database.cachedStatement(sql: "SAVEPOINT work").execute() }
            let before = database.totalChangesCount
            let hasFailed = work.run(JournalTransaction(database: database, journal: self))
            // A full or failing disk ends the whole transaction; what came after it would be on its own.
            guard database.isInsideTransaction else { throw JournalError.failed(ResultCode.SQLITE_IOERR.rawValue) }
            let isSpoilt = hasFailed && database.totalChangesCount != before
            if isSpoilt, !inSavepoints { throw HalfWritten() }
            guard inSavepoints else { continue }
            if isSpoilt { try database.execute(sql: "ROLLBACK TO work") }
            try database.cachedStatement(sql: "RELEASE work").execute()
        }
        try database.cachedStatement(sql: "COMMIT").execute()
    }

    /// A body has thrown after it had written.
    private struct HalfWritten: Error {}

    static func error(_ error: any Error, path: String) -> JournalError {
        switch error {
        case let error as JournalError: error
        case is ColumnError, DatabaseFileError.damaged: .damaged(path)
        case DatabaseFileError.tooNew: .tooNew(path)
        case let error as DatabaseFileError: self.error(error.code, path: path)
        case let error as DatabaseError: self.error(error.extendedResultCode, path: path)
        default: .failed(ResultCode.SQLITE_ERROR.rawValue)
        }
    }

    private static func error(_ code: ResultCode, path: String) -> JournalError {
        switch code.primaryResultCode {
        // The plain error is one of SQL, which is the schema's not being what was written.
        case .SQLITE_NOTADB, .SQLITE_CORRUPT, .SQLITE_ERROR: .damaged(path)
        case .SQLITE_BUSY, .SQLITE_LOCKED: .locked(path)
        case .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM: .notWritable(path)
        case .SQLITE_FULL: .full(path)
        default: .failed(code.rawValue)
        }
    }
}

/// One submitted transaction.
private protocol JournalWork: Sendable {
    /// - Returns: Whether it has failed.
    func run(_ transaction: JournalTransaction) -> Bool
    /// - Parameter failure: Why the group it belongs to is not on disk.
    func report(_ failure: JournalError?)
}

/// Its result waits for the commit.
private final class Work<Value: Sendable>: JournalWork {
    private let body: @Sendable (JournalTransaction) throws -> Value
    private let completion: @Sendable (Result<Value, any Error>) -> Void
    private let path: String
    private let result = Mutex<Result<Value, any Error>?>(nil)

    init(
        _ body: @escaping @Sendable (JournalTransaction) throws -> Value,
        _ completion: @escaping @Sendable (Result<Value, any Error>) -> Void,
        path: String
    ) {
        self.body = body
        self.completion = completion
        self.path = path
    }

    func run(_ transaction: JournalTransaction) -> Bool {
        let result: Result<Value, any Error>
        do {
            result = .success(try body(transaction))
        } catch {
            result = .failure(error is DatabaseError || error is ColumnError ? Journal.error(error, path: path) : error)
        }
        self.result.withLock { $0 = result }
        return if case .failure = result { true } else { false }
    }

    func report(_ failure: JournalError?) {
        let result = self.result.withLock { $0 } ?? .failure(JournalError.failed(ResultCode.SQLITE_ABORT.rawValue))
        completion(failure.map { .failure($0) } ?? result)
    }
}
