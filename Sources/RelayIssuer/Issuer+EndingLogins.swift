// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension Issuer {
    /// Revokes every login that is bound to a key, and one login besides. May be called again.
    /// - Parameters:
    ///   - thumbprint: the JWK thumbprint of the key.
    ///   - session: the `sid` of the login's access tokens.
    package func endLogins(boundTo thumbprint: String, session: String?) async throws(IssuerError) {
        let now = now()
        let ended = try await store.write { records in
            try records.logins(boundTo: thumbprint, session: session).map { family in
                var family = family
                family.revoked = now
                try records.update(family)
                return RevokedLogin(family, at: now)
            }
        }
        for login in ended { revoked(login) }
    }
}

extension IssuerRecords {
    /// The logins with a key or a session that were not revoked. A session is a digest of the login's id, so all ids are looked at: a device
    /// is revoked seldom enough.
    fileprivate func logins(boundTo key: String, session: String?) throws -> [RefreshFamily] {
        let bound = try Data.fetchAll(db, sql: "SELECT id FROM login WHERE key = ? AND revoked IS NULL", arguments: [key])
        var ids = Set(bound.map { FamilyID([UInt8]($0)) })
        if let session {
            let all = try Data.fetchCursor(db, sql: "SELECT id FROM login WHERE revoked IS NULL")
            while let id = try all.next().map({ FamilyID([UInt8]($0)) }) {
                if id.session == session { ids.insert(id) }
            }
        }
        return try ids.compactMap { try family($0) }
    }
}
