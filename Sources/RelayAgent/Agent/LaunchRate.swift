// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// How many launches devices may still make: a bucket for each device that is known, and one for all that are new together, so that a
/// sender gains nothing by joining many times.
struct LaunchRate: Sendable {
    private struct Bucket {
        var level: Double
        var time: ContinuousClock.Instant
    }

    private enum Sender: Hashable {
        case known(SystemID)
        case new
    }

    private var buckets: [Sender: Bucket] = [:]

    /// Counts a launch.
    /// - Parameter perMinute: How many may come at once, and how many more each minute.
    /// - Returns: Whether it is within the rate.
    mutating func admit(_ device: SystemID, isNew: Bool, perMinute: Int, at now: ContinuousClock.Instant) -> Bool {
        let full = Double(perMinute)
        let sender = isNew ? Sender.new : .known(device)
        var bucket = buckets[sender] ?? Bucket(level: full, time: now)
        bucket.level = min(full, bucket.level + bucket.time.duration(to: now) / .seconds(60) * full)
        bucket.time = now
        let isWithin = bucket.level >= 1
        if isWithin { bucket.level -= 1 }
        // One that nothing was taken from for a minute is full again, and is as good as none.
        buckets = buckets.filter { $0.value.time.duration(to: now) < .seconds(60) }
        buckets[sender] = bucket
        return isWithin
    }

    /// How many senders are counted.
    var count: Int { buckets.count }
}
