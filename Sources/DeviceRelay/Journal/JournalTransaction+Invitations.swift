// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
package import RelayProtocol
import RelayStorage

// The invitations that this endpoint created, by the secrets that new endpoints prove. Times are milliseconds since 1970, by the local
// clock.
extension JournalTransaction {
    /// Twice the number of invitations that an issuer keeps open. Above it, the invitations that expire first are deleted.
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

    /// The valid secrets, the latest expiry first.
    package func invitations(now: Int64) throws -> [Secret<[UInt8]>] {
        try Row.fetchAll(statement("SELECT secret FROM invitations WHERE ends > ? ORDER BY ends DESC"), arguments: .bound(now))
            .map { Secret(try $0.bytes("secret")) }
    }

    /// Deletes expired invitations.
    package func removeInvitations(endedBy now: Int64) throws {
        try run("DELETE FROM invitations WHERE ends <= ?", [now])
    }

    /// Deletes a used invitation.
    package func removeInvitation(_ secret: Secret<[UInt8]>) throws {
        try run("DELETE FROM invitations WHERE secret = ?", [Data(secret.exposed)])
    }
}
