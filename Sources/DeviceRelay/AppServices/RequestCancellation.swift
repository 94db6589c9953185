// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// Whether a request is still wanted, and who is to know when it is not.
package final class RequestCancellation: Sendable {
    private enum State {
        case waiting([@Sendable () -> Void])
        case cancelled
        case finished
    }

    private let state = Mutex(State.waiting([]))

    package init() {}

    package var isCancelled: Bool {
        state.withLock { if case .cancelled = $0 { true } else { false } }
    }

    /// Runs the closure when the request is cancelled, at once if it was; never if it is finished before.
    func onCancel(_ body: @escaping @Sendable () -> Void) {
        let isCancelled = state.withLock { state in
            switch state {
            case .waiting(let bodies): state = .waiting(bodies + [body])
            case .cancelled: return true
            case .finished: break
            }
            return false
        }
        if isCancelled { body() }
    }

    /// The caller no longer waits.
    package func cancel() {
        let bodies: [@Sendable () -> Void] = state.withLock { state in
            guard case .waiting(let bodies) = state else { return [] }
            state = .cancelled
            return bodies
        }
        for body in bodies { body() }
    }

    /// The request has its answer.
    func finish() {
        state.withLock { if case .waiting = $0 { $0 = .finished } }
    }
}
