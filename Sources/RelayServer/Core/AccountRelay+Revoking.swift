// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayLog
import RelayProtocol

/// What the removal of an endpoint has changed.
struct EndpointRemoval: Sendable {
    var revocation: RevocationRow
    var changes: [CommandChange]
    var identities: [IdentityChange]
    var event: RelayEvent
}

/// Revocation of endpoints.
extension AccountRelay {
    mutating func removed(_ removal: EndpointRemoval) {
        let endpoint = removal.revocation.endpoint
        perform(.event(removal.event))
        for revoked in channels.channels(of: endpoint) {
            let invalidated = RelayMessage.AuthInvalidated(code: .endpointRevoked, message: "this endpoint was revoked")
            close(revoked, saying: .authInvalidated(invalidated), code: 1008, reason: "revoked")
        }
        perform(tunnels.revoke(endpoint))
        presences.remove(endpoint)
        tellWatchers(.endpointRemoved(.init(removal.revocation)))
        for change in removal.changes { perform(change) }
        for change in removal.identities { changed(change) }
        // After the last message on its channels, because the end of a login closes them too.
        if !removal.revocation.loginsEnded { perform(.endLogins) }
    }
}

extension AccountTransaction {
    /// Revokes an endpoint for another one.
    /// - Returns: `nil` if it was revoked before: revocation is permanent and idempotent.
    func revoke(
        _ request: EndpointMessage.EndpointRevoke,
        on channel: AccountChannel,
        _ rules: RelayRules,
        at now: Int64
    ) throws -> EndpointRemoval? {
        let account = channel.account
        let own = try member(channel.endpoint, of: account)
        if try global.revocation(of: request.endpoint)?.account == account { return nil }
        let row = try member(request.endpoint, of: account)
        guard own.id == row.id || own.system == row.system || own.isEstablished else { throw Rejection.notEstablished }
        let revocation = RevocationRow(
            of: row,
            statement: .init(revoker: own.id, revocation: request.revocation.bytes),
            time: now,
            // A revocation between endpoints that are not established is not kept, or such endpoints could fill the account.
            isKept: own.isEstablished || row.isEstablished,
            loginsEnded: !rules.hasLogins
        )
        if own.id == row.id { try succeed(row) } else { try demote(after: [row], by: own.id, in: account) }
        return try remove(row, revocation, by: .endpoint(own.id.label), at: now)
    }

    /// Revokes an endpoint without a signature. Endpoints that are established only through it lose that classification.
    /// - Returns: also the endpoints that are revoked, and those that it let in and that stay; `nil` if there was no such endpoint.
    func revoke(
        _ endpoint: EndpointID,
        withLetIn: Bool,
        by actor: RelayEvent.Actor,
        in account: AccountID,
        _ rules: RelayRules,
        at now: Int64
    ) throws -> (removals: [EndpointRemoval], revoked: [EndpointRow], letIn: [EndpointRow])? {
        let row = try self.endpoint(endpoint, of: account)
        guard try row != nil || global.revocation(of: endpoint)?.account == account else { return nil }
        let letIn = try letIn(by: endpoint, row, in: account)
        let revoked = (row.map { [$0] } ?? []) + (withLetIn ? letIn : [])
        try demote(after: revoked, by: nil, in: account)
        let removals = try revoked.map { row in
            let revocation = RevocationRow(of: row, statement: nil, time: now, isKept: true, loginsEnded: !rules.hasLogins)
            return try remove(row, revocation, by: actor, at: now)
        }
        return (removals, revoked, withLetIn ? [] : try letIn.compactMap { try self.endpoint($0.id, of: account) })
    }

    private func remove(
        _ row: EndpointRow,
        _ revocation: RevocationRow,
        by actor: RelayEvent.Actor,
        at now: Int64
    ) throws -> EndpointRemoval {
        try removeEndpoint(row.id, of: row.account)
        if revocation.isKept || !revocation.loginsEnded { try add(revocation) }
        return EndpointRemoval(
            revocation: revocation,
            changes: try endCommands(of: row.id, in: row.account, now: now),
            identities: try unlinkIdentities(linkedBy: row.id, from: row.account),
            event: .revoked(account: try accountName(row.account), endpoint: row.id.label, by: actor)
        )
    }

    /// Ends the commands of an endpoint that was removed: those it sent are cancelled, those for it will get no answer.
    private func endCommands(of endpoint: EndpointID, in account: AccountID, now: Int64) throws -> [CommandChange] {
        var changes: [CommandChange] = []
        for command in try mailbox(of: endpoint, account: account) {
            let key = StoredCommandKey(account: account, command: command.key)
            if let change = try change(key, { $0.targetRemoved(now: now) }) { changes.append(change) }
        }
        for command in try commands(from: endpoint, isFinal: false, account: account) {
            let key = StoredCommandKey(account: account, command: command)
            if let change = try change(key, { $0.cancel(now: now) }) { changes.append(change) }
        }
        // The sender that could acknowledge them is gone.
        for command in try commands(from: endpoint, isFinal: true, account: account) {
            try removeCommand(StoredCommandKey(account: account, command: command))
        }
        return changes
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
