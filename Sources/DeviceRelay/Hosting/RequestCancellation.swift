// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// The cancellation state of a request, and the closures that run on cancellation.
package final class RequestCancellation: Sendable {
    private typealias Body = @Sendable () -> Void

    private enum State {
        /// The first closure is stored outside the array, because there is rarely more than one.
        case waiting(Body?, others: [Body])
        case cancelled
        case finished
    }

    private let state = Mutex(State.waiting(nil, others: []))

    package init() {}

    package var isCancelled: Bool {
        state.withLock { if case .cancelled = $0 { true } else { false } }
    }

    /// Runs the closure when the request is cancelled, or at once if it is already cancelled. It never runs after `finish`.
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

    /// Cancels the request, because the caller no longer waits.
    package func cancel() {
        let (first, others): (Body?, [Body]) = state.withLock { state in
            guard case .waiting(let first, let others) = state else { return (nil, []) }
            state = .cancelled
            return (first, others)
        }
        first?()
        for body in others { body() }
    }

    /// Records that the request has its answer.
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
