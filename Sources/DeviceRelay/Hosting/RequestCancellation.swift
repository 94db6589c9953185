// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// Whether a request is still wanted, and who is to know when it is not.
package final class RequestCancellation: Sendable {
    private typealias Body = @Sendable () -> Void

    private enum State {
        /// The first of the bodies, which is mostly the only one, needs no array.
        case waiting(Body?, others: [Body])
        case cancelled
        case finished
    }

    private let state = Mutex(State.waiting(nil, others: []))

    package init() {}

    package var isCancelled: Bool {
        state.withLock { if case .cancelled = $0 { true } else { false } }
    }

    /// Runs the closure when the request is cancelled, at once if it was; never if it is finished before.
    func onCancel(_ body: @escaping @Sendable () -> Void) {
        let isCancelled = state.withLock { state in
            switch state {
            case .waiting(nil, others: _): state = .waiting(body, others: [])
            case .waiting(let first, let others): state = .waiting(first, others: others + [body])
            case .cancelled: return true
            case .finished: break
            }
            return false
        }
        if isCancelled { body() }
    }

    /// The caller no longer waits.
    package func cancel() {
        let (first, others): (Body?, [Body]) = state.withLock { state in
            guard case .waiting(let first, let others) = state else { return (nil, []) }
            state = .cancelled
            return (first, others)
        }
        first?()
        for body in others { body() }
    }

    /// The request has its answer.
    /// - Returns: False if it was cancelled before.
    @discardableResult
    func finish() -> Bool {
        state.withLock { state in
            if case .cancelled = state { return false }
            state = .finished
            return true
        }
    }
}
