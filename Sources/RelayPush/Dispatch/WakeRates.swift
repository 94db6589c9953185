// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The rate limit for wakes of each target: a burst, then one wake per interval. It does no I/O and reads no clock.
///
/// A target whose whole burst is available again is forgotten.
struct WakeRates<Target: Hashable> {
    private let burst: Int64
    /// In milliseconds.
    private let interval: Int64
    /// The time at which the whole burst of each target is available again.
    private var times: [Target: Milliseconds] = [:]
    private var nextSweep = 1_024

    init(burst: Int, interval: Int64) {
        self.burst = Int64(burst)
        self.interval = interval
    }

    var count: Int { times.count }

    /// - Returns: `nil` if the target may be woken now, otherwise the milliseconds until it may be.
    mutating func take(_ target: Target, now: Milliseconds) -> Int64? {
        let full = max(times[target] ?? 0, now)
        let wait = full.count - now.count - (burst - 1) * interval
        guard wait <= 0 else { return wait }
        times[target] = Milliseconds(clamping: full.count + interval)
        if times.count >= nextSweep { sweep(now: now) }
        return nil
    }

    mutating func sweep(now: Milliseconds) {
        times = times.filter { $0.value > now }
        nextSweep = max(1_024, 2 * times.count)
    }
}
