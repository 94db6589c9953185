// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// The event loop of objects that are not `Sendable`: it runs their timers and tasks. Its nonisolated methods must be called on the loop.
actor EndpointLoop {
    nonisolated let eventLoop: any EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }
    nonisolated let clock: PlatformClock

    private var tasks: [UInt64: Task<Void, Never>] = [:]
    private var lastTask: UInt64 = 0
    private var hasEnded = false

    init(_ eventLoop: any EventLoop, clock: PlatformClock) {
        self.eventLoop = eventLoop
        self.clock = clock
    }

    nonisolated var now: Int64 { clock.steady() }
    nonisolated var wallTime: Int64 { clock.wall() }

    /// - Parameter delay: In milliseconds.
    @discardableResult
    nonisolated func after(_ delay: Int64, _ body: @escaping () -> Void) -> Scheduled<Void> {
        eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(max(0, delay)), body)
    }

    /// Runs a task of an object on the loop. `end` cancels the task and waits for it.
    /// - Returns: `nil` after `end`.
    @discardableResult
    nonisolated func spawn<Owner>(
        _ owner: Owner,
        _ body: @escaping @Sendable (Owner) async -> Void
    ) -> Task<Void, Never>? {
        let owner = NIOLoopBound(owner, eventLoop: eventLoop)
        return assumeIsolated { $0.start(owner, body) }
    }

    private func start<Owner>(
        _ owner: NIOLoopBound<Owner>,
        _ body: @escaping @Sendable (Owner) async -> Void
    ) -> Task<Void, Never>? {
        guard !hasEnded else { return nil }
        lastTask &+= 1
        let number = lastTask
        let task = Task {  // Owner: `end` cancels it and waits for it
            await body(owner.value)
            tasks[number] = nil
        }
        tasks[number] = task
        return task
    }

    /// Runs a closure with an object on the loop, for a caller that is not on the loop.
    func run<Owner, Result: Sendable>(_ owner: NIOLoopBound<Owner>, _ body: @Sendable (Owner) -> Result) -> Result { body(owner.value) }

    /// Cancels all tasks and waits for them. No task starts afterwards.
    func end() async {
        hasEnded = true
        while let (_, task) = tasks.first {
            task.cancel()
            await task.value
        }
    }
}
