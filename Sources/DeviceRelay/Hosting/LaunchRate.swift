// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The launch rate limit: one rate for each known device, and one for all new devices together, so that a sender gains nothing by joining
/// several times.
package struct LaunchRate: Sendable {
    private enum Sender: Hashable {
        case known(RemoteSystem.ID)
        case new
    }

    private var limiter = KeyedLimiter<Sender>()
    private var start: ContinuousClock.Instant?

    package init() {}

    /// Counts one launch of the sender.
    /// - Parameter perMinute: The number of launches per minute, which is also the burst.
    /// - Returns: Whether the launch is within the rate.
    package mutating func admit(_ device: RemoteSystem.ID, isNew: Bool, perMinute: Int, at now: ContinuousClock.Instant) -> Bool {
        guard perMinute > 0 else { return false }
        let start = start ?? now
        self.start = start
        let uptime = Milliseconds(clamping: start.duration(to: now).milliseconds)
        limiter.sweep(now: uptime)
        let rate = EventRate(perMinute, per: 60_000)
        return limiter.take(isNew ? .new : .known(device), rate, now: uptime) == nil
    }

    /// The number of senders that have launched lately.
    var count: Int { limiter.count }
}
