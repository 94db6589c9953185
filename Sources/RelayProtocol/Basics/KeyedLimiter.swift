// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A number of events per period: all of them may come at once, then one each time that its part of the period has passed.
package struct EventRate: Hashable, Sendable {
    fileprivate let burst: Int64
    /// In microseconds.
    fileprivate let interval: Int64

    fileprivate var span: Int64 { burst * interval }

    /// - Parameters:
    ///   - burst: The number of events, from 1 to 10,000,000.
    ///   - period: up to a day. An event takes at least a microsecond of it.
    package init(_ burst: Int, per period: Milliseconds) {
        self.burst = Int64(min(max(burst, 1), 10_000_000))
        self.interval = max(1, min(period.count, 86_400_000) * 1_000 / self.burst)
    }

    /// A rate per second, from 1 to 1,000,000, with bursts of ten seconds.
    package init(perSecond: Int) { self.init(10 * min(max(perSecond, 1), 1_000_000), per: 10_000) }
}

/// Limits the rate of events by key (generic cell rate algorithm, ITU-T I.371). It reads no clock.
///
/// A key whose whole burst is available again is forgotten by the next sweep. A sweep costs little per event, because it waits until the
/// number of keys has doubled.
package struct KeyedLimiter<Key: Hashable> {
    /// The time in microseconds at which the whole burst of each key is available again.
    private var times: [Key: Int64] = [:]
    private var nextSweep = 64

    package init() {}

    package var count: Int { times.count }

    /// Counts one event.
    /// - Parameter now: An uptime. One before that of the last event does not make the wait longer than the interval.
    /// - Returns: `nil` if the event is within the rate; otherwise the time until the next one.
    package mutating func take(_ key: Key, _ rate: EventRate, now: Milliseconds) -> Milliseconds? {
        let time = Self.microseconds(now)
        let full = min(max(times[key] ?? time, time), time + rate.span)
        let wait = full + rate.interval - rate.span - time
        guard wait <= 0 else { return Milliseconds(clamping: (wait + 999) / 1_000) }
        times[key] = full + rate.interval
        if times.count >= nextSweep { sweep(now: now) }
        return nil
    }

    package mutating func sweep(now: Milliseconds) {
        let time = Self.microseconds(now)
        times = times.filter { $0.value > time }
        nextSweep = max(64, 2 * times.count)
    }

    /// Bounded, so that no sum overflows.
    private static func microseconds(_ time: Milliseconds) -> Int64 { min(time.count, 1 << 50) * 1_000 }
}

extension KeyedLimiter: Sendable where Key: Sendable {}
