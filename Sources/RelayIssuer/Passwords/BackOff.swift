// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Growing delays after failed attempts, by name. Five attempts are free; then each failure doubles the wait, from one second to
/// fifteen minutes. A name is forgotten an hour after its last failure, and earlier if there are too many names.
struct BackOff {
    static let free = 5
    static let longest: Int64 = 900_000
    static let memory: Int64 = 3_600_000

    private struct Failures {
        var count: Int
        var last: Milliseconds
        var blockedUntil: Milliseconds
    }

    private let capacity: Int
    /// A full generation replaces the older one.
    private var recent: [String: Failures] = [:]
    private var older: [String: Failures] = [:]

    init(capacity: Int = 65_536) { self.capacity = capacity }

    var count: Int { recent.count + older.count }

    /// Counts an attempt as failed before it is tried, so that attempts at the same time do not escape the limit.
    /// - Returns: `nil` if it may be tried; otherwise the time to wait.
    mutating func attempt(_ name: String, now: Milliseconds) -> Milliseconds? {
        var failures = recent[name] ?? older[name] ?? Failures(count: 0, last: now, blockedUntil: now)
        if now < failures.last || now.count - failures.last.count >= Self.memory {
            failures = Failures(count: 0, last: now, blockedUntil: now)
        }
        if now < failures.blockedUntil { return Milliseconds(clamping: failures.blockedUntil.count - now.count) }
        failures.count += 1
        failures.last = now
        if failures.count >= Self.free {
            let wait = min(Self.longest, 1_000 << Int64(min(failures.count - Self.free, 20)))
            failures.blockedUntil = Milliseconds(clamping: now.count + wait)
        }
        older[name] = nil
        if recent[name] == nil, recent.count >= max(1, capacity / 2) {
            older = recent
            recent = [:]
        }
        recent[name] = failures
        return nil
    }

    /// The attempt did not fail.
    mutating func succeed(_ name: String) {
        recent[name] = nil
        older[name] = nil
    }
}
