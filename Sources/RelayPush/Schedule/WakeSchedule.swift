// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// When an endpoint is woken, while commands wait for it and it is not connected. Without I/O and clock.
///
/// Wakes are derived from what waits; nothing of them has to be stored but the number of wakes and the time of the last one. A crash
/// costs time and loses nothing.
package struct WakeSchedule: Hashable, Sendable {
    /// How long after the first wake each one is sent, in milliseconds: 0 s, 1 min, 5 min, 30 min, 2 h, 12 h. Later ones every 12 h.
    static let delays: [Int64] = [0, 60_000, 300_000, 1_800_000, 7_200_000, 43_200_000]
    /// An endpoint is silently woken at most once in this time.
    static let backgroundInterval: Int64 = 1_200_000
    /// A wake for a person who waits does not follow another one sooner than this.
    static let urgentInterval: Int64 = 60_000

    /// How many wakes were sent since the endpoint was last connected.
    package private(set) var count = 0
    /// When the first and the last of them were sent.
    package private(set) var first: Milliseconds?
    package private(set) var last: Milliseconds?
    /// Whether the last one was urgent.
    private var lastUrgency: WakePayload.Urgency?

    package init() {}

    /// - Parameter urgency: Of the most urgent command that waits.
    /// - Returns: When the next wake is due: now or earlier means at once.
    package func due(_ urgency: WakePayload.Urgency, now: Milliseconds) -> Milliseconds {
        guard let first, let last else { return now }
        // A first person who waits does not stand behind the silent wakes before.
        guard urgency == .background || lastUrgency == .urgent else { return now }
        let index = min(count, Self.delays.count - 1)
        let scheduled =
            count < Self.delays.count ? first.count + Self.delays[index] : last.count + (Self.delays.last ?? Self.backgroundInterval)
        let interval = urgency == .urgent ? Self.urgentInterval : Self.backgroundInterval
        return Milliseconds(clamping: max(scheduled, last.count + interval))
    }

    /// A wake was sent.
    package mutating func sent(_ urgency: WakePayload.Urgency, at now: Milliseconds) {
        if urgency == .urgent, lastUrgency == .background {
            // The schedule of a person who waits begins with the first wake for that person.
            count = 0
            first = nil
        }
        count += 1
        first = first ?? now
        last = now
        lastUrgency = urgency
    }

    /// The endpoint connected.
    package mutating func connected() { self = WakeSchedule() }
}
