// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Default time limits.
enum DefaultTimeouts {
    /// The wait for a launch's outcome, and for the directory.
    static let standard = Duration.seconds(30)
    /// How long the relay stores a launch for a sleeping target.
    static let launchLife = Duration.seconds(5 * 60)
    /// How long the relay stores a message for a sleeping target.
    static let messageLife = Duration.seconds(24 * 3_600)
}

extension Duration {
    /// Whole milliseconds, clamped to the range of `Int64`.
    var milliseconds: Int64 {
        let (seconds, overflow) = components.seconds.multipliedReportingOverflow(by: 1_000)
        guard !overflow else { return components.seconds < 0 ? .min : .max }
        let (sum, tooMuch) = seconds.addingReportingOverflow(components.attoseconds / 1_000_000_000_000_000)
        return tooMuch ? (seconds < 0 ? .min : .max) : sum
    }
}
