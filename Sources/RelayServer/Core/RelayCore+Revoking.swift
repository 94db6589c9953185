// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayLog
package import RelayProtocol
import Synchronization

/// Requests of the operator and the issuer about endpoints of any account.
extension RelayCore {
    /// Revokes an endpoint for the operator. Endpoints that are established only through it lose that classification.
    /// - Parameter withLetIn: whether to revoke also the endpoints that it let in, and those that these let in.
    /// - Returns: `nil` if there was no such endpoint; an endpoint that is already revoked counts.
    package func revoke(
        _ endpoint: EndpointID,
        withLetIn: Bool = false,
        by actor: RelayEvent.Actor = .operator
    ) async throws -> OperatorRevocation? {
        let account = try await store.transactGlobally { store in
            try store.account(ofEndpoint: endpoint) ?? store.revocation(of: endpoint)?.account
        }
        guard let account,
            case .revoked(let rows, let letIn) = try await perform(.revoke(endpoint, withLetIn: withLetIn, by: actor), on: account)
        else { return nil }
        return OperatorRevocation(revoked: rows, letIn: statuses(of: letIn, in: account))
    }

    /// - Returns: Also whether they are connected. Of an account of another node that is not known.
    private func statuses(of rows: [EndpointRow], in account: AccountID) -> [EndpointStatus] {
        shards[account].state.withLock { state in
            rows.map { EndpointStatus(row: $0, isConnected: state.accounts[account]?.channels.channels(of: $0.id).isEmpty == false) }
        }
    }

    /// The endpoints of an account, and whether they are connected.
    package func endpoints(of account: AccountID) async throws -> [EndpointStatus] {
        let rows = try await store.read { try $0.endpoints(of: account) }
        return statuses(of: rows, in: account)
    }

    package func isRevoked(_ endpoint: EndpointID, completion: @escaping @Sendable (Bool) -> Void) {
        transact { store in
            try store.revocation(of: endpoint) != nil
        } then: { result in
            completion((try? result.get()) ?? false)
        }
    }

    /// The account of an identity.
    package func account(of identity: Identity) async throws -> AccountID? {
        try await store.transactGlobally { try $0.account(of: identity) }
    }

    /// Whether the endpoint with a key may invite devices into the account of an identity.
    /// - Parameter keyThumbprint: the JWK thumbprint of its identity key.
    package func mayInvite(keyThumbprint: String, into identity: Identity) async throws -> Bool {
        let account = try await store.transactGlobally { store -> AccountID? in
            guard let row = try store.endpoint(keyThumbprint: keyThumbprint), row.isEstablished else { return nil }
            return try store.account(of: identity) == row.account ? row.account : nil
        }
        guard let account else { return false }
        return try await store.read { try !$0.isDisabled(account) }
    }
}
