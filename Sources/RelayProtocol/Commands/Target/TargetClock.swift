// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The clocks of a target. Both limit when a command may be handled.
package struct TargetClock: Hashable, Sendable {
    /// The target's own clock.
    package let own: Int64
    /// The relay's clock: the own clock plus the offset from the relay's last `challenge`.
    package let relay: Int64

    package init(own: Int64, relay: Int64) {
        self.own = own
        self.relay = relay
    }

    /// Whether a command has expired, by relay time. A relay that states a wrong time gains at most a day.
    func isPast(_ expires: Int64) -> Bool {
        relay >= expires || own >= expires.saturatingAdding(CommandPeriod.grace)
    }
}
