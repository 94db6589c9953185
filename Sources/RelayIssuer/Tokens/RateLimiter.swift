// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Fixed-window rate limits by name. A window starts with a name's first event. Memory is bounded:
/// only the names with the latest events are kept, and all other names start with an empty window.
struct RateLimiter {
    private struct Count {
        var began: Milliseconds
        var events: Int
    }

    private let perWindow: Int
    private let window: Int64
    private var counts: RecentTable<Count>

    /// - Parameter window: The length of a window, in milliseconds.
    init(perWindow: Int, capacity: Int, window: Int64 = 60_000) {
        self.perWindow = perWindow
        self.counts = RecentTable(capacity: capacity)
        self.window = window
    }

    /// The number of names in memory.
    var count: Int { counts.count }

    private func current(_ name: String, now: Milliseconds) -> Count {
        // A time before the window's first event counts as in the window, because requests can overtake each other.
        guard let count = counts[name], abs(now.count - count.began.count) < window else {
            return Count(began: now, events: 0)
        }
        return count
    }

    /// - Returns: `nil` if one more event is within the limit; otherwise the time until the window ends.
    /// - Parameter times: The factor by which the limit is multiplied for this name.
    func wait(_ name: String, times: Int = 1, now: Milliseconds) -> Milliseconds? {
        let count = current(name, now: now)
        guard count.events >= perWindow * times else { return nil }
        return Milliseconds(clamping: min(window, count.began.count + window - now.count))
    }

    /// Counts an event.
    /// - Returns: `nil` if the event is within the limit; otherwise the time until the window ends.
    mutating func add(_ name: String, times: Int = 1, now: Milliseconds) -> Milliseconds? {
        if let wait = wait(name, times: times, now: now) { return wait }
        var count = current(name, now: now)
        count.events += 1
        counts[name] = count
        return nil
    }
}
