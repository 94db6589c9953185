// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import CoreMetrics
package import Logging
package import RelayProtocol
import Synchronization

/// Sends wakes through the push providers. It coalesces wakes, retries them when a provider fails, and pauses when a provider asks for it.
/// Each provider and account has bounds of its own, so that a slow or busy one delays no other. The state is in memory only.
package actor PushDispatcher: WakeSending {
    private var channels: [PushCredentialID: any PushChannel]
    private var queue: WakeQueue
    private let clock: WakeClock
    private let random: @Sendable (_ bound: Int64) -> Int64
    private let journal: PushJournal
    private let reporter: @Sendable (WakeReport) -> Void
    /// Signals that the queue may have attempts to start.
    private let changes: AsyncStream<Void>
    private let change: AsyncStream<Void>.Continuation
    /// The uptimes until which timer tasks sleep.
    private var alarms: Set<Milliseconds> = []
    private var isEnded = false
    /// The uptime from which each credential can be used; 0 unless it was stopped.
    private let usable: Mutex<[PushCredentialID: Milliseconds]>

    /// - Parameters:
    ///   - channels: The channel of each credential. The dispatcher shuts them down.
    ///   - random: Returns a number in 0 ... bound, for the jitter.
    ///   - report: Is called in order, and must not block.
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

    /// Sends wakes until the task is cancelled. Must be called once.
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

    /// Whether the credential exists and is not stopped. It does not wait for the actor.
    package nonisolated func canSend(with credential: PushCredentialID) -> Bool {
        usable.withLock { $0[credential] }.map { $0 <= clock.uptime() } ?? false
    }

    package func drop(_ endpoint: EndpointID, _ why: WakeReport.NotSent) {
        queue.drop(endpoint, why, now: clock.uptime()).forEach(report)
    }

    /// Replaces the channel of a credential that the operator changed; `nil` removes the credential.
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
        // Wakes in flight fail, and are retried through the new channel.
        await old?.shutdown()
    }

    /// The number of entries of all kinds in the queue.
    var size: Int { queue.size }

    private func report(_ report: WakeReport) {
        journal.record(report)
        if case .credentialStopped(let credential, _) = report {
            let end = Milliseconds(clamping: clock.uptime().count + PushRetry.maximumPause)
            usable.withLock { if $0[credential] != nil { $0[credential] = end } }
        }
        reporter(report)
    }

    /// Signs and encrypts beside the dispatcher, so that it stays free.
    @concurrent private static func send(_ order: WakeOrder, by channel: any PushChannel) async -> PushOutcome {
        await channel.send(order.wake, to: order.registration)
    }

    private func perform(_ attempt: WakeQueue.Attempt) async {
        let outcome: PushOutcome
        if let channel = channels[attempt.key.credential] {
            outcome = await Self.send(attempt.order, by: channel)
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
