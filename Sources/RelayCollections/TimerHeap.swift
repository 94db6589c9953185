// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import HeapModule

/// What is due at a time; the earliest is first. Events with the same time have no order.
public struct TimerHeap<Time: Comparable, Event> {
    @usableFromInline struct Timer: Comparable {
        @usableFromInline let time: Time
        @usableFromInline let event: Event

        @inlinable init(time: Time, event: Event) {
            self.time = time
            self.event = event
        }

        @inlinable static func < (left: Timer, right: Timer) -> Bool { left.time < right.time }
        @inlinable static func == (left: Timer, right: Timer) -> Bool { left.time == right.time }
    }

    @usableFromInline var timers = Heap<Timer>()

    /// Creates an empty heap.
    @inlinable public init() {}

    /// The earliest time; `nil` if there is none.
    @inlinable public var first: Time? { timers.min?.time }
    /// The number of events, with void ones.
    @inlinable public var count: Int { timers.count }
    /// Whether there is no event.
    @inlinable public var isEmpty: Bool { timers.isEmpty }

    /// Adds an event.
    @inlinable public mutating func insert(_ event: Event, at time: Time) { timers.insert(Timer(time: time, event: event)) }

    /// - Returns: The first event that is due.
    @inlinable public mutating func removeFirst(at now: Time) -> Event? {
        guard let first, first <= now else { return nil }
        return timers.popMin()?.event
    }

    /// Removes the void events, if they are the majority. So ending what waits for an event costs nothing here.
    @inlinable public mutating func prune(liveCount: Int, isLive: (Event) -> Bool) {
        guard count > 2 * liveCount + 64 else { return }
        timers.removeAll { !isLive($0.event) }
    }
}

extension TimerHeap: Sendable where Time: Sendable, Event: Sendable {}
extension TimerHeap.Timer: Sendable where Time: Sendable, Event: Sendable {}
