// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import RelayServer
import RelayStorage
import Synchronization

/// Commits groups of work over a connection of its own, and finds out what became of a commit whose answer is lost. Used on one thread.
///
/// Its row in `store_writer` has the number of its last batch, and counts its connections. A new connection raises that count first: this
/// waits for the old connection's transaction, tells whether its batch is stored, and lets it fail if the server reads it only then.
///
/// A connection to another primary is used only once it is known to have all that was stored, because accounts of other nodes may have lost
/// something there.
///
/// The last statement of each transaction is a fence. It fails if this node no longer has the leases of all accounts in the group, or if
/// the connection was replaced. Epochs only grow, so who has a lease at the end has had it throughout.
final class PostgresWriter {
    /// How often a group is repeated that met transactions of others.
    private static let maximumConflicts = 20

    private let parameters: [(name: String, value: String)]
    private let thread: Int
    private(set) var node: NodeID
    /// `nil` for the relay's own work, which needs no lease.
    let leases: PostgresLeases?
    /// Without leases, other threads and nodes change the rows.
    private let cache: StoreCache?
    private var connection: PostgresConnection?
    /// The last batch that is stored, and how often the connection was replaced.
    private var (batch, checks): (Int64, Int64) = (0, 0)
    /// Since when the database counted as complete when the connection was opened.
    private var began: Int64?
    private var isClosed = false
    /// Whether a database with this history may be used.
    private let mayUse: (_ history: String) -> Bool
    /// Is called when the database does not have what this thread has stored.
    private let hasLost: () -> Void
    /// Set from any thread: what waits for the database waits no longer.
    let isStopped = StopFlag()

    final class StopFlag: Sendable {
        private let value = Atomic(false)
        var isSet: Bool { value.load(ordering: .relaxed) }
        func set() { value.store(true, ordering: .relaxed) }
    }

    /// - Parameter leases: For the work of accounts.
    init(
        _ parameters: [(name: String, value: String)],
        node: NodeID,
        thread: Int,
        leases: PostgresLeases? = nil,
        mayUse: @escaping (_ history: String) -> Bool = { _ in true },
        hasLost: @escaping () -> Void = {}
    ) {
        (self.parameters, self.node, self.thread, self.leases) = (parameters, node, thread, leases)
        (self.mayUse, self.hasLost) = (mayUse, hasLost)
        cache = leases == nil ? nil : StoreCache()
    }

    func close() {
        isClosed = true
        connection = nil
    }

    /// Begins again as another node, without leases.
    func become(_ node: NodeID) {
        self.node = node
        beginAnew()
    }

    /// Begins again, without leases. What it has stored may be lost.
    func beginAnew() {
        (connection, batch, checks) = (nil, 0, 0)
        loseAll()
    }

    func loseAll() {
        leases?.loseAll()
        cache?.forgetAll()
        cache?.groupUndone()
    }

    // MARK: Groups

    /// Commits a group.
    func commit(_ group: [StoreWork]) -> StoreThread.Outcome {
        guard !isClosed else { return .init(.unavailable("the relay is stopping")) }
        var lost: Set<AccountID> = []
        if let leases { for case let account? in group.map(\.account) where !leases.has(account) { lost.insert(account) } }
        while true {
            let present = lost.isEmpty ? group : group.filter { $0.account.map { !lost.contains($0) } ?? true }
            if present.isEmpty { return .init(lost: lost) }
            do {
                try commit(present, on: try connection ?? open())
                return .init(lost: lost)
            } catch {
                let gone = undo(present, after: error)
                guard !gone.isEmpty else { return .init(StoreError(anyOf: error), lost: lost) }
                lost.formUnion(gone)
            }
        }
    }

    private func commit(_ group: [StoreWork], on connection: PostgresConnection) throws {
        var (conflicts, inSavepoints) = (0, false)
        while true {
            do {
                try run(group, on: connection, inSavepoints: inSavepoints)
                try store(group, on: connection)
                cache?.groupCommitted()
                return
            } catch let error as PostgresError where error.isConflict && conflicts < Self.maximumConflicts {
                conflicts += 1
                Thread.sleep(forTimeInterval: .random(in: 0...0.01) * Double(conflicts))
            } catch  where !inSavepoints && Self.isRepeated(error) {
                // This is rare. Savepoints around all work would cost more.
                inSavepoints = true
            }
            cache?.groupUndone()
            try connection.rollback()
        }
    }

    /// Whether some of a group may succeed after a failure of other work in it.
    private static func isRepeated(_ error: any Error) -> Bool {
        error is HalfWritten || (error as? PostgresError)?.isOfStatement ?? false
    }

    /// Commits the transaction, and finds out whether it is stored.
    private func store(_ group: [StoreWork], on connection: PostgresConnection) throws {
        let next = batch + 1
        let writes = connection.writes > 0
        do throws(PostgresError) {
            if writes { try connection.send(Self.note, [.integer(next)] + row + [.integer(checks)], mayWrite: true) }
            try leases?.sendFence(for: group, writes: writes, node: node, on: connection)
            try connection.commit()
        } catch {
            if error.isDivisionByZero { throw Fenced() }
            guard writes else { throw error }
            // A server that ends may say so after the commit. Only a connection that still works shows that nothing is stored.
            if error.isOfStatement, (try? connection.rollback()) != nil { throw error }
            try find(next, after: error)
        }
        if writes { batch = next }
    }

    private var row: [SQLValue] { [.text("\(node)"), .integer(Int64(thread))] }

    /// Fails if the connection was replaced.
    private static let note = """
        WITH noted AS (UPDATE store_writer SET batch = ? WHERE node = ? AND thread = ? AND checks = ? RETURNING 1)
        SELECT 1 / count(*) FROM noted
        """

    /// Looks whether a batch is stored.
    /// - Throws: The error of its commit, if it is not stored.
    private func find(_ number: Int64, after error: PostgresError) throws {
        connection = nil
        while !isStopped.isSet {
            Thread.sleep(forTimeInterval: .random(in: 0.1...0.5))
            do {
                // What this thread has stored can be seen at any primary.
                _ = try look()
            } catch let lost as Lost {
                throw lost
            } catch {
                continue
            }
            guard batch == number else { throw error }
            return
        }
        throw error
    }

    /// Opens a connection that may be used.
    private func open() throws -> PostgresConnection {
        let opened = try look()
        guard connection != nil else { throw StoreError.unavailable("it has another primary, which may lack something: try again soon") }
        return opened
    }

    /// Opens a connection and reads what is stored. Keeps it if it may be used.
    private func look() throws -> PostgresConnection {
        let opened = try PostgresConnection(PostgresSettings.parameters(parameters, of: node))
        opened.isStopped = { [isStopped] in isStopped.isSet }
        opened.patience = nil
        try opened.begin()
        try opened.send("SET LOCAL statement_timeout = 0", [])
        try opened.send("SET LOCAL lock_timeout = 0", [])
        let found = try opened.run(
            """
            INSERT INTO store_writer (node, thread, batch, checks) VALUES (?, ?, 0, 0)
            ON CONFLICT (node, thread) DO UPDATE SET checks = store_writer.checks + 1
            RETURNING batch, checks, (SELECT \(PostgresNode.historyColumn) FROM pg_control_system() c), (SELECT began FROM meta)
            """,
            row,
            mayWrite: true
        )
        guard let found = found.rows.first else { throw ColumnError() }
        let (stored, history) = ((try found.integer(0), try found.integer(1)), try found.text(2))
        let begins = (before: began, now: try found.optional(3, found.integer))
        try opened.commit()
        let last = batch
        (batch, checks) = stored
        (connection, began) = (nil, begins.now)
        // The database has lost what it had acknowledged.
        if stored.0 < last {
            loseAll()
            // Another node may have said so already.
            guard let before = begins.before, let now = begins.now, now > before else {
                hasLost()
                throw Lost()
            }
        }
        if mayUse(history) { connection = opened }
        return opened
    }

    /// Makes the connection usable again, or gives it up.
    /// - Returns: The accounts whose leases are lost, if that is the reason of the error.
    private func undo(_ group: [StoreWork], after error: any Error) -> Set<AccountID> {
        cache?.groupUndone()
        let isGood = error is Fenced || (error as? PostgresError)?.leavesConnection ?? false
        guard let connection, isGood, (try? connection.rollback()) != nil else {
            connection = nil
            return []
        }
        guard error is Fenced else { return [] }
        let gone = (try? leases?.lookForLost(group, node: node, on: connection)) ?? []
        // Otherwise another connection of this thread has replaced this one.
        if gone.isEmpty { self.connection = nil }
        for account in gone { cache?.forget(account) }
        return gone
    }

    private func run(_ group: [StoreWork], on connection: PostgresConnection, inSavepoints: Bool) throws {
        let transaction = PostgresDatabase(connection: connection).transaction(cache: cache)
        connection.isImmediate = inSavepoints
        defer { connection.isImmediate = false }
        // The relay's own work is written for one writer; that of an account has one.
        try connection.begin(isSerializable: leases == nil)
        for work in group {
            if inSavepoints { try connection.send("SAVEPOINT work", []) }
            let before = connection.writes
            let failure = work.run(transaction)
            // The server takes nothing more before this is undone.
            let broken = connection.failure
            if let broken, !inSavepoints || !broken.isOfStatement || broken.isConflict { throw broken }
            let isPartial = failure != nil && (connection.writes != before || broken != nil)
            if isPartial, !inSavepoints { throw HalfWritten() }
            if failure == nil { cache?.workSucceeded() } else if isPartial { cache?.workUndone() } else { cache?.workFailed() }
            guard inSavepoints else { continue }
            if isPartial {
                connection.forgetFailure()
                try connection.send("ROLLBACK TO work", [])
            }
            try connection.send("RELEASE work", [])
        }
    }

    /// Work has failed after a write.
    private struct HalfWritten: Error {}
    /// The fence has failed.
    private struct Fenced: Error {}

    /// The database does not have what this thread has stored.
    private struct Lost: Error {}

    /// Looks whether the database has what this thread has stored. Tries until there is an answer.
    func confirm() -> Bool {
        connection = nil
        while !isStopped.isSet {
            do {
                _ = try look()
                return true
            } catch is Lost {
                return false
            } catch {
                Thread.sleep(forTimeInterval: .random(in: 0.1...0.5))
            }
        }
        return false
    }

    // MARK: Leases

    /// Runs something about leases in a transaction of its own.
    /// - Returns: `nil` if it is not known to be stored.
    func transact<Value>(_ body: (PostgresConnection) throws -> Value) -> Value? {
        guard !isClosed else { return nil }
        do {
            let connection = try connection ?? open()
            try connection.begin()
            let value = try body(connection)
            try store([], on: connection)
            return value
        } catch {
            _ = undo([], after: error)
            return nil
        }
    }

    func forget(_ account: AccountID) { cache?.forget(account) }
}

extension StoreError {
    fileprivate init(anyOf error: any Error) {
        self = (error as? PostgresError).map { StoreError($0) } ?? error as? StoreError ?? .unavailable("a write failed")
    }
}

extension PostgresError {
    private var code: String { if case .refused(let code, _) = self { code } else { "" } }

    var isDivisionByZero: Bool { code == "22012" }
    /// Whether the connection is still of use. Not if it does not know a statement any more (invalid_sql_statement_name), if a plan is out of
    /// date (feature_not_supported), or if the server has become a standby (read_only_sql_transaction).
    var leavesConnection: Bool { isOfStatement && !["26000", "0A000", "25006"].contains(code) }

    /// Transactions have met that cannot run one after the other (serialization_failure), or wait for each other (deadlock_detected).
    var isConflict: Bool { code == "40001" || code == "40P01" }
}
#endif
