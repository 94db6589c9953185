// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// How many wakes may be on their way to one place, and when it pauses. Without I/O and clock.
///
/// After a failure, a pause or a rejected credential, one wake is sent at a time. Each answer permits one more.
struct CircuitBreaker {
    /// Consecutive failures after which the place is left alone for a time.
    static let failuresBeforePause = 5
    static let firstPause: Int64 = 60_000
    static let longestPause: Int64 = 600_000

    /// Which failures count.
    private let scope: PushScope
    private let limit: Int
    /// How many wakes may be on their way.
    private var window: Int
    private(set) var inFlight = 0
    private(set) var pausedUntil: Milliseconds = 0
    /// Changes with each pause: outcomes of earlier attempts are ignored.
    private(set) var period = 0
    private var failures = 0
    private var pauses = 0
    /// How many wakes are outstanding, those on their way included.
    var outstanding = 0

    init(_ scope: PushScope, limit: Int) {
        self.scope = scope
        self.limit = limit
        self.window = limit
    }

    var hasRoom: Bool { inFlight < window }

    /// Whether nothing about it needs to be remembered.
    func isIdle(at now: Milliseconds) -> Bool { outstanding == 0 && inFlight == 0 && pausedUntil <= now }

    mutating func started() { inFlight += 1 }

    /// - Parameter period: Of the attempt.
    mutating func finished(_ outcome: PushOutcome, period: Int, now: Milliseconds, random: (Int64) -> Int64) {
        inFlight -= 1
        guard period == self.period else { return }
        switch outcome {
        case .failed(let scope, _):
            guard scope == self.scope else { return }
            failures += 1
            window = max(1, window / 2)
            guard failures >= Self.failuresBeforePause || pauses > 0 else { return }
            let longest = min(Self.firstPause << Int64(min(pauses, 10)), Self.longestPause)
            pauses += 1
            pause(until: Milliseconds(clamping: now.count + longest / 2 + random(longest / 2)))
        case .credentialRejected, .throttled(.credential, _):
            window = 1
        case .accepted, .gone, .misconfigured, .mismatched, .invalid, .dropped, .forbidden, .throttled(.registration, _):
            failures = 0
            pauses = 0
            window = min(window + 1, limit)
        }
    }

    mutating func pause(until end: Milliseconds) {
        pausedUntil = max(pausedUntil, end)
        window = 1
        period += 1
    }
}
