// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayLog
import RelayProtocol

/// The result of a revocation by the operator.
package struct OperatorRevocation: Sendable {
    /// The endpoints that this request revoked, without those that were already revoked.
    package var revoked: [EndpointRow]
    /// The endpoints that the revoked one let in and that still exist, and whether they are connected.
    package var letIn: [(row: EndpointRow, isConnected: Bool)]
}

/// Revocation of endpoints.
extension AccountRelay {
    /// The stored result of a revocation.
    private struct Removal: Sendable {
        var revocation: RevocationRow
        var changes: [CommandChange]
        var identities: [IdentityChange]
        var event: RelayEvent
    }

    mutating func revoke(_ request: EndpointMessage.EndpointRevoke, on channel: AccountChannel) {
        let (account, endpoint, hasLogins) = (id, request.endpoint, rules.hasLogins)
        serve(request.ref, on: channel) { store, now in
            let own = try store.member(channel.endpoint, of: account)
            // Revocation is permanent and idempotent.
            if try store.global.revocation(of: endpoint)?.account == account { return nil }
            let row = try store.member(endpoint, of: account)
            guard own.id == row.id || own.system == row.system || own.isEstablished else { throw Rejection.notEstablished }
            let revocation = RevocationRow(
                of: row,
                statement: .init(revoker: own.id, revocation: request.revocation.bytes),
                time: now,
                // A revocation between endpoints that are not established is not kept, or such endpoints could fill the account.
                isKept: own.isEstablished || row.isEstablished,
                loginsEnded: !hasLogins
            )
            if own.id == row.id { try store.succeed(row) } else { try store.demote(after: [row], by: own.id, in: account) }
            return try Self.remove(row, revocation, by: .endpoint(own.id.label), store, now: now)
        } then: { (relay, removal: Removal?) in
            if let removal { relay.removed(removal) }
        }
    }

    /// Revokes an endpoint for the operator, without a signature. Endpoints that are established only through it lose that
    /// classification.
    /// - Parameters:
    ///   - withLetIn: whether to revoke also the endpoints that it let in, and those that these let in.
    ///   - answer: receives `nil` if there was no such endpoint; an endpoint that is already revoked counts.
    mutating func revoke(
        _ endpoint: EndpointID,
        withLetIn: Bool,
        by actor: RelayEvent.Actor,
        answer: @escaping @Sendable (Result<OperatorRevocation?, any Error>) -> Void
    ) {
        let (account, hasLogins) = (id, rules.hasLogins)
        transact { store, now -> (removals: [Removal], revoked: [EndpointRow], letIn: [EndpointRow])? in
            let row = try store.endpoint(endpoint, of: account)
            guard try row != nil || store.global.revocation(of: endpoint)?.account == account else { return nil }
            let letIn = try store.letIn(by: endpoint, row, in: account)
            let revoked = (row.map { [$0] } ?? []) + (withLetIn ? letIn : [])
            try store.demote(after: revoked, by: nil, in: account)
            let removals = try revoked.map { row in
                let revocation = RevocationRow(of: row, statement: nil, time: now, isKept: true, loginsEnded: !hasLogins)
                return try Self.remove(row, revocation, by: actor, store, now: now)
            }
            let left = withLetIn ? [] : try letIn.compactMap { try store.endpoint($0.id, of: account) }
            return (removals, revoked, left)
        } then: { relay, result in
            let revocation = result.map { done in
                done.map { done in
                    for removal in done.removals { relay.removed(removal) }
                    let letIn = done.letIn.map { (row: $0, isConnected: !relay.channels(of: $0.id).isEmpty) }
                    return OperatorRevocation(revoked: done.revoked, letIn: letIn)
                }
            }
            relay.perform(.call { answer(revocation) })
        }
    }

    private static func remove(
        _ row: EndpointRow,
        _ revocation: RevocationRow,
        by actor: RelayEvent.Actor,
        _ store: any AccountTransaction,
        now: Int64
    ) throws -> Removal {
        try store.removeEndpoint(row.id, of: row.account)
        if revocation.isKept || !revocation.loginsEnded { try store.add(revocation) }
        return Removal(
            revocation: revocation,
            changes: try store.endCommands(of: row.id, in: row.account, now: now),
            identities: try store.unlinkIdentities(linkedBy: row.id, from: row.account),
            event: .revoked(account: try store.accountName(row.account), endpoint: row.id.label, by: actor)
        )
    }

    private mutating func removed(_ removal: Removal) {
        let endpoint = removal.revocation.endpoint
        perform(.event(removal.event))
        for revoked in channels(of: endpoint) {
            let invalidated = RelayMessage.AuthInvalidated(code: .endpointRevoked, message: "this endpoint was revoked")
            close(revoked, saying: .authInvalidated(invalidated), code: 1008, reason: "revoked")
        }
        perform(tunnels.revoke(endpoint))
        presences.forget(endpoint)
        takeovers[endpoint] = nil
        tellWatchers(.endpointRemoved(.init(removal.revocation)))
        for change in removal.changes { perform(change) }
        for change in removal.identities { changed(change) }
        // After the last message on its channels, because the end of a login closes them too.
        if !removal.revocation.loginsEnded { perform(.endLogins) }
    }
}

extension RelayMessage.EndpointRemoved {
    /// The message that informs watchers of a removed endpoint.
    init(_ revocation: RevocationRow) {
        self.init(
            endpoint: revocation.endpoint,
            isRevoked: revocation.isKept,
            revocation: revocation.isKept ? revocation.statement.map { Blob($0.revocation) } : nil
        )
    }
}
