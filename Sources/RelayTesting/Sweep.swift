// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// The size and the seed of a sweep: a test of many generated cases. The suite runs a few of them, `scripts/test --quick` fewer, and
/// `scripts/sweep NAME --full` all. The scripts set these variables.
package enum Sweep {
    private static let environment = ProcessInfo.processInfo.environment

    package static let isFull = environment["DEVICE_RELAY_FULL_SWEEPS"] != nil
    package static let isQuick = environment["DEVICE_RELAY_QUICK_SWEEPS"] != nil

    /// A test prints it when it fails.
    package static let seed = environment["DEVICE_RELAY_SEED"].flatMap { UInt64($0) } ?? .random(in: 0..<1_000_000)

    /// How many cases to run.
    package static func count<Count: BinaryInteger>(_ few: Count, full: Count) -> Count {
        isFull ? full : isQuick ? max(1, few / 5) : few
    }

    /// The seeds to run: also those that once found a fault, unless the sweep is full.
    package static func seeds(_ few: UInt64, full: UInt64, found: [UInt64]) -> [UInt64] {
        isFull ? Array(seed..<seed + full) : found + (0..<count(few, full: full))
    }
}
