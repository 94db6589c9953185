// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The range of versions and counters on the wire: JSON readers, and databases with signed integers, represent all of these exactly.
enum WireNumber {
    static let range: ClosedRange<UInt64> = 1...(1 << 53 - 1)
}
