// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// What a task waits for: a connection, or a response.
struct SessionAsk {
    typealias Continuation<Value> = CheckedContinuation<Result<Value, AppServiceError>, Never>

    struct Response: Sendable {
        let message: ByteBuffer
        /// What it occupies until it is decoded.
        let receipt: MessageCredit?
    }

    enum Waiter {
        case connection(AppServiceInfo, Continuation<AppServiceConnection>)
        case response(Continuation<Response>)
    }

    let token: UInt64
    let waiter: Waiter
    /// Why it is no longer wanted.
    var reason: AppServiceError.Code?

    func fail(_ error: AppServiceError) {
        let error = reason.map { AppServiceError($0) } ?? error
        switch waiter {
        case .connection(_, let continuation): continuation.resume(returning: .failure(error))
        case .response(let continuation): continuation.resume(returning: .failure(error))
        }
    }
}

/// What tasks wait for, and until when.
struct SessionAskTable {
    private var asks: [SessionRequestID: SessionAsk] = [:]
    private var tokens: [UInt64: SessionRequestID] = [:]
    private var deadlines = DeadlineQueue()

    var count: Int { asks.count }
    var tokenCount: Int { tokens.count }
    var requests: some Collection<SessionRequestID> { asks.keys }

    /// When `popDue` may have something; one that is done may be among them.
    var nextDeadline: Duration? { deadlines.next }

    mutating func insert(_ ask: SessionAsk, for request: SessionRequestID, until deadline: Duration) {
        asks[request] = ask
        tokens[ask.token] = request
        deadlines.add(ask.token, at: deadline)
    }

    mutating func remove(_ request: SessionRequestID) -> SessionAsk? {
        guard let ask = asks.removeValue(forKey: request) else { return nil }
        tokens[ask.token] = nil
        let tokens = tokens
        deadlines.prune(liveCount: tokens.count) { tokens[$0] != nil }
        return ask
    }

    /// Nobody waits any more; what comes of it is told with this reason.
    mutating func giveUp(_ token: UInt64, _ reason: AppServiceError.Code) -> SessionRequestID? {
        guard let request = tokens[token] else { return nil }
        asks[request]?.reason = reason
        return request
    }

    /// Takes out one whose time has come. It may be done.
    mutating func popDue(at now: Duration) -> UInt64? { deadlines.popDue(at: now) }
}
