// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import Foundation
import GRDB
package import RelayProtocol
import RelayStorage
import Synchronization

/// The stored state of one endpoint: its sent and received commands, the numbers of their lanes, and its pinned peers. It is one SQLite
/// database, which all processes of an endpoint share.
///
/// Transactions that are submitted during a commit are committed together in the next one. Results are delivered after the commit, in the
/// order of submission, so callers act only on data that is on disk.
package final class Journal: Sendable {
    private struct Queue {
        var work: [any JournalWork] = []
        var isWorking = false
    }

    /// A larger group would only delay its first transaction.
    private static let largestGroup = 256
    /// Old commands are deleted in batches, because finding them takes longer than storing a new one: once for every 1/16 of the limit in
    /// new commands.
    private static let trimmedShare = 16

    let endpoint: EndpointID
    let limits: Limits
    private let path: String
    /// The file that each commit writes, also one of another process.
    var commitFile: String { path + "-wal" }
    private let database: DatabaseQueue
    private let queue = Mutex(Queue())
    private let thread = DispatchQueue(label: "device-relay.journal")
    private let insertions = Mutex(0)
    /// Changes after each commit of this process that may have changed a command.
    let commandRevision = CurrentValue<UInt64>(0)

    /// Opens the journal of an endpoint, or creates it. A file that is damaged, locked or too new is not changed.
    /// - Parameters:
    ///   - isExpected: Whether the endpoint has had a journal. A new one then takes the place of a lost one. It trusts none of the endpoints
    ///     that the relay lists, unless a known one vouches for them: this endpoint itself did for those that it knew when it invited.
    ///   - now: The local time.
    ///   - patience: How long to wait for other processes, in seconds.
    package init(
        path: String,
        endpoint: EndpointID,
        isExpected: Bool = false,
        now: Int64 = 0,
        limits: Limits = Limits(),
        patience: Double = 5
    ) throws(JournalError) {
        self.path = path
        self.endpoint = endpoint
        self.limits = limits
        do {
            database = try DatabaseFile.open(path, migrator: JournalSchema.migrator, patience: patience)
            try database.write { database in
                try database.execute(sql: "INSERT OR IGNORE INTO meta (id, endpoint) VALUES (1, ?)", arguments: .bound(endpoint.column))
                if isExpected, database.changesCount > 0 {
                    try database.execute(sql: "UPDATE meta SET enumerated = 1, replaced = ?", arguments: .bound(now))
                }
                let owner = try Row.fetchOne(database, sql: "SELECT endpoint FROM meta")?.endpoint("endpoint")
                guard owner == endpoint else { throw JournalError.otherEndpoint(path) }
            }
        } catch {
            throw Self.error(error, path: path)
        }
    }

    /// Opens the journal of an endpoint for reads alone. It writes nothing, so it works on a full disk and on a read-only file system.
    package init(reading path: String, endpoint: EndpointID, limits: Limits = Limits()) throws(JournalError) {
        self.path = path
        self.endpoint = endpoint
        self.limits = limits
        do {
            database = try DatabaseFile.read(path, migrator: JournalSchema.migrator)
            let owner = try database.read { try Row.fetchOne($0, sql: "SELECT endpoint FROM meta")?.endpoint("endpoint") }
            guard owner == endpoint else { throw JournalError.otherEndpoint(path) }
        } catch {
            throw Self.error(error, path: path)
        }
    }

    // MARK: Access

    /// Runs the body in a transaction, and delivers its result after the commit, on the journal's thread. If the body throws, its changes
    /// are rolled back, and other transactions in the same commit are not affected. In that case the body may run twice.
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

    /// As above, for asynchronous callers. It resumes directly on the caller's actor.
    package func write<Value: Sendable>(
        isolation: isolated (any Actor)? = #isolation,
        _ body: @escaping @Sendable (JournalTransaction) throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            write(body) { continuation.resume(with: $0) }
        }
    }

    /// Reads from one consistent snapshot of the committed data.
    package func read<Value>(_ body: (JournalTransaction) throws -> Value) throws(JournalError) -> Value {
        do {
            return try database.inDatabase { database in
                try database.snapshot { try body(JournalTransaction(database: database, journal: self)) }
            }
        } catch {
            throw Self.error(error, path: path)
        }
    }

    /// Commits the submitted transactions, delivers their results, and closes the database. Later writes and reads fail with
    /// `JournalError.closed`. Must not be called from a completion.
    package func close() {
        thread.sync {
            // A concurrent `write` may have queued its work, and not scheduled it yet.
            work()
            try? database.close()
        }
        commandRevision.finish()
    }

    func commandsChanged() { commandRevision.update { $0 &+= 1 } }

    /// Counts a new command, and returns whether it is time to delete old ones.
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

    /// Commits a group. Returns the error, or `nil` on success.
    private func commit(_ group: [any JournalWork]) -> JournalError? {
        database.inDatabase { database in
            let transaction = JournalTransaction(database: database, journal: self)
            do {
                try GroupCommit(database).commit(group.count, run: { group[$0].run(transaction) })
                return nil
            } catch {
                return Self.error(error, path: path)
            }
        }
    }

    static func error(_ error: any Error, path: String) -> JournalError {
        switch error {
        case let error as JournalError: error
        case is ColumnError, DatabaseFileError.damaged: .damaged(path)
        case DatabaseFileError.tooNew: .tooNew(path)
        case DatabaseFileError.file(let error): self.error(error, path: path)
        case let error as DatabaseFileError: self.error(error.code, path: path)
        case let error as DatabaseError: self.error(error.extendedResultCode, path: path)
        default: .failed(ResultCode.SQLITE_ERROR.rawValue)
        }
    }

    private static func error(_ error: StorageError, path: String) -> JournalError {
        switch error.problem {
        case .full: .full(path)
        case .readOnly: .readOnly(path)
        default: .notWritable(path)
        }
    }

    private static func error(_ code: ResultCode, path: String) -> JournalError {
        switch code.primaryResultCode {
        // `SQLITE_ERROR` means that the schema does not match the statement, so the file is damaged.
        case .SQLITE_NOTADB, .SQLITE_CORRUPT, .SQLITE_ERROR: .damaged(path)
        case .SQLITE_BUSY, .SQLITE_LOCKED: .locked(path)
        case .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM:
            error(StorageError.probe(beside: path) ?? StorageError(.notWritable, path: path), path: path)
        case .SQLITE_IOERR: StorageError.probe(beside: path).map { error($0, path: path) } ?? .failed(code.rawValue)
        case .SQLITE_FULL: .full(path)
        // The database is closed.
        case .SQLITE_MISUSE: .closed(path)
        default: .failed(code.rawValue)
        }
    }
}

/// One submitted transaction.
private protocol JournalWork: Sendable {
    /// Returns the error of the body.
    func run(_ transaction: JournalTransaction) -> (any Error)?
    /// - Parameter failure: The error if the group was not committed.
    func report(_ failure: JournalError?)
}

/// A transaction whose result waits for the commit.
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

    func run(_ transaction: JournalTransaction) -> (any Error)? {
        do {
            let value = try body(transaction)
            result.withLock { $0 = .success(value) }
            return nil
        } catch {
            let failure = error is DatabaseError || error is ColumnError || error is TextError ? Journal.error(error, path: path) : error
            result.withLock { $0 = .failure(failure) }
            return failure
        }
    }

    func report(_ failure: JournalError?) {
        let result = self.result.withLock { $0 } ?? .failure(JournalError.failed(ResultCode.SQLITE_ABORT.rawValue))
        completion(failure.map { .failure($0) } ?? result)
    }
}
