// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Revocations: by this endpoint, by known ones, and by a statement of the relay alone.
extension PeerBook {
    /// Revokes an endpoint for this one. It is rejected here from now on, even if the relay does not accept the revocation.
    mutating func revoke(_ revocation: Signed<Revocation>) -> [Action] {
        let endpoint = revocation.payload.endpoint
        // Revocations that are made here have twice the limit, so that those of other endpoints cannot fill it.
        guard endpoint != own, peers.revoked.count < 2 * Self.maximumRevocations || peers.revoked.contains(endpoint) else { return [] }
        return refusePermanently(revocation, isUnsent: true)
    }

    /// Applies revocations that another process of this endpoint has stored.
    mutating func revoked(elsewhere endpoints: Set<EndpointID>) -> [Action] {
        let new = endpoints.subtracting(peers.revoked).subtracting([own]).sorted()
        return new.flatMap { endpoint in
            remove(endpoint)
            return [.shutOut(endpoint), .forgetSender(endpoint)] as [Action]
        }
    }

    /// Applies a signed revocation from the relay. `nil` if its signer may not revoke the endpoint, or is not known yet.
    mutating func revoke(by statement: Unverified<Revocation>) -> [Action]? {
        peers.verify(statement).map { refusePermanently($0, isUnsent: false) }
    }

    /// Refuses an endpoint until the relay lists it. `nil` if the signer may not revoke it.
    mutating func shutOut(by statement: Unverified<Revocation>) -> [Action]? {
        guard peers.verify(statement) != nil else { return nil }
        let endpoint = statement.payload.endpoint
        directory.remove(endpoint)
        peers.revokeByRelay(endpoint)
        refreshTrust()
        return [.shutOut(endpoint)]
    }

    private mutating func refusePermanently(_ revocation: Signed<Revocation>, isUnsent: Bool) -> [Action] {
        let endpoint = revocation.payload.endpoint
        let forgetsInviter = openInvitations.inviter == endpoint
        remove(endpoint)
        return [.shutOut(endpoint), .forgetSender(endpoint), .storeRevocation(revocation, isUnsent: isUnsent)]
            + (forgetsInviter ? [.forgetInviter] : [])
    }

    private mutating func remove(_ endpoint: EndpointID) {
        if openInvitations.inviter == endpoint { openInvitations.inviter = nil }
        unproven.remove(endpoint)
        directory.remove(endpoint)
        peers.revoke(endpoint)
        refreshTrust()
    }

    /// Applies a revocation that only the relay states. It applies until the relay lists the endpoint again. So the pin and the lanes stay,
    /// which distinguish old commands from new ones.
    mutating func revokeByRelay(_ endpoint: EndpointID, mayBeProven: Bool) -> [Action] {
        let name = peers.knowledge(of: endpoint) == nil ? nil : peers[endpoint]?.payload.name
        let isAgain = peers.revokedByRelay.contains(endpoint)
        directory.remove(endpoint)
        peers.revokeByRelay(endpoint)
        refreshTrust()
        if let name {
            if mayBeProven { unproven.keep(name, of: endpoint) } else { directory.report(.revokedByRelay(endpoint, name: name)) }
        }
        return isAgain ? [] : [.shutOut(endpoint)]
    }
}
