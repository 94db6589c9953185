// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Discovery: the events that watchers of the account receive.
extension AccountRelay {
    mutating func watch(on channel: AccountChannel, _ found: WatchedAccount) {
        guard channels.contains(channel.id) else { return }
        let pushes = Dictionary(found.pushes.map { ($0.endpoint, $0) }) { first, _ in first }
        // The others learn first what they do not know yet.
        let presences = found.directory.map { tellPresence(of: $0.endpoint, pushes[$0.endpoint.id]) }
        channels.watch(channel.id)
        for (entry, presence) in zip(found.directory, presences) {
            let added = RelayMessage.EndpointAdded(
                endpoint: entry.endpoint.id,
                introduction: entry.introduction,
                registrations: entry.registrations,
                presence: presence,
                joining: entry.endpoint.joining
            )
            send(.endpointAdded(added), to: channel.id)
        }
        // Informs endpoints that were not connected at the time of the revocation.
        for revocation in found.revocations { send(.endpointRemoved(.init(revocation)), to: channel.id) }
        send(.enumerationCompleted(.init()), to: channel.id)
    }
}

/// What a new watcher is told.
struct WatchedAccount: Sendable {
    let directory: [DirectoryEntry]
    let revocations: [RevocationRow]
    let pushes: [PushRow]

    init(_ account: AccountID, _ store: any AccountTransaction) throws {
        directory = try store.directory(of: account)
        revocations = try store.revocations(of: account)
        pushes = try store.pushes(of: account)
    }
}
