// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The clocks that a platform goes by, in milliseconds.
package struct PlatformClock: Sendable {
    /// Since 1970, as the device's own clock says.
    package var wall: @Sendable () -> Int64
    /// Goes on while the device sleeps, and never back.
    package var steady: @Sendable () -> Int64

    package init(wall: @escaping @Sendable () -> Int64, steady: @escaping @Sendable () -> Int64) {
        self.wall = wall
        self.steady = steady
    }

    /// The system's.
    package static var system: PlatformClock {
        let start = ContinuousClock.now
        return PlatformClock(
            wall: { Int64(Date.now.timeIntervalSince1970 * 1_000) },
            steady: { Int64((ContinuousClock.now - start) / .milliseconds(1)) }
        )
    }
}
