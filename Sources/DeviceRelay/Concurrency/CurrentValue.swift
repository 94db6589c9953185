// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import Synchronization

/// A value that changes, for any number of independent observers. An observer gets the newest value when it asks; what changed in
/// between is passed over, so nothing queues up and nobody slow holds others up.
package final class CurrentValue<Value: Sendable>: Sendable {
    private struct State {
        var value: Value
        var revision: UInt64 = 1
        var isFinished = false
        var lastWaiter: UInt64 = 0
        var waiting: [UInt64: Waiter] = [:]
    }

    private struct Waiter {
        /// For which values it is woken, if it is not over.
        let isMet: @Sendable (Value) -> Bool
        let continuation: CheckedContinuation<Void, Never>
    }

    private let state: Mutex<State>

    init(_ value: Value) {
        self.state = Mutex(State(value: value))
    }

    var value: Value { state.withLock { $0.value } }

    /// Those whom the next change may wake: for tests.
    var waiterCount: Int { state.withLock { $0.waiting.count } }

    /// Changes the value, and wakes whoever waits for that.
    func update(_ body: (inout Value) -> Void) {
        let met = state.withLock { state in
            body(&state.value)
            state.revision &+= 1
            let met = state.waiting.filter { $0.value.isMet(state.value) }
            for waiter in met.keys { state.waiting[waiter] = nil }
            return met
        }
        for waiter in met.values { waiter.continuation.resume() }
    }

    /// The value is final.
    func finish() {
        state.withLock { $0.isFinished = true }
        wake()
    }

    private func wake() {
        let waiting = state.withLock { state in
            defer { state.waiting = [:] }
            return state.waiting
        }
        for waiter in waiting.values { waiter.continuation.resume() }
    }

    /// The value, once it is newer than the revision that was seen last; 0 stands for none.
    /// - Returns: `nil` once the final value was seen, or the task is cancelled.
    func next(after seen: UInt64) async -> (value: Value, revision: UInt64)? { await next(after: seen, within: nil) { _ in true } }

    private func next(
        after seen: UInt64,
        within limit: TimeLimit?,
        where isMet: @escaping @Sendable (Value) -> Bool
    ) async -> (value: Value, revision: UInt64)? {
        let waiter = state.withLock { state in
            state.lastWaiter &+= 1
            return state.lastWaiter
        }
        while !Task.isCancelled {
            let (news, isFinished) = state.withLock { state in
                (state.revision > seen ? (state.value, state.revision) : nil, state.isFinished)
            }
            if let news { return news }
            if isFinished || limit?.isOver == true { return nil }
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let isOver = state.withLock { state in
                        guard state.revision <= seen, !state.isFinished, !Task.isCancelled, limit?.isOver != true else { return true }
                        state.waiting[waiter] = Waiter(isMet: isMet, continuation: continuation)
                        return false
                    }
                    if isOver { continuation.resume() }
                }
            } onCancel: {
                state.withLock { $0.waiting.removeValue(forKey: waiter) }?.continuation.resume()
            }
        }
        return nil
    }

    /// The same, for no longer than a duration.
    func first(within duration: Duration, where isMet: @escaping @Sendable (Value) -> Bool) async -> Value? {
        let limit = TimeLimit()
        // A loop's timer costs less than a task that sleeps. Nobody waits for longer than some thirty years.
        let delay = TimeAmount.milliseconds(min(max(0, duration.milliseconds), 1 << 40))
        let timer = MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: delay) {
            limit.end()
            self.wake()
        }
        defer { timer.cancel() }
        return await first(within: limit, where: isMet)
    }

    /// Waits until the value fulfils a condition.
    /// - Returns: The value; `nil` if it is final without that, or the task is cancelled.
    package func first(where isMet: @escaping @Sendable (Value) -> Bool) async -> Value? { await first(within: nil, where: isMet) }

    private func first(within limit: TimeLimit?, where isMet: @escaping @Sendable (Value) -> Bool) async -> Value? {
        var seen: UInt64 = 0
        while let (value, revision) = await next(after: seen, within: limit, where: isMet) {
            if isMet(value) { return value }
            seen = revision
        }
        return nil
    }
}

/// Whether somebody has waited long enough.
private final class TimeLimit: Sendable {
    private let over = Atomic(false)

    var isOver: Bool { over.load(ordering: .acquiring) }

    func end() { over.store(true, ordering: .releasing) }
}
