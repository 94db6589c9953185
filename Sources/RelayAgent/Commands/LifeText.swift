// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A duration as a person writes it: `90s`, `30m`, `12h`, `7d`, `1y`.
package enum LifeText {
    private static let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3_600, "d": 86_400, "y": 365 * 86_400]

    /// - Returns: `nil` for another form, for zero, and for more than a year.
    package static func duration(_ text: String) -> Duration? {
        guard let last = text.last, let unit = units[last], let count = Int64(text.dropLast()), (1...366 * 86_400).contains(count) else {
            return nil
        }
        let (seconds, overflow) = count.multipliedReportingOverflow(by: unit)
        guard !overflow, seconds <= 366 * 86_400 else { return nil }
        return .seconds(seconds)
    }
}
