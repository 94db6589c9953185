// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

extension Issuer {
    /// Ends all logins of a revoked endpoint: those bound to its key, and that of a session. Its unused invitations end with
    /// them. The call may be repeated after a crash, and accepts an endpoint without a login.
    /// - Parameters:
    ///   - thumbprint: The thumbprint of the endpoint's key.
    ///   - session: The `sid` of a token that it used.
    package func endLogins(boundTo thumbprint: String, session: String?) async throws(IssuerError) {
        let now = now()
        let ended = try await store.write { [self] records in
            try records.removeOpenInvitations(madeBy: thumbprint)
            try records.endpointRevoked(boundTo: thumbprint, session: session)
            return try records.openLogins(boundTo: thumbprint, session: session).map { try revoke($0, now: now, in: records) }
        }
        for login in ended {
            await log(.info, "ended a login of a revoked endpoint", of: login.subject)
            revoked(login)
        }
    }

    /// Revokes a login and the unused invitations of its key, so that the thief of a device cannot return by an invitation.
    func revoke(_ family: RefreshFamily, now: Milliseconds, in records: any IssuerTransaction) throws -> RevokedLogin {
        var family = family
        family.revoked = now
        try records.update(family)
        try records.note(.loginRevoked, of: family.subject, RegisteredClient.shown(family.client), now: now)
        if let key = family.key { try records.removeOpenInvitations(madeBy: key) }
        return RevokedLogin(family, at: now)
    }
}
