// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Limits what other endpoints make this one do on its network for their diagnosis: one thing of a kind at a time, and not often. It does no
/// I/O and reads no clock.
package struct DiagnosisGate {
    package enum Work: Hashable, Sendable, CaseIterable {
        /// Listening for a packet of the other endpoint.
        case hear
        /// Sending one.
        case say
        /// Dialling the other endpoint's addresses.
        case dial

        fileprivate var rate: EventRate {
            switch self {
            case .hear, .say: EventRate(6, per: 60_000)
            case .dial: EventRate(1, per: 10_000)
            }
        }
    }

    private var running: Set<Work> = []
    private var limiter = KeyedLimiter<Work>()

    package init() {}

    /// Whether the work may begin. If so, `end` follows.
    /// - Parameter now: An uptime.
    package mutating func begin(_ work: Work, at now: Milliseconds) -> Bool {
        guard !running.contains(work), limiter.take(work, work.rate, now: now) == nil else { return false }
        running.insert(work)
        return true
    }

    package mutating func end(_ work: Work) { running.remove(work) }
}
