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

    /// The outcome of a command that may no longer run. A relay that states a wrong time gains at most a day.
    func end(of expires: Int64) -> CommandOutcome? {
        if relay >= expires { return .expired }
        guard own >= expires.saturatingAdding(CommandPeriod.grace) else { return nil }
        let hours = lead / 3_600_000
        let time = hours < 48 ? "\(hours) hours" : "\(hours / 24) days"
        return .failed(reason: "the device's clock is \(time) ahead of the relay's, so that the command has expired there; set its clock")
    }

    /// By how much the own clock is ahead of the relay's.
    package var lead: Int64 { own.saturatingAdding(relay == .min ? .max : -relay) }

    /// Whether commands expire here because of the difference between the clocks.
    package var isFarAhead: Bool { lead >= CommandPeriod.grace }
}
