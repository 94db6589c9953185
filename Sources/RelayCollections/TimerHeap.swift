// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import HeapModule

/// What is due at a time; the earliest is first. Events with the same time have no order.
package struct TimerHeap<Time: Comparable, Event> {
    fileprivate struct Timer: Comparable {
        let time: Time
        let event: Event

        static func < (left: Timer, right: Timer) -> Bool { left.time < right.time }
        static func == (left: Timer, right: Timer) -> Bool { left.time == right.time }
    }

    private var timers = Heap<Timer>()

    package init() {}

    package var first: Time? { timers.min?.time }
    package var count: Int { timers.count }
    package var isEmpty: Bool { timers.isEmpty }

    package mutating func insert(_ event: Event, at time: Time) { timers.insert(Timer(time: time, event: event)) }

    /// - Returns: The first event that is due.
    package mutating func removeFirst(at now: Time) -> Event? {
        guard let first, first <= now else { return nil }
        return timers.popMin()?.event
    }

    /// Removes the void events, if they are the majority. So ending what waits for an event costs nothing here.
    package mutating func prune(liveCount: Int, isLive: (Event) -> Bool) {
        guard count > 2 * liveCount + 64 else { return }
        timers.removeAll { !isLive($0.event) }
    }
}

extension TimerHeap: Sendable where Time: Sendable, Event: Sendable {}
extension TimerHeap.Timer: Sendable where Time: Sendable, Event: Sendable {}
