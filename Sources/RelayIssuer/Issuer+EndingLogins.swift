// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

extension Issuer {
    /// Ends all logins of an endpoint that was revoked: those that are bound to its key, and the one of a session. Its unused
    /// invitations end with them. May be asked for again, after a crash in between or for an endpoint without any login.
    /// - Parameters:
    ///   - thumbprint: that of the endpoint's key.
    ///   - session: the `sid` of a token that it used.
    package func endLogins(boundTo thumbprint: String, session: String?) async throws(IssuerError) {
        let now = now()
        let ended = try await store.write { [self] records in
            try records.removeOpenInvitations(madeBy: thumbprint)
            return try records.openLogins(boundTo: thumbprint, session: session).map { try revoke($0, now: now, in: records) }
        }
        for login in ended {
            logger.info("ended a login of a revoked endpoint", metadata: metadata(login.subject))
            revoked(login)
        }
    }

    /// Revokes a login, and the unused invitations of its key: the thief of a device or of a link comes back by none of them.
    func revoke(_ family: RefreshFamily, now: Milliseconds, in records: any IssuerTransaction) throws -> RevokedLogin {
        var family = family
        family.revoked = now
        try records.update(family)
        if let key = family.key { try records.removeOpenInvitations(madeBy: key) }
        return RevokedLogin(family, at: now)
    }

    func metadata(_ subject: String) -> Logger.Metadata { ["subject": "\(subject.prefix(8))"] }
}
