// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The date format of HTTP (RFC 9110 §5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`. The obsolete formats are not supported.
package enum HTTPDate {
    private static let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Milliseconds since 1970; `nil` for any other text.
    package static func parse(_ text: String) -> Int64? {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard text.utf8.count == 29, parts.count == 6, parts[0].hasSuffix(","), parts[5] == "GMT",
            let day = number(parts[1], digits: 2, in: 1...31), let month = months.firstIndex(of: String(parts[2])),
            let year = number(parts[3], digits: 4, in: 1970...9999)
        else { return nil }
        let time = parts[4].split(separator: ":", omittingEmptySubsequences: false)
        guard time.count == 3, let hour = number(time[0], digits: 2, in: 0...23), let minute = number(time[1], digits: 2, in: 0...59),
            let second = number(time[2], digits: 2, in: 0...60)
        else { return nil }
        return ((days(year, Int64(month) + 1, day) * 24 + hour) * 60 + minute) * 60_000 + second * 1_000
    }

    /// - Parameter second: Since 1970; a time in the years 1970 to 9999.
    package static func text(second: Int64) -> String {
        let second = min(max(second, 0), 253_402_300_799)
        let (days, rest) = second.quotientAndRemainder(dividingBy: 86_400)
        // Years of 400 and of one, from March on: see `days`.
        let (era, dayOfEra) = (days + 719_468).quotientAndRemainder(dividingBy: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let month = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * month + 2) / 5 + 1
        let year = yearOfEra + era * 400 + (month >= 10 ? 1 : 0)
        let date = "\(weekdays[Int(days % 7)]), \(padded(day)) \(months[Int((month + 2) % 12)]) \(padded(year, to: 4))"
        return "\(date) \(padded(rest / 3_600)):\(padded(rest / 60 % 60)):\(padded(rest % 60)) GMT"
    }

    private static func padded(_ number: Int64, to count: Int = 2) -> String {
        let text = "\(number)"
        return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
    }

    /// The pause that a value of `Retry-After` asks for: seconds, at most a day, or a date (RFC 9110 §10.2.3).
    /// - Parameter now: In milliseconds since 1970.
    /// - Returns: Milliseconds; `nil` for any other text.
    package static func retryAfter(_ text: String, now: Int64) -> Int64? {
        if let seconds = Int64(text) { return (0...86_400).contains(seconds) ? seconds * 1_000 : nil }
        return parse(text).map { max(0, $0 - now) }
    }

    private static func number(_ text: Substring, digits: Int, in range: ClosedRange<Int64>) -> Int64? {
        guard text.utf8.count == digits, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let number = Int64(text), range.contains(number)
        else { return nil }
        return number
    }

    /// Days since 1970. The computation uses years that start in March, so that the leap day is the last day.
    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        let year = month > 2 ? year : year - 1
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        return year * 365 + year / 4 - year / 100 + year / 400 + dayOfYear - 719_468
    }
}
