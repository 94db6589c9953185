// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The value of the field `Date`, made anew at most once a second, and only when an answer needs it.
final class DateClock: Sendable {
    private let last = Mutex<(second: Int64, text: String)>((-1, ""))

    var text: String {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        let second = Int64(now.tv_sec)
        return last.withLock { last in
            if last.second != second { last = (second, HTTPDate.text(second: second)) }
            return last.text
        }
    }
}
