// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayCollections
import RelayProtocol

/// An operation that a task waits for: opening a connection, or a response.
struct SessionAsk {
    typealias Continuation<Value> = CheckedContinuation<Result<Value, AppServiceError>, Never>

    struct Response: Sendable {
        let message: ByteBuffer
        /// The credit of a large message, returned after decoding.
        let receipt: MessageCredit?
    }

    enum Waiter {
        case connection(AppServiceInfo, TraceContext?, Continuation<AppServiceConnection>)
        case response(Continuation<Response>)
    }

    let token: UInt64
    let waiter: Waiter
    /// Why the task no longer waits; `nil` while it waits.
    var reason: AppServiceError.Code?

    func fail(_ error: AppServiceError) {
        let error = reason.map { AppServiceError($0) } ?? error
        switch waiter {
        case .connection(_, _, let continuation): continuation.resume(returning: .failure(error))
        case .response(let continuation): continuation.resume(returning: .failure(error))
        }
    }
}

/// All operations that tasks wait for, with their deadlines.
struct SessionAskTable {
    private var asks: [SessionRequestID: SessionAsk] = [:]
    private var tokens: [UInt64: SessionRequestID] = [:]
    private var deadlines = TimerHeap<Duration, UInt64>()

    var count: Int { asks.count }
    var tokenCount: Int { tokens.count }
    var requests: some Collection<SessionRequestID> { asks.keys }

    /// The earliest deadline. It may belong to an operation that has ended.
    var nextDeadline: Duration? { deadlines.first }

    mutating func insert(_ ask: SessionAsk, for request: SessionRequestID, until deadline: Duration) {
        asks[request] = ask
        tokens[ask.token] = request
        deadlines.insert(ask.token, at: deadline)
    }

    mutating func remove(_ request: SessionRequestID) -> SessionAsk? {
        guard let ask = asks.removeValue(forKey: request) else { return nil }
        tokens[ask.token] = nil
        let tokens = tokens
        deadlines.prune(liveCount: tokens.count) { tokens[$0] != nil }
        return ask
    }

    /// Marks an operation as given up. Its task receives this reason when the operation ends.
    mutating func giveUp(_ token: UInt64, _ reason: AppServiceError.Code) -> SessionRequestID? {
        guard let request = tokens[token] else { return nil }
        asks[request]?.reason = reason
        return request
    }

    /// Removes one operation whose deadline has passed. It may have ended already.
    mutating func popDue(at now: Duration) -> UInt64? { deadlines.removeFirst(at: now) }
}
