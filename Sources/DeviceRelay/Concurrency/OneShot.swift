// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// A value that is set once. Any number of tasks can wait for it.
package final class OneShot<Value: Sendable>: Sendable {
    private typealias Waiter = CheckedContinuation<Value?, Never>

    private enum State {
        case open(next: UInt64, [UInt64: Waiter])
        case settled(Value)
    }

    private let state = Mutex(State.open(next: 0, [:]))

    package init() {}

    /// The value, if it is set.
    package var value: Value? {
        state.withLock { if case .settled(let value) = $0 { value } else { nil } }
    }

    /// Sets the value, unless it is set already.
    /// - Returns: Whether this call set it.
    @discardableResult
    package func settle(_ value: Value) -> Bool {
        let waiters: [UInt64: Waiter]? = state.withLock { state in
            guard case .open(_, let waiters) = state else { return nil }
            state = .settled(value)
            return waiters
        }
        guard let waiters else { return false }
        for waiter in waiters.values { waiter.resume(returning: value) }
        return true
    }

    /// Waits for the value; `nil` if the task is cancelled before.
    package func wait() async -> Value? {
        let ticket = state.withLock { state -> UInt64 in
            guard case .open(let next, let waiters) = state else { return 0 }
            state = .open(next: next + 1, waiters)
            return next
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let value: Value?? = state.withLock { state in
                    switch state {
                    case .settled(let value): return value
                    // A cancellation after this check finds the waiter.
                    case .open where Task.isCancelled: return .some(nil)
                    case .open(let next, var waiters):
                        waiters[ticket] = continuation
                        state = .open(next: next, waiters)
                        return nil
                    }
                }
                if let value { continuation.resume(returning: value) }
            }
        } onCancel: {
            let waiter: Waiter? = state.withLock { state in
                guard case .open(let next, var waiters) = state else { return nil }
                defer { state = .open(next: next, waiters) }
                return waiters.removeValue(forKey: ticket)
            }
            waiter?.resume(returning: nil)
        }
    }
}
