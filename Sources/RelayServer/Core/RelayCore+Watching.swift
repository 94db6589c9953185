// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Discovery: what watchers of an account are told. Those of other accounts never hear of it, since an event goes to the
/// channels of one account only.
extension RelayCore {
    func watch(_ request: EndpointMessage.Watch, on channel: Channel) {
        let account = channel.account
        serve(request.ref, on: channel) { store in
            (try store.directory(of: account), try store.revocations(of: account))
        } then: { [self] (state, found: ([DirectoryEntry], [RevocationRow])) in
            let (directory, revocations) = found
            guard state.channels[channel.id] != nil else { return }
            state.watching.insert(channel.id)
            for entry in directory {
                let added = RelayMessage.EndpointAdded(
                    endpoint: entry.endpoint.id,
                    introduction: entry.introduction,
                    registrations: entry.registrations,
                    presence: presence(of: entry.endpoint, &state),
                    joining: entry.endpoint.joining
                )
                state.send(.endpointAdded(added), to: channel.id)
            }
            // Who was away when it was revoked, or came later, learns it here.
            for revocation in revocations { state.send(.endpointRemoved(.init(revocation)), to: channel.id) }
            state.send(.enumerationCompleted(.init()), to: channel.id)
        }
    }

    func unwatch(_ request: EndpointMessage.Unwatch, on channel: Channel) {
        // By a transaction, although there is nothing to store: a `watch` before it may not be served yet.
        serve(request.ref, on: channel, { _ in }) { state, _ in
            state.watching.remove(channel.id)
        }
    }

    /// What is known of an endpoint that the store has.
    private func presence(of row: EndpointRow, _ state: inout State) -> Presence {
        if let presence = state.accounts[row.account]?.presences[row.id] { return presence }
        guard row.hasHosted else { return Presence(.unavailable, .neverSeen) }
        if let departure = row.departure, departure.time >= state.startTime { return Self.presence(after: departure) }
        guard now().count >= state.startTime + Self.startingPeriod else {
            state.accounts[row.account]?.awaitsPresence = true
            return Presence(.unknown, .relayStarting, since: Milliseconds(clamping: state.startTime))
        }
        return Self.presence(after: row.departure)
    }

    private static func presence(after departure: EndpointRow.Departure?) -> Presence {
        guard let departure else { return Presence(.unavailable, .lost) }
        return Presence(.unavailable, departure.reason, since: Milliseconds(clamping: departure.time))
    }

    /// The time after the start is over: who has not been heard of is as it was left.
    func endStarting() {
        change { state in
            guard state.admission != nil, now().count >= state.startTime + Self.startingPeriod else { return }
            for account in state.accounts.filter({ $0.value.awaitsPresence }).keys {
                state.accounts[account]?.awaitsPresence = false
                transact(for: account) { store in
                    try store.endpoints(of: account)
                } then: { state, result in
                    guard case .success(let rows) = result else {
                        state.accounts[account]?.awaitsPresence = true
                        return
                    }
                    for row in rows where row.hasHosted && state.accounts[account]?.presences[row.id] == nil {
                        let presence = Self.presence(after: row.departure)
                        state.tell(.endpointUpdated(.init(endpoint: row.id, presence: presence)), watchersOf: account)
                    }
                }
            }
        }
    }
}

extension RelayCore.State {
    mutating func tell(_ event: RelayMessage, watchersOf account: AccountID) {
        for channel in channels(in: account) where watching.contains(channel.id) { send(event, to: channel.id) }
    }
}
