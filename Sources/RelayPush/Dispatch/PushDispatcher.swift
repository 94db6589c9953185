// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import CoreMetrics
package import Logging
package import RelayProtocol
import Synchronization

/// Sends wakes by the providers: coalesced, repeated where the provider failed, paused where it asks for that, and with bounds of its own for
/// each provider and account, so that a slow or busy one delays no other. It keeps nothing durable.
package actor PushDispatcher: WakeSending {
    private var channels: [PushCredentialID: any PushChannel]
    private var queue: WakeQueue
    private let clock: WakeClock
    private let random: @Sendable (_ bound: Int64) -> Int64
    private let journal: PushJournal
    private let reporter: @Sendable (WakeReport) -> Void
    /// Says that the queue may have something to start.
    private let changes: AsyncStream<Void>
    private let change: AsyncStream<Void>.Continuation
    /// The times that a task waits for.
    private var alarms: Set<Milliseconds> = []
    private var isEnded = false
    /// The uptimes from which credentials can be used.
    private let usable: Mutex<[PushCredentialID: Milliseconds]>

    /// - Parameters:
    ///   - channels: The dispatcher shuts them down.
    ///   - random: A number within 0 ... bound, for the jitter.
    ///   - report: Called in order; must not block.
    package init(
        _ channels: [PushCredentialID: any PushChannel],
        clock: WakeClock = .system,
        logger: Logger,
        metrics: any MetricsFactory,
        random: @escaping @Sendable (_ bound: Int64) -> Int64 = { .random(in: 0...max($0, 0)) },
        report: @escaping @Sendable (WakeReport) -> Void
    ) {
        self.channels = channels
        self.usable = Mutex(channels.mapValues { _ in 0 })
        self.queue = WakeQueue()
        self.clock = clock
        self.random = random
        self.journal = PushJournal(logger: logger, metrics: metrics)
        self.reporter = report
        (self.changes, self.change) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Sends wakes until the task is cancelled. Called once.
    package func run() async {
        await withDiscardingTaskGroup { group in
            for await _ in changes {
                let (attempts, reports) = queue.start(now: clock.uptime())
                reports.forEach(report)
                for attempt in attempts { group.addTask { await self.perform(attempt) } }
                if let next = queue.nextTime, alarms.allSatisfy({ $0 > next }) {
                    alarms.insert(next)
                    group.addTask { await self.sleep(until: next) }
                }
            }
            group.cancelAll()
        }
        isEnded = true
        let ended = channels.values
        channels = [:]
        for channel in ended { await channel.shutdown() }
    }

    package func send(_ order: WakeOrder) {
        guard channels[order.credential] != nil else { return report(.notSent(order, .unknownCredential)) }
        let now = clock.uptime()
        let deadline = Milliseconds(clamping: now.count + order.wake.expiry.count - clock.time().count)
        queue.add(order, deadline: deadline, now: now).forEach(report)
        change.yield()
    }

    /// Whether there is such a credential, and it is not stopped. It never waits for the dispatcher.
    package nonisolated func canSend(with credential: PushCredentialID) -> Bool {
        usable.withLock { $0[credential] }.map { $0 <= clock.uptime() } ?? false
    }

    package func connected(_ endpoint: EndpointID) {
        queue.connected(endpoint, now: clock.uptime()).forEach(report)
    }

    /// The operator changed a credential; `nil` if it is gone.
    package func replace(_ channel: (any PushChannel)?, for credential: PushCredentialID) async {
        guard !isEnded else {
            await channel?.shutdown()
            return
        }
        let old = channels[credential]
        channels[credential] = channel
        usable.withLock { $0[credential] = channel == nil ? nil : 0 }
        queue.replaced(credential)
        change.yield()
        // What is on its way fails, and is sent again by the new channel.
        await old?.shutdown()
    }

    /// How many entries of any kind are kept.
    var size: Int { queue.size }

    private func report(_ report: WakeReport) {
        journal.record(report)
        if case .credentialStopped(let credential, _) = report {
            let end = Milliseconds(clamping: clock.uptime().count + PushRetry.maximumPause)
            usable.withLock { if $0[credential] != nil { $0[credential] = end } }
        }
        reporter(report)
    }

    private func perform(_ attempt: WakeQueue.Attempt) async {
        let outcome: PushOutcome
        if let channel = channels[attempt.key.credential] {
            outcome = await channel.send(attempt.order.wake, to: attempt.order.registration)
            journal.attempted(channel.service, outcome)
        } else {
            outcome = .invalid(reason: "there is no such credential")
        }
        queue.finished(attempt, outcome, now: clock.uptime(), random: random).forEach(report)
        change.yield()
    }

    private func sleep(until time: Milliseconds) async {
        await clock.sleep(time)
        alarms.remove(time)
        change.yield()
    }
}
