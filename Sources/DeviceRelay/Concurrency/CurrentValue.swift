// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import Synchronization

/// A current value with any number of independent observers. An observer reads the newest value and skips values in
/// between, so nothing queues up and a slow observer delays no other.
package final class CurrentValue<Value: Sendable>: Sendable {
    private struct State {
        var value: Value
        var revision: UInt64 = 1
        var isFinished = false
        var lastWaiter: UInt64 = 0
        var waiting: [UInt64: Waiter] = [:]
    }

    private struct Waiter {
        /// The values that resume the wait. A final value and the time limit resume it, too.
        let isMet: @Sendable (Value) -> Bool
        let continuation: CheckedContinuation<Void, Never>
    }

    private let state: Mutex<State>

    package init(_ value: Value) {
        self.state = Mutex(State(value: value))
    }

    package var value: Value { state.withLock { $0.value } }

    /// The number of waiting tasks, for tests.
    var waiterCount: Int { state.withLock { $0.waiting.count } }

    /// Changes the value, and resumes the tasks whose condition it meets.
    package func update(_ body: (inout Value) -> Void) {
        let met = state.withLock { state in
            body(&state.value)
            state.revision &+= 1
            let met = state.waiting.filter { $0.value.isMet(state.value) }
            for waiter in met.keys { state.waiting[waiter] = nil }
            return met
        }
        for waiter in met.values { waiter.continuation.resume() }
    }

    /// Makes the current value final.
    package func finish() {
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

    /// Waits until the value is newer than a revision; 0 means none.
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

    /// Waits with a time limit until the value is newer than a revision; 0 means none.
    /// - Returns: The newer revision; `nil` without one in time.
    func next(after seen: UInt64, within duration: Duration) async -> UInt64? {
        await limited(to: duration) { await next(after: seen, within: $0) { _ in true }?.revision }
    }

    /// Waits with a time limit until the value fulfils a condition.
    package func first(within duration: Duration, where isMet: @escaping @Sendable (Value) -> Bool) async -> Value? {
        await limited(to: duration) { await first(within: $0, where: isMet) }
    }

    private func limited<Result>(to duration: Duration, _ body: (TimeLimit) async -> Result) async -> Result {
        let limit = TimeLimit()
        // An event loop's timer is cheaper than a sleeping task. The delay is limited to some thirty years.
        let delay = TimeAmount.milliseconds(min(max(0, duration.milliseconds), 1 << 40))
        let timer = MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: delay) {
            limit.end()
            self.wake()
        }
        defer { timer.cancel() }
        return await body(limit)
    }

    /// Waits until the value fulfils a condition.
    /// - Returns: The value; `nil` if the value becomes final without it, or the task is cancelled.
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

/// Whether the time limit of a wait has passed.
private final class TimeLimit: Sendable {
    private let over = Atomic(false)

    var isOver: Bool { over.load(ordering: .acquiring) }

    func end() { over.store(true, ordering: .releasing) }
}
