// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Decides about which new endpoints the agent notifies the person: about each one once, and about few in an hour. Beyond that, one notice
/// says how many more there are.
struct NewDeviceQueue {
    enum Notice: Equatable {
        /// One endpoint, for a decision.
        case endpoint(NewEndpoint)
        /// Further endpoints, which only `relay devices` shows.
        case more(Int)
    }

    /// How long an endpoint waits: another device may vouch for it at once.
    static let settling = Duration.seconds(3)
    /// The maximum number of notices about one endpoint in an hour.
    static let maximumPerHour = 8
    private static let hour = Duration.seconds(3_600)

    /// The endpoints that the person was notified of and that are still new.
    private(set) var notified: Set<EndpointID>
    private var waiting: [(endpoint: NewEndpoint, since: ContinuousClock.Instant)] = []
    /// When the notices of the last hour were given.
    private var times: [ContinuousClock.Instant] = []
    private var lastSummary: ContinuousClock.Instant?

    /// - Parameter notified: The endpoints of which earlier processes notified the person.
    init(notified: Set<EndpointID> = []) { self.notified = notified }

    /// Takes the current new endpoints.
    mutating func set(_ endpoints: [NewEndpoint], at now: ContinuousClock.Instant) {
        notified.formIntersection(endpoints.map(\.id))
        let since = Dictionary(waiting.map { ($0.endpoint.id, $0.since) }) { first, _ in first }
        waiting = endpoints.filter { !notified.contains($0.id) }.map { ($0, since[$0.id] ?? now) }
    }

    /// The next notice that is due.
    mutating func next(at now: ContinuousClock.Instant) -> Notice? {
        times.removeAll { $0.duration(to: now) >= Self.hour }
        if let last = lastSummary, last.duration(to: now) >= Self.hour { lastSummary = nil }
        let due = waiting.filter { $0.since.duration(to: now) >= Self.settling }
        guard let first = due.first else { return nil }
        if times.count < Self.maximumPerHour {
            times.append(now)
            take([first.endpoint])
            return .endpoint(first.endpoint)
        }
        guard lastSummary == nil else { return nil }
        lastSummary = now
        take(due.map(\.endpoint))
        return .more(due.count)
    }

    /// When `next` may return another notice; `nil` if nothing waits.
    var nextTime: ContinuousClock.Instant? {
        guard let settled = waiting.map({ $0.since + Self.settling }).min() else { return nil }
        guard times.count >= Self.maximumPerHour, let lastSummary, let first = times.first else { return settled }
        return max(settled, min(first, lastSummary) + Self.hour)
    }

    private mutating func take(_ endpoints: [NewEndpoint]) {
        let ids = Set(endpoints.map(\.id))
        notified.formUnion(ids)
        waiting.removeAll { ids.contains($0.endpoint.id) }
    }
}
