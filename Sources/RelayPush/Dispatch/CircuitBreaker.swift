// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Limits the wakes in flight to one service or address, and pauses it after repeated failures. It does no I/O and reads no clock.
///
/// A failure halves the number of wakes that may be in flight. A pause or a rejected credential reduces it to one. Each other answer of the
/// provider adds one, up to the limit.
struct CircuitBreaker {
    /// The number of consecutive failures that starts the first pause. After that, each further failure starts one.
    static let failuresBeforePause = 5
    static let firstPause: Int64 = 60_000
    static let longestPause: Int64 = 600_000

    /// The scope of the failures that count.
    private let scope: PushScope
    private let limit: Int
    /// The number of wakes that may be in flight.
    private var window: Int
    private(set) var inFlight = 0
    private(set) var pausedUntil: Milliseconds = 0
    /// Increases with each pause. Outcomes of attempts from an earlier period are ignored.
    private(set) var period = 0
    private var failures = 0
    private var pauses = 0
    /// The number of outstanding wakes, including those in flight.
    var outstanding = 0

    init(_ scope: PushScope, limit: Int) {
        self.scope = scope
        self.limit = limit
        self.window = limit
    }

    var hasRoom: Bool { inFlight < window }

    /// Whether the state can be discarded.
    func isIdle(at now: Milliseconds) -> Bool { outstanding == 0 && inFlight == 0 && pausedUntil <= now }

    mutating func started() { inFlight += 1 }

    /// - Parameter period: The ``period`` in which the attempt started.
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
