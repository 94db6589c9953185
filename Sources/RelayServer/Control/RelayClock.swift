// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The clocks the relay goes by.
package struct RelayClock: Sendable {
    package var now: @Sendable () -> ControlChannelStateMachine.Moment

    package init(now: @escaping @Sendable () -> ControlChannelStateMachine.Moment) { self.now = now }

    /// The machine's own.
    package static let system: RelayClock = {
        let start = ContinuousClock.now
        return RelayClock {
            let (seconds, attoseconds) = (ContinuousClock.now - start).components
            return ControlChannelStateMachine.Moment(
                // Not from zero: a time of "never" is zero.
                uptime: Milliseconds(clamping: 1 &+ seconds &* 1_000 &+ attoseconds / 1_000_000_000_000_000),
                time: Milliseconds(clamping: Int64(Date().timeIntervalSince1970 * 1_000))
            )
        }
    }()
}
