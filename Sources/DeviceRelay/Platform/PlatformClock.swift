// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// The clocks of a platform, in milliseconds.
package struct PlatformClock: Sendable {
    /// The time since 1970, by the device's clock.
    package var wall: @Sendable () -> Int64
    /// A monotonic time that includes sleep.
    package var steady: @Sendable () -> Int64

    package init(wall: @escaping @Sendable () -> Int64, steady: @escaping @Sendable () -> Int64) {
        self.wall = wall
        self.steady = steady
    }

    /// The clocks of the system.
    package static var system: PlatformClock {
        let start = ContinuousClock.now
        return PlatformClock(
            wall: { Int64(Date.now.timeIntervalSince1970 * 1_000) },
            steady: { Int64((ContinuousClock.now - start) / .milliseconds(1)) }
        )
    }
}
