// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The clocks that the dispatcher and the channels use.
package struct WakeClock: Sendable {
    /// The monotonic uptime. Pauses and retries use it.
    package var uptime: @Sendable () -> Milliseconds
    /// The time since 1970. Expiries and tokens use it.
    package var time: @Sendable () -> Milliseconds
    /// Sleeps until an uptime, or until the task is cancelled.
    package var sleep: @Sendable (_ until: Milliseconds) async -> Void

    package init(
        uptime: @escaping @Sendable () -> Milliseconds,
        time: @escaping @Sendable () -> Milliseconds,
        sleep: @escaping @Sendable (_ until: Milliseconds) async -> Void
    ) {
        self.uptime = uptime
        self.time = time
        self.sleep = sleep
    }

    /// The clocks of the system.
    package static let system: WakeClock = {
        let start = ContinuousClock.now
        return WakeClock(
            uptime: { Milliseconds(clamping: Int64((ContinuousClock.now - start) / .milliseconds(1))) },
            time: {
                var time = timespec()
                clock_gettime(CLOCK_REALTIME, &time)
                return Milliseconds(clamping: Int64(time.tv_sec) &* 1_000 &+ Int64(time.tv_nsec) / 1_000_000)
            },
            sleep: { end in try? await Task.sleep(until: start.advanced(by: .milliseconds(end.count)), clock: .continuous) }
        )
    }()
}
