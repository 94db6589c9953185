// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

// Invitations that this endpoint makes.
extension LocalEndpoint {
    /// Makes an invitation, whose newcomer this endpoint will know.
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
        return invitation.link
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
