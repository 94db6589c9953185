// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ServiceLifecycle
import Synchronization

/// The tasks that the relay's parts start beside their callers. As a service they end with the relay: what runs is cancelled and awaited,
/// and nothing more is started. So no task uses the store after it was closed.
package final class BackgroundTasks: Service {
    private struct State {
        var tasks: [Int: Task<Void, Never>] = [:]
        var lastNumber = 0
        var hasEnded = false
    }

    private let state = Mutex(State())

    package init() {}

    /// The number of tasks that run.
    package var count: Int { state.withLock { $0.tasks.count } }

    /// Starts a task.
    /// - Returns: `nil` after the end: the body is not called.
    @discardableResult
    package func start(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never>? {
        state.withLock { state in
            guard !state.hasEnded else { return nil }
            state.lastNumber += 1
            let number = state.lastNumber
            // It is removed after it was added: removing needs the lock, too.
            let task = Task {  // Owner: `end`
                await body()
                self.state.withLock { _ = $0.tasks.removeValue(forKey: number) }
            }
            state.tasks[number] = task
            return task
        }
    }

    /// Cancels all tasks, and waits until they have ended.
    package func end() async {
        let tasks = state.withLock { state in
            state.hasEnded = true
            return Array(state.tasks.values)
        }
        for task in tasks { task.cancel() }
        for task in tasks { await task.value }
    }

    /// Ends the tasks when the relay stops.
    package func run() async throws {
        try? await gracefulShutdown()
        await end()
    }
}
