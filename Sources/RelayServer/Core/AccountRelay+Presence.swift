// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What the watchers are told about presences. Whatever changes something that a presence depends on calls `refreshPresences`, which tells the
/// watchers the result if it differs from what they know.
extension AccountRelay {
    /// The presence that all watchers know after this call.
    /// - Returns: the presence, and whether they have to be told.
    mutating func takePresence(of row: EndpointRow, _ push: PushRow?) -> (presence: Presence, isNew: Bool) {
        let connected = channels.hostSince(of: row.id)
        let (presence, isNew, until) = presences.take(of: row, push, connected: connected, servedSince: servedSince, rules, at: now)
        if let until { noteDeadline(until) }
        return (presence, isNew)
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
        let endpoints = presences.beginReading(endpoints.filter { !channels.watchers.isEmpty || channels.host(of: $0) != nil })
        if !endpoints.isEmpty { transact(.readPresences(endpoints)) }
    }

    mutating func readPresences(of endpoints: Set<EndpointID>, _ result: Result<[(EndpointRow, PushRow?)], any Error>) {
        presences.endReading(endpoints)
        switch result {
        case .success(let rows):
            for (row, push) in rows {
                if let push { tellRegistration(push) }
                if !channels.watchers.isEmpty { tellPresence(of: row, push) }
            }
        case .failure where channels.isEmpty: break
        case .failure:
            presences.readAgain(endpoints, at: now + 1_000)
            noteDeadline(now + 1_000)
        }
    }

    /// Tells a host the state of its push registration if it knows another one.
    mutating func tellRegistration(_ push: PushRow) {
        guard let host = channels.host(of: push.endpoint) else { return }
        let state = push.state(at: now.count, rules)
        let isNew = hosts.tell(state, isWakeable: push.isWakeable(at: now.count, rules), to: host.id)
        if isNew { send(.notificationsState(.init(appID: push.appID, state: state)), to: host.id) }
    }
}

extension AccountTransaction {
    /// The rows on which the presences of endpoints depend.
    func presences(of endpoints: Set<EndpointID>, in account: AccountID) throws -> [(EndpointRow, PushRow?)] {
        try endpoints.sorted().compactMap { id in try endpoint(id, of: account).map { ($0, try push(of: id)) } }
    }
}
