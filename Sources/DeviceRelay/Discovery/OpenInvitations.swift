// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// How endpoints become known by a link: the inviter of this endpoint, and the invitations that this endpoint has made.
struct OpenInvitations: Sendable {
    /// The endpoint whose link this one used to join; `nil` after its record has arrived.
    var inviter: EndpointID?
    /// The secrets of this endpoint's unused invitations.
    private(set) var secrets: [Secret<[UInt8]>] = []
    /// The secrets of used invitations that are still stored.
    private var used: Set<Secret<[UInt8]>> = []

    init(inviter: EndpointID?) { self.inviter = inviter }

    /// Sets the stored secrets. An invitation that was used and is not deleted yet stays excluded.
    mutating func set(_ stored: [Secret<[UInt8]>]) {
        used.formIntersection(stored)
        secrets = stored.filter { !used.contains($0) }
    }

    /// Uses the invitation that a record proves.
    mutating func use(by record: EndpointRecord) -> Secret<[UInt8]>? {
        guard let proof = record.invitationProof,
            let secret = secrets.first(where: { InvitationProof.isValid(proof, secret: $0.exposed, endpoint: record.endpointID) })
        else { return nil }
        secrets.removeAll { $0 == secret }
        used.insert(secret)
        return secret
    }
}
