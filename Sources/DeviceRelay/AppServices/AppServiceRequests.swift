// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The requests of a connection, until it is closed. Each request is delivered once: two iterators share the requests.
public struct AppServiceRequests: AsyncSequence, Sendable {
    /// A request.
    public typealias Element = AppServiceRequest
    /// Iteration does not throw.
    public typealias Failure = Never

    let connection: AppServiceConnection

    /// See `AsyncSequence`.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(connection: connection) }

    /// See `AsyncSequence`.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let connection: AppServiceConnection

        /// Waits for the next request. `nil` when the connection is closed, or the task is cancelled.
        public mutating func next() async -> AppServiceRequest? { await connection.nextRequest() }

        /// As `next()`.
        public mutating func next(isolation actor: isolated (any Actor)?) async -> AppServiceRequest? { await connection.nextRequest() }
    }
}
