// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Numbers that count something on the wire: what every JSON reader, and every database with signed integers, holds exactly.
enum WireNumber {
    static let range: ClosedRange<UInt64> = 1...(1 << 53 - 1)
}
