// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// How often each target may be woken: a burst, then one wake per interval. Without I/O and clock.
///
/// A target that could have its whole burst again is forgotten.
struct WakeRates<Target: Hashable> {
    private let burst: Int64
    /// Milliseconds.
    private let interval: Int64
    /// When each target could have its whole burst again.
    private var times: [Target: Milliseconds] = [:]
    private var nextSweep = 1_024

    init(burst: Int, interval: Int64) {
        self.burst = Int64(burst)
        self.interval = interval
    }

    var count: Int { times.count }

    /// - Returns: `false` if the target was woken too often.
    mutating func take(_ target: Target, now: Milliseconds) -> Bool {
        let full = max(times[target] ?? 0, now)
        guard full.count - now.count <= (burst - 1) * interval else { return false }
        times[target] = Milliseconds(clamping: full.count + interval)
        if times.count >= nextSweep { sweep(now: now) }
        return true
    }

    mutating func sweep(now: Milliseconds) {
        times = times.filter { $0.value > now }
        nextSweep = max(1_024, 2 * times.count)
    }
}
