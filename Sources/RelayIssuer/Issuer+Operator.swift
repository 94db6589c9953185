// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

/// Actions of the relay's operator on users and logins.
extension Issuer {
    /// Records an event at the relay for a user's account.
    package func note(_ kind: AccountEvent.Kind, of subject: String, detail: String) async throws(IssuerError) {
        let now = now()
        try await store.write { records in
            guard try records.hasUser(subject) else { return }
            try records.note(kind, of: subject, detail, now: now)
        }
    }

    /// Throws `nameInvalid` if a user cannot have the name.
    package static func checked(_ name: String) throws(IssuerError) -> AccountName {
        guard let name = AccountName(name) else { throw .nameInvalid }
        return name
    }

    package func rename(_ subject: String, to name: String) async throws(IssuerError) {
        let name = try Issuer.checked(name)
        try await store.write { records in
            guard try records.hasUser(subject) else { throw IssuerError.unknownUser }
            let holder = try records.user(named: name)
            guard holder == nil || holder?.subject == subject else { throw IssuerError.nameTaken }
            try records.rename(subject, to: name)
        }
    }

    /// Removes a user with all logins and invitations. The call may be repeated.
    package func remove(_ subject: String) async throws(IssuerError) {
        let now = now()
        let ended = try await store.write { records in
            let logins = try records.openLogins(of: subject).map { RevokedLogin($0, at: now) }
            try records.removeUser(subject)
            return logins
        }
        for login in ended { revoked(login) }
    }

    /// Revokes a login by the `sid` of its access tokens.
    package func endLogin(session: String) async throws(IssuerError) {
        let now = now()
        let ended = try await store.write { [self] records -> RevokedLogin? in
            guard let family = try records.family(session: session), family.revoked == nil else { return nil }
            return try revoke(family, now: now, in: records)
        }
        guard let ended else { return }
        await log(.info, "ended a login", of: ended.subject)
        revoked(ended)
    }
}
