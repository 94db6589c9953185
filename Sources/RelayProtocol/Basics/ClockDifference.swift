// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// How far the clock of this machine is from another one, for people.
package struct ClockDifference: Sendable {
    /// What to do about it.
    package static let advice = "correct the clock that is wrong, preferably with NTP (`timedatectl set-ntp true`)"

    private let seconds: Int64
    private let isAhead: Bool

    /// - Parameters:
    ///   - own: Of this machine: milliseconds since 1970.
    ///   - other: Of the other clock.
    package init(own: Milliseconds, other: Milliseconds) {
        isAhead = own > other
        let (difference, overflows) = own.count.subtractingReportingOverflow(other.count)
        seconds = overflows ? .max : Int64(clamping: difference.magnitude / 1_000)
    }

    /// `ok` up to ten seconds. With a clock that is off by a day, waiting commands expire and certificates are not valid.
    package var status: CheckStatus { seconds <= 10 ? .ok : seconds < 86_400 ? .warning : .failed }

    /// Such as `2 min ahead of`.
    package var text: String { "\(Self.size(ofSeconds: Int(clamping: seconds))) \(isAhead ? "ahead of" : "behind")" }

    /// A time in the unit that is short to read.
    package static func size(ofSeconds seconds: Int) -> String {
        switch seconds {
        case ..<120: "\(seconds) s"
        case ..<7_200: "\(seconds / 60) min"
        case ..<172_800: "\(seconds / 3_600) h"
        default: "\(seconds / 86_400) d"
        }
    }
}
