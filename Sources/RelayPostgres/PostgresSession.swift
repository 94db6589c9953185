// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation

/// Runs transactions over a connection of its own, which it replaces when it is lost. Used by one thread at a time.
final class PostgresSession {
    /// How a transaction relates to concurrent ones. The values are those of `SET TRANSACTION`.
    enum Mode: String {
        /// As if all of them ran one after another.
        case write = "ISOLATION LEVEL SERIALIZABLE"
        /// As `write`, and it changes nothing.
        case read = "ISOLATION LEVEL SERIALIZABLE READ ONLY"
        /// Each statement sees what is stored by then.
        case count = "ISOLATION LEVEL READ COMMITTED"
    }

    /// The answer to a commit is lost, so nobody knows whether it was made.
    struct CommitLost: Error {}

    /// How often work is repeated that meets other work.
    private static let maximumConflicts = 12

    private let parameters: [(name: String, value: String)]
    private var connection: PostgresConnection?

    init(_ parameters: [(name: String, value: String)]) { self.parameters = parameters }

    /// Ends the connection. The next transaction opens another one.
    func close() { connection = nil }

    /// Runs a transaction.
    /// - Parameter body: Runs again if the transaction does not fit to concurrent ones, so it must have no effects outside.
    /// - Throws: `CommitLost`, or why nothing is stored.
    func run<Result>(_ mode: Mode, _ body: (PostgresDatabase) throws -> Result) throws -> Result {
        var (conflicts, others) = (0, 0)
        while true {
            let isConnected = connection != nil
            do {
                return try attempt(mode, body)
            } catch let error as PostgresError {
                if error.isConflict, conflicts < Self.maximumConflicts {
                    // Random, so that those that met do not meet again.
                    Thread.sleep(forTimeInterval: .random(in: 0...min(0.004 * pow(2, Double(conflicts)), 0.25)))
                    conflicts += 1
                } else if Self.mayPass(error, wasConnected: isConnected), others == 0 {
                    others += 1
                } else {
                    throw error
                }
            }
        }
    }

    /// Whether an error that left nothing stored may not come again.
    private static func mayPass(_ error: PostgresError, wasConnected: Bool) -> Bool {
        switch error {
        // unique_violation: a concurrent transaction has added the row, and the work finds it now.
        case .refused(let code, _): code == "23505" || isOfConnection(code)
        // The server may have restarted since the last work.
        case .lost: wasConnected
        case .unopened, .timedOut, .misused: false
        }
    }

    /// Whether an error ends with a new connection: `invalid_sql_statement_name`, `feature_not_supported`.
    private static func isOfConnection(_ code: String) -> Bool { ["26000", "0A000"].contains(code) }

    private func attempt<Result>(_ mode: Mode, _ body: (PostgresDatabase) throws -> Result) throws -> Result {
        let connection = try connection ?? PostgresConnection(parameters)
        self.connection = connection
        let result: Result
        do {
            try connection.begin()
            // The answer is awaited: that a connection was lost meanwhile is known before the work.
            _ = try connection.run("SET TRANSACTION \(mode.rawValue)", [])
            result = try body(PostgresDatabase(connection: connection))
        } catch {
            // A statement's error counts, whatever the work has made of it.
            throw undo(connection, connection.failure ?? error)
        }
        do {
            try connection.commit()
        } catch {
            let failure = undo(connection, error)
            // An error that has ended the connection may have come after the commit.
            if mode != .read, !((failure as? PostgresError)?.isOfStatement ?? false) { throw CommitLost() }
            throw failure
        }
        return result
    }

    /// Undoes a transaction, and gives up a connection that is of no use any more.
    /// - Returns: Why the transaction failed.
    private func undo(_ connection: PostgresConnection, _ error: any Error) -> any Error {
        guard let failure = error as? PostgresError else {
            if (try? connection.rollback()) == nil { self.connection = nil }
            return error
        }
        guard failure.isOfStatement, (try? connection.rollback()) != nil else {
            self.connection = nil
            if case .refused(_, let message) = failure { return PostgresError.lost(message) }
            return failure
        }
        if case .refused(let code, _) = failure, Self.isOfConnection(code) { self.connection = nil }
        return failure
    }
}
#endif
