// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Discovery: the events that watchers of the account receive.
extension AccountRelay {
    mutating func watch(_ request: EndpointMessage.Watch, on channel: AccountChannel) {
        let account = id
        serve(request.ref, on: channel) { store, _ in
            (try store.directory(of: account), try store.revocations(of: account))
        } then: { relay, found in
            let (directory, revocations) = found
            guard relay.change(channel.id, { $0.isWatching = true }) != nil else { return }
            for entry in directory {
                let added = RelayMessage.EndpointAdded(
                    endpoint: entry.endpoint.id,
                    introduction: entry.introduction,
                    registrations: entry.registrations,
                    presence: relay.presence(of: entry.endpoint),
                    joining: entry.endpoint.joining
                )
                relay.send(.endpointAdded(added), to: channel.id)
            }
            // Informs endpoints that were not connected at the time of the revocation.
            for revocation in revocations { relay.send(.endpointRemoved(.init(revocation)), to: channel.id) }
            relay.send(.enumerationCompleted(.init()), to: channel.id)
        }
    }

    mutating func unwatch(_ request: EndpointMessage.Unwatch, on channel: AccountChannel) {
        // Uses a transaction, although nothing is stored: an earlier `watch` may still be waiting for its own.
        serve(request.ref, on: channel, { _, _ in }) { relay, _ in
            relay.change(channel.id) { $0.isWatching = false }
        }
    }

    /// The presence of a stored endpoint.
    private mutating func presence(of row: EndpointRow) -> Presence {
        if let presence = presences[row.id] { return presence }
        guard row.hasHosted else { return Presence(.unavailable, .neverSeen) }
        if let departure = row.departure, departure.time >= rules.startTime { return Self.presence(after: departure) }
        guard now.count >= rules.startTime + Self.startingPeriod else {
            awaitsPresence = true
            return Presence(.unknown, .relayStarting, since: Milliseconds(clamping: rules.startTime))
        }
        return Self.presence(after: row.departure)
    }

    private static func presence(after departure: EndpointRow.Departure?) -> Presence {
        guard let departure else { return Presence(.unavailable, .lost) }
        return Presence(.unavailable, departure.reason, since: Milliseconds(clamping: departure.time))
    }

    /// Ends the starting period: endpoints that have not connected since then get their stored presence.
    mutating func endStarting() {
        guard awaitsPresence, now.count >= rules.startTime + Self.startingPeriod else { return }
        awaitsPresence = false
        let account = id
        transact { store, _ in
            try store.endpoints(of: account)
        } then: { relay, result in
            guard case .success(let rows) = result else { return relay.awaitsPresence = !relay.channels.isEmpty }
            for row in rows where row.hasHosted && relay.presences[row.id] == nil {
                relay.tellWatchers(.endpointUpdated(.init(endpoint: row.id, presence: Self.presence(after: row.departure))))
            }
        }
    }
}
