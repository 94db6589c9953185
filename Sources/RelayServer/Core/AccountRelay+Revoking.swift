// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Endpoints that are removed for good.
extension AccountRelay {
    /// What came of a revocation.
    private struct Removal: Sendable {
        var revocation: RevocationRow
        var changes: [CommandChange]
    }

    mutating func revoke(_ request: EndpointMessage.EndpointRevoke, on channel: AccountChannel) {
        let (account, endpoint, hasLogins) = (id, request.endpoint, rules.hasLogins)
        serve(request.ref, on: channel) { store, now in
            let own = try store.member(channel.endpoint, of: account)
            // Once is for ever, and twice the same.
            if try store.revocation(of: endpoint)?.account == account { return nil }
            let row = try store.member(endpoint, of: account)
            guard own.id == row.id || own.system == row.system || own.isEstablished else { throw Refusal.notEstablished }
            let revocation = RevocationRow(
                of: row,
                statement: .init(revoker: own.id, revocation: request.revocation.bytes),
                time: now,
                // What only unknown endpoints say of each other leaves nothing behind, or it could fill the account.
                isKept: own.isEstablished || row.isEstablished,
                loginsEnded: !hasLogins
            )
            return try Self.remove(row, revocation, store, now: now)
        } then: { (relay, removal: Removal?) in
            if let removal { relay.removed(removal) }
        }
    }

    /// The relay's own word, without a signature: its operator revokes an endpoint.
    /// - Parameter answer: told whether there was such an endpoint; one that is revoked already counts.
    mutating func revoke(_ endpoint: EndpointID, answer: @escaping @Sendable (Result<Bool, any Error>) -> Void) {
        let (account, hasLogins) = (id, rules.hasLogins)
        transact { store, now -> (Bool, Removal?) in
            guard let row = try store.endpoint(endpoint, of: account) else {
                return (try store.revocation(of: endpoint) != nil, nil)
            }
            let revocation = RevocationRow(of: row, statement: nil, time: now, isKept: true, loginsEnded: !hasLogins)
            return (true, try Self.remove(row, revocation, store, now: now))
        } then: { relay, result in
            if case .success((_, let removal?)) = result { relay.removed(removal) }
            relay.perform(.call { answer(result.map(\.0)) })
        }
    }

    private static func remove(
        _ row: EndpointRow,
        _ revocation: RevocationRow,
        _ store: any StoreTransaction,
        now: Int64
    ) throws -> Removal {
        if let revoker = revocation.statement?.revoker, revoker != row.id { try store.demote(after: row, by: revoker) }
        try store.removeEndpoint(row.id, of: row.account)
        if revocation.isKept || !revocation.loginsEnded { try store.add(revocation) }
        return Removal(revocation: revocation, changes: try store.endCommands(of: row.id, in: row.account, now: now))
    }

    private mutating func removed(_ removal: Removal) {
        let endpoint = removal.revocation.endpoint
        for revoked in channels(of: endpoint) {
            let invalidated = RelayMessage.AuthInvalidated(code: .endpointRevoked, message: "this endpoint was revoked")
            close(revoked, saying: .authInvalidated(invalidated), code: 1008, reason: "revoked")
        }
        perform(tunnels.revoke(endpoint))
        presences[endpoint] = nil
        tellWatchers(.endpointRemoved(.init(removal.revocation)))
        for change in removal.changes { perform(change) }
        // Behind the last word on its channels, which the end of a login closes too.
        if !removal.revocation.loginsEnded { perform(.endLogins) }
    }
}

extension RelayMessage.EndpointRemoved {
    /// What watchers are told of an endpoint that is gone.
    init(_ revocation: RevocationRow) {
        self.init(
            endpoint: revocation.endpoint,
            isRevoked: revocation.isKept,
            revocation: revocation.isKept ? revocation.statement.map { Blob($0.revocation) } : nil
        )
    }
}
