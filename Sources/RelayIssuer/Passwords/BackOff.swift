// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// A back-off after failed attempts, by name. The first attempts, five by default, have no delay. Then each failure doubles the wait, from
/// one second to fifteen minutes. A name is forgotten an hour after its last failure, and earlier if there are too many names.
struct BackOff {
    static let free = 5
    static let longest: Int64 = 900_000
    static let memory: Int64 = 3_600_000

    private struct Failures {
        var count: Int
        var last: Milliseconds
        var blockedUntil: Milliseconds
    }

    private let free: Int
    private var table: RecentTable<Failures>

    init(free: Int = BackOff.free, capacity: Int = 65_536) {
        self.free = free
        self.table = RecentTable(capacity: capacity)
    }

    var count: Int { table.count }

    private func failures(_ name: String, now: Milliseconds) -> Failures {
        // A time before the last failure does not reset the failures, because requests can overtake each other.
        guard let failures = table[name], abs(now.count - failures.last.count) < Self.memory else {
            return Failures(count: 0, last: now, blockedUntil: 0)
        }
        return failures
    }

    /// - Returns: `nil` if an attempt may be tried; otherwise the time to wait.
    func wait(_ name: String, now: Milliseconds) -> Milliseconds? {
        let failures = failures(name, now: now)
        // A clock that was set back does not make the wait longer.
        return now < failures.blockedUntil ? Milliseconds(clamping: min(failures.blockedUntil.count - now.count, Self.longest)) : nil
    }

    /// Counts an attempt as failed before it is tried, so that concurrent attempts cannot exceed the limit.
    /// - Parameter times: The factor for the number of free attempts of this name.
    /// - Returns: `nil` if it may be tried; otherwise the time to wait.
    mutating func attempt(_ name: String, times: Int = 1, now: Milliseconds) -> Milliseconds? {
        if let wait = wait(name, now: now) { return wait }
        var failures = failures(name, now: now)
        failures.count += 1
        failures.last = max(failures.last, now)
        if failures.count >= free * times {
            let wait = min(Self.longest, 1_000 << Int64(min(failures.count - free * times, 20)))
            failures.blockedUntil = Milliseconds(clamping: now.count + wait)
        }
        table[name] = failures
        return nil
    }

    /// Takes back one counted failure after a success, and ends the wait.
    mutating func takeBack(_ name: String, now: Milliseconds) {
        guard let count = table[name]?.count else { return }
        table[name]?.count = max(0, count - 1)
        table[name]?.blockedUntil = 0
    }

    /// Forgets all failures of a name after a success.
    mutating func succeed(_ name: String) {
        table[name] = nil
    }
}
