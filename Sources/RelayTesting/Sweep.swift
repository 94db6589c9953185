// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// The size and the seed of a sweep: a test of many generated cases. The suite runs a few of them. `scripts/sweep NAME --full` runs all, and
/// sets these variables.
package enum Sweep {
    private static let environment = ProcessInfo.processInfo.environment

    package static let isFull = environment["DEVICE_RELAY_FULL_SWEEPS"] != nil

    /// A test prints it when it fails.
    package static let seed = environment["DEVICE_RELAY_SEED"].flatMap { UInt64($0) } ?? .random(in: 0..<1_000_000)

    /// How many cases to run.
    package static func count<Count: BinaryInteger>(_ few: Count, full: Count) -> Count { isFull ? full : few }
}
