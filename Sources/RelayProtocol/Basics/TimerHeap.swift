// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What is due at a time; the earliest is first.
package struct TimerHeap<Event> {
    private var timers: [(time: Milliseconds, event: Event)] = []

    package init() {}

    package var first: Milliseconds? { timers.first?.time }
    package var count: Int { timers.count }
    package var isEmpty: Bool { timers.isEmpty }

    package mutating func insert(_ event: Event, at time: Milliseconds) {
        timers.append((time, event))
        var child = timers.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard timers[child].time < timers[parent].time else { return }
            timers.swapAt(child, parent)
            child = parent
        }
    }

    /// - Returns: The first event that is due.
    package mutating func removeFirst(at now: Milliseconds) -> Event? {
        guard let first = timers.first, first.time <= now else { return nil }
        let last = timers.removeLast()
        if !timers.isEmpty {
            timers[0] = last
            sink()
        }
        return first.event
    }

    package mutating func removeAll(where isVoid: (Event) -> Bool) {
        let kept = timers.filter { !isVoid($0.event) }
        timers = []
        for timer in kept { insert(timer.event, at: timer.time) }
    }

    private mutating func sink() {
        var parent = 0
        while true {
            var earliest = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < timers.count && timers[child].time < timers[earliest].time {
                earliest = child
            }
            guard earliest != parent else { return }
            timers.swapAt(parent, earliest)
            parent = earliest
        }
    }
}

extension TimerHeap: Sendable where Event: Sendable {}
