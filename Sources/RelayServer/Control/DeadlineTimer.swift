// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// A timer for a deadline that often moves. If it moves later, the timer fires early once, and the owner sets it again. That costs less
/// than a new timer for every message.
struct DeadlineTimer {
    private var scheduled: Scheduled<Void>?
    private var due: Milliseconds = 0

    /// Whether the timer fires at this deadline or earlier.
    func fires(by deadline: Milliseconds) -> Bool { scheduled != nil && due <= deadline }

    /// - Parameter fire: Calls `fired` first.
    mutating func set(_ deadline: Milliseconds, now: Milliseconds, on eventLoop: any EventLoop, fire: @escaping () -> Void) {
        scheduled?.cancel()
        scheduled = eventLoop.assumeIsolated().scheduleTask(in: .milliseconds((deadline - now).count)) { fire() }
        due = deadline
    }

    mutating func fired() { scheduled = nil }

    mutating func cancel() {
        scheduled?.cancel()
        scheduled = nil
    }
}
