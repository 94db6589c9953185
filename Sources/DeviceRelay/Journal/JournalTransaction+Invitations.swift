// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
package import RelayProtocol
import RelayStorage

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// The invitations that this endpoint made, by the secrets that newcomers prove. Times are milliseconds since 1970, by the own clock.
extension JournalTransaction {
    /// As many as an issuer leaves open, twice over; the ones that end first make room.
    package static let maximumInvitations = 64

    /// Stores the secret of a new invitation, 32 bytes.
    package func storeInvitation(_ secret: Secret<[UInt8]>, ends: Int64) throws {
        try run(
            "INSERT OR REPLACE INTO invitations (secret, ends) VALUES (?, ?)",
            [Data(secret.exposed), ends]
        )
        try run(
            "DELETE FROM invitations WHERE secret IN (SELECT secret FROM invitations ORDER BY ends DESC LIMIT -1 OFFSET ?)",
            [Self.maximumInvitations]
        )
    }

    /// The secrets that count, the newest first.
    package func invitations(now: Int64) throws -> [Secret<[UInt8]>] {
        try Row.fetchAll(statement("SELECT secret FROM invitations WHERE ends > ? ORDER BY ends DESC"), arguments: [now])
            .map { Secret(try $0.bytes("secret")) }
    }

    /// Deletes what is over.
    package func removeInvitations(endedBy now: Int64) throws {
        try run("DELETE FROM invitations WHERE ends <= ?", [now])
    }

    /// Forgets an invitation that was used.
    package func removeInvitation(_ secret: Secret<[UInt8]>) throws {
        try run("DELETE FROM invitations WHERE secret = ?", [Data(secret.exposed)])
    }
}
