// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The times of the wakes of an endpoint that is not connected while commands wait for it. Pure: time is an argument.
///
/// Wakes are derived from the commands that wait. Only the times of the first and the last wake are stored, so a crash costs time and
/// loses nothing. Times are milliseconds since 1970.
package struct WakeSchedule: Hashable, Sendable {
    /// The times of the wakes, counted from the first one: 0 s, 1 min, 5 min, 30 min, 2 h, 12 h. Later wakes come every 12 h.
    static let delays: [Int64] = [0, 60_000, 300_000, 1_800_000, 7_200_000, longestDelay]
    static let longestDelay: Int64 = 43_200_000

    /// One wake, and its class.
    package struct Wake: Hashable, Sendable {
        package var time: Int64
        package var urgency: WakePayload.Urgency

        package init(time: Int64, urgency: WakePayload.Urgency) {
            self.time = time
            self.urgency = urgency
        }
    }

    /// The time from which the delays count; `nil` if no wake was sent since the endpoint was last connected.
    package private(set) var first: Int64?
    package private(set) var last: Wake?

    package init() {}

    /// A schedule that was stored.
    init(first: Int64?, last: Wake?) {
        self.first = first
        self.last = last
    }

    /// The time of the next wake; `nil`: at once.
    /// - Parameter urgency: of the most urgent command that waits.
    package func next(_ urgency: WakePayload.Urgency) -> Int64? {
        // A command that someone waits for is not delayed by background wakes.
        guard let first, let last, urgency == .background || last.urgency == .urgent else { return nil }
        let scheduled = Self.delays.lazy.map { first + $0 }.first { $0 > last.time } ?? last.time + Self.longestDelay
        return max(scheduled, last.time + urgency.interval)
    }

    /// A new command waits. Its wakes begin anew; one that is outstanding counts for it.
    package mutating func add(_ urgency: WakePayload.Urgency, at now: Int64) {
        guard let last, now > last.time else { return }
        first = now
    }

    /// A wake is sent.
    package mutating func sent(_ urgency: WakePayload.Urgency, at now: Int64) {
        if first == nil || (urgency == .urgent && last?.urgency == .background) { first = now }
        last = Wake(time: now, urgency: urgency)
    }

    /// The endpoint has connected.
    package mutating func connected() { self = WakeSchedule() }
}

extension WakePayload.Urgency {
    /// The shortest time between two wakes of this class.
    var interval: Int64 {
        switch self {
        case .urgent: 60_000
        case .background: 1_200_000
        }
    }
}
