// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

@testable import RelayPush

/// A queue, and a provider that answers each attempt at once.
struct QueueSimulation {
    var queue: WakeQueue
    var now: Milliseconds = 1_000
    var reports: [WakeReport] = []
    /// When attempts were made, in milliseconds.
    var attempts: [Int64] = []
    var orders: [WakeOrder] = []

    init(_ limits: WakeQueue.Limits = .init()) { queue = WakeQueue(limits) }

    mutating func add(_ order: WakeOrder) {
        reports += queue.add(order, deadline: order.wake.expiry, now: now)
    }

    /// Starts what can be started.
    mutating func start() -> [WakeQueue.Attempt] {
        let (started, reports) = queue.start(now: now)
        self.reports += reports
        attempts += started.map { _ in now.count }
        orders += started.map(\.order)
        return started
    }

    mutating func finish(_ attempt: WakeQueue.Attempt, _ outcome: PushOutcome) {
        reports += queue.finished(attempt, outcome, now: now, random: { $0 })
    }

    /// Lets time pass, with an answer to each attempt.
    mutating func run(until end: Milliseconds, _ answer: (WakeOrder, Milliseconds) -> PushOutcome) {
        while true {
            var started = start()
            while !started.isEmpty {
                for attempt in started { finish(attempt, answer(attempt.order, now)) }
                started = start()
            }
            guard let next = queue.nextTime, next <= end else { break }
            now = max(next, now)
        }
        now = end
    }
}
