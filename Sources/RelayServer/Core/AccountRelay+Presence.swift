// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What the presences of an account's endpoints depend on besides the rows, and what the watchers were told.
struct Presences: Sendable {
    /// The endpoints whose connection was lost. Their rows say so too, unless the store has failed.
    var losses: [EndpointID: EndpointRow.Departure] = [:]
    /// What every watcher was told last.
    var told: [EndpointID: Presence] = [:]
    /// When a presence changes by itself.
    var changes: [EndpointID: Milliseconds] = [:]
    /// The endpoints whose rows are being read.
    var reading: Set<EndpointID> = []

    var nextChange: Milliseconds? { changes.values.min() }

    mutating func forget(_ endpoint: EndpointID) {
        losses[endpoint] = nil
        told[endpoint] = nil
        changes[endpoint] = nil
    }
}

/// The presences of endpoints. A presence is a function of the endpoint's rows, its host channel, the credentials of the push services and the
/// time. Whatever changes one of these calls `refreshPresences`, which tells the watchers the result if it differs from what they know.
extension AccountRelay {
    /// - Parameter push: its push registration, if it has one.
    /// - Returns: also when the presence changes by itself.
    private func presence(of row: EndpointRow, _ push: PushRow?) -> (presence: Presence, until: Milliseconds?) {
        if let host = host(of: row.id), let open = channels[host.id] {
            let contested = takeovers[row.id]?.contestedUntil(at: now)
            return (Presence(.available, contested == nil ? .connected : .contested, since: open.opened), contested)
        }
        let wakeability = push?.wakeability(at: now.count, rules) ?? Wakeability()
        if let push, let until = push.wakingEnd(at: now.count) {
            let since = push.accepted.map { Milliseconds(clamping: $0) }
            return (Presence(.discoveringAvailability, .waking, since: since, wakeability), Milliseconds(clamping: until))
        }
        guard row.hasHosted else { return (Presence(.unavailable, .neverSeen), nil) }
        let departure = presences.losses[row.id] ?? row.departure
        let started = rules.startTime + Self.startingPeriod
        if now.count < started, departure.map({ $0.time < rules.startTime }) ?? true {
            return (Presence(.unknown, .relayStarting, since: Milliseconds(clamping: rules.startTime)), Milliseconds(clamping: started))
        }
        guard let departure else { return (Presence(.unavailable, .lost, wakeability), nil) }
        return (Presence(.unavailable, departure.reason, since: Milliseconds(clamping: departure.time), wakeability), nil)
    }

    /// The presence that all watchers know after this call.
    /// - Returns: the presence, and whether they have to be told.
    mutating func takePresence(of row: EndpointRow, _ push: PushRow?) -> (presence: Presence, isNew: Bool) {
        let (presence, until) = presence(of: row, push)
        presences.changes[row.id] = until
        if let until { noteDeadline(until) }
        return (presence, presences.told.updateValue(presence, forKey: row.id) != presence)
    }

    /// Tells the watchers the presence of an endpoint if they know another one.
    /// - Returns: the presence.
    @discardableResult
    mutating func tellPresence(of row: EndpointRow, _ push: PushRow?) -> Presence {
        let (presence, isNew) = takePresence(of: row, push)
        if isNew { tellWatchers(.endpointUpdated(.init(endpoint: row.id, presence: presence))) }
        return presence
    }

    /// Reads the rows of endpoints, and tells the watchers their presences, and the endpoints the states of their push registrations, as far as
    /// these have changed.
    mutating func refreshPresences(of endpoints: Set<EndpointID>) {
        // What changes while the rows are being read is refreshed after its own transaction, which is later.
        let endpoints = endpoints.subtracting(presences.reading).filter { isWatched || host(of: $0) != nil }
        guard !endpoints.isEmpty else { return }
        presences.reading.formUnion(endpoints)
        let account = id
        transact { store, _ in
            try endpoints.sorted().compactMap { id in try store.endpoint(id, of: account).map { ($0, try store.push(of: id)) } }
        } then: { (relay, result: Result<[(EndpointRow, PushRow?)], any Error>) in
            relay.presences.reading.subtract(endpoints)
            guard case .success(let rows) = result else { return relay.refreshLater(endpoints) }
            for (row, push) in rows {
                if let push { relay.tellRegistration(push) }
                if relay.isWatched { relay.tellPresence(of: row, push) }
            }
        }
    }

    /// The store has failed.
    private mutating func refreshLater(_ endpoints: Set<EndpointID>) {
        guard !channels.isEmpty else { return }
        for endpoint in endpoints { presences.changes[endpoint] = now + 1_000 }
        noteDeadline(now + 1_000)
    }

    mutating func refreshDuePresences() {
        let due = presences.changes.filter { $0.value <= now }.keys
        for endpoint in due { presences.changes[endpoint] = nil }
        refreshPresences(of: Set(due))
    }

    /// Tells a host the state of its push registration if it knows another one.
    mutating func tellRegistration(_ push: PushRow) {
        guard let host = host(of: push.endpoint) else { return }
        let (state, isWakeable) = (push.state(at: now.count, rules), push.isWakeable(at: now.count, rules))
        let isNew = change(host.id) { open in
            open.isWakeable = isWakeable
            defer { open.toldRegistration = state }
            return open.toldRegistration != state
        }
        if isNew == true { send(.notificationsState(.init(appID: push.appID, state: state)), to: host.id) }
    }

    private var isWatched: Bool { channels.values.contains(where: \.isWatching) }
}
