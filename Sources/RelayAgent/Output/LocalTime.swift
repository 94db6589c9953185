// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// Times for people: in the zone of the person, which `TZ` or the system sets. JSON has UTC.
package enum LocalTime {
    /// Such as `2026-11-24 17:40:03 +01:00`.
    package static func text(_ date: Date) -> String {
        let seconds = date.timeIntervalSince1970
        // Years that the calendar functions can express.
        guard seconds.isFinite, abs(seconds) < 253_402_300_800 else { return "-" }
        var time = time_t(seconds.rounded(.down))
        var parts = tm()
        tzset()
        guard localtime_r(&time, &parts) != nil else { return "-" }
        func two(_ number: some BinaryInteger) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let offset = Int(parts.tm_gmtoff) / 60
        let zone = "\(offset < 0 ? "-" : "+")\(two(abs(offset) / 60)):\(two(abs(offset) % 60))"
        let day = "\(Int(parts.tm_year) + 1_900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))"
        return "\(day) \(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec)) \(zone)"
    }
}
