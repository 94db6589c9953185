// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// The age of a date, in the largest unit that fits.
enum Age {
    static func text(since date: Date, now: Date) -> String {
        text(seconds: Int(max(0, min(now.timeIntervalSince(date), 1e9))))
    }

    static func text(seconds: Int) -> String {
        switch seconds {
        case ..<60: return "\(seconds) s"
        case ..<3_600: return "\(seconds / 60) min"
        case ..<86_400: return "\(seconds / 3_600) h"
        default: return "\(seconds / 86_400) d"
        }
    }
}
