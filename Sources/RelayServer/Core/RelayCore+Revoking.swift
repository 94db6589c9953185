// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Endpoints that are removed for good.
extension RelayCore {
    /// What came of a revocation.
    private struct Removal: Sendable {
        var revocation: RevocationRow
        var changes: [CommandChange]
    }

    /// The signature is checked before the transaction: an endpoint's key and account never change.
    func revoke(_ request: EndpointMessage.EndpointRevoke, on channel: Channel) {
        let (account, endpoint, bytes, time, hasLogins) = (
            channel.account, request.endpoint, request.revocation.bytes, now().count, logins != nil
        )
        do throws(RecordError) {
            let revocation = try Signed<Revocation>(
                verifying: bytes,
                by: channel.endpoint,
                key: channel.identityKey,
                account: account.rawValue
            )
            guard revocation.payload.endpoint == endpoint else { throw .wrongEndpoint }
        } catch {
            return refuse(Refusal(error), request.ref, on: channel.id)
        }
        serve(request.ref, on: channel) { store in
            let own = try store.endpoint(channel.endpoint, of: account)
            // Once is for ever, and twice the same.
            if try store.revocation(of: endpoint)?.account == account { return nil }
            let row = try store.endpoint(endpoint, of: account)
            guard own.id == row.id || own.system == row.system || own.isEstablished else { throw Refusal.notEstablished }
            let revocation = RevocationRow(
                of: row,
                statement: .init(revoker: own.id, revocation: bytes),
                time: time,
                // What only unknown endpoints say of each other leaves nothing behind, or it could fill the account.
                isKept: own.isEstablished || row.isEstablished,
                loginsEnded: !hasLogins
            )
            // Who leaves by itself was not taken over.
            if own.id != row.id { try store.demote(after: [row], by: own.id, in: account) }
            return try Self.remove(row, revocation, store, time: time)
        } then: { [self] (state, removal: Removal?) in
            if let removal { removed(removal, &state) }
        }
    }

    /// What the operator revoked.
    package struct OperatorRevocation: Sendable {
        /// None of what was revoked before.
        package var revoked: [EndpointRow]
        /// The endpoints that the revoked one let in and that are still there, and whether they are connected.
        package var letIn: [(row: EndpointRow, isConnected: Bool)]
    }

    /// The relay's own word, without a signature: its operator revokes an endpoint. Those that are established by its word alone are so no
    /// more.
    /// - Parameter withLetIn: whether the endpoints that it let in are revoked too, and those that these let in.
    /// - Returns: `nil` if there was no such endpoint; one that is revoked already counts.
    package func revoke(_ endpoint: EndpointID, withLetIn: Bool = false) async throws -> OperatorRevocation? {
        let (time, hasLogins) = (now().count, logins != nil)
        return try await withCheckedThrowingContinuation { continuation in
            transact(for: nil) { store -> (removals: [Removal], revoked: [EndpointRow], letIn: [EndpointRow])? in
                let row = try store.endpoint(endpoint)
                guard let account = try row?.account ?? store.revocation(of: endpoint)?.account else { return nil }
                let letIn = try store.letIn(by: endpoint, row, in: account)
                let revoked = (row.map { [$0] } ?? []) + (withLetIn ? letIn : [])
                try store.demote(after: revoked, by: nil, in: account)
                let removals = try revoked.map { row in
                    let revocation = RevocationRow(of: row, statement: nil, time: time, isKept: true, loginsEnded: !hasLogins)
                    return try Self.remove(row, revocation, store, time: time)
                }
                let left = withLetIn ? [] : try letIn.compactMap { try store.endpoint($0.id) }
                return (removals, revoked, left)
            } then: { [self] state, result in
                let revocation = result.map { done in
                    done.map { done in
                        for removal in done.removals { removed(removal, &state) }
                        let letIn = done.letIn.map { (row: $0, isConnected: state.isConnected($0)) }
                        return OperatorRevocation(revoked: done.revoked, letIn: letIn)
                    }
                }
                state.outgoing.append(.call { continuation.resume(with: revocation) })
            }
        }
    }

    /// The endpoints of an identity's account, and whether they are connected.
    package func endpoints(of identity: Identity) async throws -> [(row: EndpointRow, isConnected: Bool)] {
        let rows = try await store.transact { store in
            try store.account(of: identity).map { try store.endpoints(of: $0) } ?? []
        }
        return change { state in rows.map { ($0, state.isConnected($0)) } }
    }

    package func isRevoked(_ endpoint: EndpointID, completion: @escaping @Sendable (Bool) -> Void) {
        transact(for: nil) { store in
            try store.revocation(of: endpoint) != nil
        } then: { state, result in
            let isRevoked = (try? result.get()) ?? false
            state.outgoing.append(.call { completion(isRevoked) })
        }
    }

    private static func remove(
        _ row: EndpointRow,
        _ revocation: RevocationRow,
        _ store: any StoreTransaction,
        time: Int64
    ) throws -> Removal {
        try store.removeEndpoint(row.id, of: row.account)
        if revocation.isKept || !revocation.loginsEnded { try store.add(revocation) }
        return Removal(revocation: revocation, changes: try endCommands(of: row.id, in: row.account, store, now: time))
    }

    private func removed(_ removal: Removal, _ state: inout State) {
        let (endpoint, account) = (removal.revocation.endpoint, removal.revocation.account)
        for revoked in state.channels(of: endpoint, in: account) {
            let invalidated = RelayMessage.AuthInvalidated(code: .endpointRevoked, message: "this endpoint was revoked")
            state.close(revoked, saying: .authInvalidated(invalidated), code: 1008, reason: "revoked")
        }
        state.perform(state.tunnels.revoke(endpoint))
        state.accounts[account]?.presences[endpoint] = nil
        state.tell(.endpointRemoved(.init(removal.revocation)), watchersOf: account)
        for change in removal.changes { perform(change, in: account, &state) }
        // Behind the last word on its channels, which the end of a login closes too.
        if !removal.revocation.loginsEnded { state.outgoing.append(.call { self.endLogins() }) }
    }
}

extension RelayCore.State {
    fileprivate func isConnected(_ endpoint: EndpointRow) -> Bool { !channels(of: endpoint.id, in: endpoint.account).isEmpty }
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

extension Refusal {
    static let notEstablished = Refusal(
        .notEstablished,
        "only the account's first endpoint, or one that a known one has approved, may revoke endpoints of other devices: approve this "
            + "endpoint on a known device, or revoke at the relay (`relayd endpoint revoke`)"
    )
}
