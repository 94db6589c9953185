// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

// Invitations that this endpoint makes.
extension LocalEndpoint {
    /// How long the relay has to take the vouchers of an invitation; it is told of the others later.
    private static let voucherPatience = Duration.seconds(10)

    /// Makes an invitation, whose newcomer this endpoint will know. The newcomer knows this endpoint, and by its vouchers all that this one knows.
    func invite() async throws(AccountError) -> JoinLink {
        let token: AccessToken
        do throws(AccessTokenError) {
            token = try await accessTokens.accessToken(for: tokenRequest)
        } catch {
            throw AccountError(.accessTokenRequestFailed, message: error.message, cause: error)
        }
        let invitation = try await makeInvitation(as: credentials, accessToken: token)
        // Before the link leaves: whoever uses it at once has to be known.
        do {
            try await journal.write { try $0.storeInvitation(invitation.secret, ends: invitation.secretEnds) }
        } catch {
            throw AccountError(.storageFailed, message: "the invitation cannot be stored: \(error)", cause: error)
        }
        await vouchForAll()
        return invitation.link
    }

    private func vouchForAll() async {
        let records = peers.unvouched
        let left = Observed(records.count)
        for record in records { vouch(for: record) { left.update { $0 -= 1 } } }
        if !records.isEmpty { _ = await left.first(within: Self.voucherPatience) { $0 == 0 } }
        left.finish()
    }

    /// This endpoint has joined anew by a link. Another endpoint's link says whom it is to know, and that nothing else is known by being listed.
    func joined(by link: JoinLink) async {
        let isInvited = link.proof != nil
        let inviter = isInvited ? link.by : nil
        peers.setInviter(inviter, isInvited: isInvited)
        if let proof = link.proofSecret { invitationProof = proof }
        // Without, the inviter is new until it is confirmed.
        try? await journal.write { transaction in
            if isInvited { try transaction.setJoined(by: inviter) } else { try transaction.forgetInviter() }
        }
    }

    /// Before the record of a newcomer is looked at: another process of this endpoint may have invited it just now.
    func readInvitations(for endpoint: EndpointID) {
        guard !peers.isConfirmed(endpoint) else { return }
        let now = wallTime
        // Without, the newcomer is new until somebody confirms it.
        if let stored = try? journal.read({ try $0.invitations(now: now) }) { peers.setInvitations(stored) }
    }

    func forgetOldInvitations() async throws {
        let now = wallTime
        try await journal.write { try $0.removeInvitations(endedBy: now) }
    }
}
