// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// Times for people: in the zone of the person, which `TZ` or the system sets. JSON has UTC.
package enum LocalTime {
    /// Such as `2026-11-24 17:40:03 +01:00`.
    package static func text(_ date: Date) -> String {
        guard let parts = parts(of: date) else { return "-" }
        let offset = Int(parts.tm_gmtoff) / 60
        let zone = "\(offset < 0 ? "-" : "+")\(two(abs(offset) / 60)):\(two(abs(offset) % 60))"
        return "\(day(parts)) \(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec)) \(zone)"
    }

    /// Such as `17:40`, or on another day than now `2026-11-24 17:40`.
    package static func short(_ date: Date, now: Date) -> String {
        guard let parts = parts(of: date) else { return "-" }
        let time = "\(two(parts.tm_hour)):\(two(parts.tm_min))"
        let isToday = Self.parts(of: now).map(day) == day(parts)
        return isToday ? time : "\(day(parts)) \(time)"
    }

    private static func parts(of date: Date) -> tm? {
        let seconds = date.timeIntervalSince1970
        // Years that the calendar functions can express.
        guard seconds.isFinite, abs(seconds) < 253_402_300_800 else { return nil }
        var time = time_t(seconds.rounded(.down))
        var parts = tm()
        tzset()
        return localtime_r(&time, &parts) == nil ? nil : parts
    }

    private static func day(_ parts: tm) -> String { "\(Int(parts.tm_year) + 1_900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))" }
    private static func two(_ number: some BinaryInteger) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
