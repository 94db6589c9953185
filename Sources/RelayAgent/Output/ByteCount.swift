// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Formats a number of bytes for people.
enum ByteCount {
    static func text(_ count: Int64) -> String {
        let units = ["kB", "MB", "GB", "TB", "PB"]
        guard count >= 1_000 else { return "\(max(0, count)) B" }
        var value = Double(count) / 1_000
        var unit = 0
        while value >= 999.95, unit < units.count - 1 {
            value /= 1_000
            unit += 1
        }
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(tenths % 10) \(units[unit])"
    }
}
