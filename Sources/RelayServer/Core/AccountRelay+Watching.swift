// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Discovery: the events that watchers of the account receive.
extension AccountRelay {
    mutating func watch(_ request: EndpointMessage.Watch, on channel: AccountChannel) {
        let account = id
        serve(request.ref, on: channel) { store, _ in
            (try store.directory(of: account), try store.revocations(of: account), try store.pushes(of: account))
        } then: { relay, found in
            let (directory, revocations) = (found.0, found.1)
            let pushes = relay.wakeabilities(found.2)
            guard relay.change(channel.id, { $0.isWatching = true }) != nil else { return }
            for entry in directory {
                let added = RelayMessage.EndpointAdded(
                    endpoint: entry.endpoint.id,
                    introduction: entry.introduction,
                    registrations: entry.registrations,
                    presence: relay.presence(of: entry.endpoint, pushes[entry.endpoint.id] ?? Wakeability()),
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

    private func wakeabilities(_ pushes: [PushRow]) -> [EndpointID: Wakeability] {
        Dictionary(uniqueKeysWithValues: pushes.map { ($0.endpoint, $0.wakeability(at: now.count, rules)) })
    }

    /// The presence of a stored endpoint.
    private mutating func presence(of row: EndpointRow, _ wakeability: Wakeability) -> Presence {
        if let presence = presences[row.id] { return presence }
        guard row.hasHosted else { return Presence(.unavailable, .neverSeen) }
        if let departure = row.departure, departure.time >= rules.startTime { return Self.presence(after: departure, wakeability) }
        guard now.count >= rules.startTime + Self.startingPeriod else {
            awaitsPresence = true
            return Presence(.unknown, .relayStarting, since: Milliseconds(clamping: rules.startTime))
        }
        return Self.presence(after: row.departure, wakeability)
    }

    static func presence(after departure: EndpointRow.Departure?, _ wakeability: Wakeability) -> Presence {
        guard let departure else { return Presence(.unavailable, .lost, wakeability) }
        return Presence(.unavailable, departure.reason, since: Milliseconds(clamping: departure.time), wakeability)
    }

    /// Ends the starting period: endpoints that have not connected since then get their stored presence.
    mutating func endStarting() {
        guard awaitsPresence, now.count >= rules.startTime + Self.startingPeriod else { return }
        awaitsPresence = false
        let account = id
        transact { store, _ in
            (try store.endpoints(of: account), try store.pushes(of: account))
        } then: { (relay, result: Result<([EndpointRow], [PushRow]), any Error>) in
            guard case .success((let rows, let pushes)) = result else { return relay.awaitsPresence = !relay.channels.isEmpty }
            let wakeabilities = relay.wakeabilities(pushes)
            for row in rows where row.hasHosted && relay.presences[row.id] == nil {
                let presence = Self.presence(after: row.departure, wakeabilities[row.id] ?? Wakeability())
                relay.tellWatchers(.endpointUpdated(.init(endpoint: row.id, presence: presence)))
            }
        }
    }
}
