// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// How long things may take that a person waits for.
enum Patience {
    /// What a launch waits for its outcome, and anything for the directory.
    static let standard = Duration.seconds(30)
    /// How long a launch may be stored for a target that sleeps.
    static let launchLife = Duration.seconds(5 * 60)
    /// How long a message may be.
    static let messageLife = Duration.seconds(24 * 3_600)
}

extension Duration {
    /// In whole milliseconds, as near as they go.
    var milliseconds: Int64 {
        let (seconds, overflow) = components.seconds.multipliedReportingOverflow(by: 1_000)
        guard !overflow else { return components.seconds < 0 ? .min : .max }
        let (sum, tooMuch) = seconds.addingReportingOverflow(components.attoseconds / 1_000_000_000_000_000)
        return tooMuch ? (seconds < 0 ? .min : .max) : sum
    }
}
