// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The launch rate limit: one token bucket for each known device, and one for all new devices together, so that a sender
/// gains nothing by joining several times.
package struct LaunchRate: Sendable {
    private struct Bucket {
        var level: Double
        var time: ContinuousClock.Instant
    }

    private enum Sender: Hashable {
        case known(RemoteSystem.ID)
        case new
    }

    private var buckets: [Sender: Bucket] = [:]

    package init() {}

    /// Takes one launch from the sender's bucket.
    /// - Parameter perMinute: The size of the bucket and its refill per minute.
    /// - Returns: Whether the launch is within the rate.
    package mutating func admit(_ device: RemoteSystem.ID, isNew: Bool, perMinute: Int, at now: ContinuousClock.Instant) -> Bool {
        let full = Double(perMinute)
        let sender = isNew ? Sender.new : .known(device)
        var bucket = buckets[sender] ?? Bucket(level: full, time: now)
        bucket.level = min(full, bucket.level + bucket.time.duration(to: now) / .seconds(60) * full)
        bucket.time = now
        let isWithin = bucket.level >= 1
        if isWithin { bucket.level -= 1 }
        // A bucket that was not used for a minute is full again and can be dropped.
        buckets = buckets.filter { $0.value.time.duration(to: now) < .seconds(60) }
        buckets[sender] = bucket
        return isWithin
    }

    /// The number of senders that have a bucket.
    var count: Int { buckets.count }
}
