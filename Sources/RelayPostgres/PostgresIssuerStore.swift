// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import NIOPosix
package import RelayIssuer
import RelayServer
import Synchronization

/// The issuer's rows in a PostgreSQL database. Its transactions run on threads of their own, each with a connection.
package final class PostgresIssuerStore: IssuerStore {
    private static let threadCount = 4
    /// How many transactions may run or wait. When the database does not answer, further ones fail at once.
    private static let largestQueue = 1_024

    /// What a thread uses for a transaction.
    private struct Connection: Sendable {
        nonisolated(unsafe) let session: PostgresSession
    }

    private struct State {
        var free: [Connection]
        var unfinished = 0
    }

    private let threads = NIOThreadPool(numberOfThreads: threadCount)
    private let state: Mutex<State>

    /// Opens a database, and creates its tables if there are none.
    /// - Parameters:
    ///   - parameters: As in libpq's manual, section "Parameter Key Words".
    ///   - master: The key that sealed the rows, or seals them now.
    package init(_ parameters: [(name: String, value: String)], master: MasterKey) throws(IssuerError) {
        let connected = PostgresSettings.parameters(parameters, of: nil)
        let first = PostgresSession(connected)
        do {
            try PostgresSettings.prepare(parameters)
            try first.run(.write) { try $0.issuerTransaction.checkSeal(by: master) }
        } catch {
            throw IssuerError(error)
        }
        let others = (1..<Self.threadCount).map { _ in PostgresSession(connected) }
        state = Mutex(State(free: ([first] + others).map { Connection(session: $0) }))
        threads.start()
    }

    deinit { threads.shutdownGracefully { _ in } }

    package func write<Result: Sendable>(
        _ body: @escaping @Sendable (any IssuerTransaction) throws -> Result
    ) async throws(IssuerError) -> Result {
        try await run(.write) { try body($0.issuerTransaction) }
    }

    package func read<Result: Sendable>(
        _ body: @escaping @Sendable (any IssuerTransaction) throws -> Result
    ) async throws(IssuerError) -> Result {
        try await run(.read) { try body($0.issuerTransaction) }
    }

    package func count<Result: Sendable>(
        _ body: @escaping @Sendable (any AttemptTransaction) throws -> Result
    ) async throws(IssuerError) -> Result {
        try await run(.count) { try body($0.attemptTransaction) }
    }

    /// Waits for transactions that run. Later ones fail.
    package func close() throws(IssuerError) {
        try? threads.syncShutdownGracefully()
        for connection in state.withLock(\.free) { connection.session.close() }
    }

    private func run<Result: Sendable>(
        _ mode: PostgresSession.Mode,
        _ body: @escaping @Sendable (PostgresDatabase) throws -> Result
    ) async throws(IssuerError) -> Result {
        let hasRoom = state.withLock { state in
            guard state.unfinished < Self.largestQueue else { return false }
            state.unfinished += 1
            return true
        }
        guard hasRoom else { throw .unavailable("too many requests wait for it") }
        defer { state.withLock { $0.unfinished -= 1 } }
        let result = await withCheckedContinuation { continuation in
            threads.submit { [self] work in continuation.resume(returning: work == .active ? run(mode, body) : .failure(.stopping)) }
        }
        return try result.get()
    }

    /// Runs a transaction on this thread.
    private func run<Value: Sendable>(
        _ mode: PostgresSession.Mode,
        _ body: (PostgresDatabase) throws -> Value
    ) -> Result<Value, IssuerError> {
        // There are as many as threads.
        guard let connection = state.withLock({ $0.free.popLast() }) else { return .failure(.stopping) }
        defer { state.withLock { $0.free.append(connection) } }
        return Result { try connection.session.run(mode, body) }.mapError { IssuerError($0) }
    }
}

extension IssuerError {
    fileprivate static let stopping = IssuerError.unavailable("the relay is stopping")

    fileprivate init(_ error: any Error) {
        self =
            switch error {
            case let error as IssuerError: error
            case let error as PostgresError: IssuerError(StoreError(error))
            case StoreError.unavailable(let reason): .unavailable(reason)
            case is PostgresSession.CommitLost:
                .unavailable("the answer to a change is lost: look whether it was made before you repeat it")
            case is PostgresSchema.SchemaTooNew: .databaseTooNew
            // The error may quote stored data.
            default: .unavailable("a transaction failed")
            }
    }
}
#endif
