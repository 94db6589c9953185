// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// A token bucket: a rate per second, with bursts of ten times that. Counts in thousandths, so that each millisecond adds a whole number.
package struct TokenBucket: Hashable, Sendable {
    private let perSecond: Int64
    private var thousandths: Int64
    private var uptime: Milliseconds

    package init(perSecond: Int, uptime: Milliseconds) {
        self.perSecond = Int64(min(max(perSecond, 1), 1_000_000))
        self.thousandths = self.perSecond * 10_000
        self.uptime = uptime
    }

    private var capacity: Int64 { perSecond * 10_000 }

    /// - Returns: `nil` if a token was taken, otherwise the time until the next one.
    package mutating func take(uptime now: Milliseconds) -> Milliseconds? {
        refill(uptime: now)
        guard thousandths < 1_000 else {
            thousandths -= 1_000
            return nil
        }
        return Milliseconds(clamping: (1_000 - thousandths + perSecond - 1) / perSecond)
    }

    package func isFull(uptime now: Milliseconds) -> Bool {
        var copy = self
        copy.refill(uptime: now)
        return copy.thousandths == copy.capacity
    }

    private mutating func refill(uptime now: Milliseconds) {
        // Ten seconds fill the bucket; the clamp keeps the product small.
        let passed = min(max(now.count - uptime.count, 0), 10_000)
        thousandths = min(capacity, thousandths + passed * perSecond)
        uptime = max(uptime, now)
    }
}
