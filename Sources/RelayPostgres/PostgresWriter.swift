// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import RelayServer
import RelayStorage

/// Commits groups of work over a connection of its own, and finds out what became of a commit whose answer is lost. Used on one thread.
///
/// Its row in `store_writer` has the number of its last batch, and counts its connections. A new connection raises that count first: this
/// waits for the old connection's transaction, tells whether its batch is stored, and lets it fail if the server reads it only then.
final class PostgresWriter {
    private let parameters: [(name: String, value: String)]
    private let node: String
    private let thread: Int
    private let cache = StoreCache()
    private var connection: PostgresConnection?
    /// The last batch that is stored, and how often the connection was replaced.
    private var (batch, checks): (Int64, Int64) = (0, 0)
    private var isClosed = false

    init(_ parameters: [(name: String, value: String)], node: String, thread: Int) {
        (self.parameters, self.node, self.thread) = (parameters, node, thread)
    }

    func close() {
        isClosed = true
        connection = nil
    }

    /// Commits a group.
    /// - Returns: The error if it is not stored.
    func commit(_ group: [StoreWork]) -> StoreError? {
        guard !isClosed else { return .unavailable("the relay is stopping") }
        do {
            let connection = try connection ?? open()
            do {
                try run(group, on: connection, inSavepoints: false)
                try store(on: connection)
            } catch  where Self.isRepeated(error) {
                // This is rare. Savepoints around all work would cost more.
                cache.groupUndone()
                try connection.rollback()
                try run(group, on: connection, inSavepoints: true)
                try store(on: connection)
            }
            cache.groupCommitted()
            return nil
        } catch {
            cache.groupUndone()
            undo(error)
            return (error as? PostgresError).map { StoreError($0) } ?? .unavailable("a write failed")
        }
    }

    /// Whether some of a group may succeed after a failure of other work in it.
    private static func isRepeated(_ error: any Error) -> Bool {
        error is HalfWritten || (error as? PostgresError)?.isOfStatement ?? false
    }

    /// Commits the transaction, and finds out whether it is stored.
    private func store(on connection: PostgresConnection) throws {
        guard connection.writes > 0 else { return try connection.commit() }
        let next = batch + 1
        try connection.send(Self.note, [.integer(next)] + row + [.integer(checks)], mayWrite: true)
        do {
            try connection.commit()
        } catch  where !error.isOfStatement {
            try find(next, after: error)
        }
        batch = next
    }

    private var row: [SQLValue] { [.text(node), .integer(Int64(thread))] }

    /// Fails if the connection was replaced.
    private static let note = """
        WITH noted AS (
            UPDATE store_writer SET batch = ? WHERE node = CAST(CAST(? AS TEXT) AS UUID) AND thread = ? AND checks = ? RETURNING 1
        )
        SELECT 1 / count(*) FROM noted
        """

    /// Looks whether a batch is stored.
    /// - Throws: The error of its commit, if it is not stored.
    private func find(_ number: Int64, after error: PostgresError) throws {
        connection = nil
        while !isClosed {
            Thread.sleep(forTimeInterval: .random(in: 0.1...2))
            guard (try? open()) != nil else { continue }
            guard batch == number else { throw error }
            return
        }
        throw error
    }

    /// Opens a connection and reads what is stored.
    private func open() throws -> PostgresConnection {
        let opened = try PostgresConnection(parameters)
        opened.patience = nil
        try opened.begin()
        try opened.send("SET LOCAL statement_timeout = 0", [])
        try opened.send("SET LOCAL lock_timeout = 0", [])
        let found = try opened.run(
            """
            INSERT INTO store_writer (node, thread, batch, checks) VALUES (CAST(CAST(? AS TEXT) AS UUID), ?, 0, 0)
            ON CONFLICT (node, thread) DO UPDATE SET checks = store_writer.checks + 1 RETURNING batch, checks
            """,
            row,
            mayWrite: true
        )
        guard let found = found.rows.first else { throw ColumnError() }
        let stored = (try found.integer(0), try found.integer(1))
        try opened.commit()
        (batch, checks) = stored
        connection = opened
        return opened
    }

    private func undo(_ error: any Error) {
        guard let connection, let error = error as? PostgresError, error.isOfStatement, (try? connection.rollback()) != nil else {
            connection = nil
            return
        }
    }

    private func run(_ group: [StoreWork], on connection: PostgresConnection, inSavepoints: Bool) throws {
        let transaction = PostgresDatabase(connection: connection).transaction(cache: cache)
        connection.isImmediate = inSavepoints
        defer { connection.isImmediate = false }
        try connection.begin()
        for work in group {
            if inSavepoints { try connection.send("SAVEPOINT work", []) }
            let before = connection.writes
            let failure = work.run(transaction)
            // The server takes nothing more before this is undone.
            let broken = connection.failure
            if let broken, !inSavepoints || !broken.isOfStatement { throw broken }
            let isPartial = failure != nil && (connection.writes != before || broken != nil)
            if isPartial, !inSavepoints { throw HalfWritten() }
            if failure == nil { cache.workSucceeded() } else if isPartial { cache.workUndone() } else { cache.workFailed() }
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
}
#endif
