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
            let pushes = Dictionary(found.2.map { ($0.endpoint, $0) }) { first, _ in first }
            guard relay.channels[channel.id] != nil else { return }
            // The others learn first what they do not know yet.
            let presences = directory.map { relay.tellPresence(of: $0.endpoint, pushes[$0.endpoint.id]) }
            relay.change(channel.id) { $0.isWatching = true }
            for (entry, presence) in zip(directory, presences) {
                let added = RelayMessage.EndpointAdded(
                    endpoint: entry.endpoint.id,
                    introduction: entry.introduction,
                    registrations: entry.registrations,
                    presence: presence,
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
}
