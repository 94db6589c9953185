// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The clocks of the relay.
package struct RelayClock: Sendable {
    package var now: @Sendable () -> RelayChannelStateMachine.Moment

    package init(now: @escaping @Sendable () -> RelayChannelStateMachine.Moment) { self.now = now }

    /// The clocks of the system. They are read for every message, so without `Duration`, whose 128-bit division is slow.
    package static let system: RelayClock = {
        let start = milliseconds(steady)
        return RelayClock {
            RelayChannelStateMachine.Moment(
                // Starts at one, because zero means "never".
                uptime: Milliseconds(clamping: 1 &+ milliseconds(steady) &- start),
                time: Milliseconds(clamping: milliseconds(CLOCK_REALTIME))
            )
        }
    }()

    /// Continues while the machine sleeps.
    private static var steady: clockid_t {
        #if os(Linux)
        CLOCK_BOOTTIME
        #else
        CLOCK_MONOTONIC
        #endif
    }

    private static func milliseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) &* 1_000 &+ Int64(time.tv_nsec) / 1_000_000
    }
}
