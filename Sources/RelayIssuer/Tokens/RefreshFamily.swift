// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// A login and its chain of refresh tokens. It decides which token is valid, and what follows from the use of another one. Tokens are
/// numbered. The caller has checked that they are authentic.
package struct RefreshFamily: Hashable, Sendable {
    /// The time for which the previous token stays valid, because the response with its successor may have been lost. A token
    /// bound to a key stays valid until its successor is used: a thief without the key cannot use it, and a device may sleep
    /// in the middle of a refresh.
    static let grace: Int64 = 60_000
    package static let idleLife: Int64 = 90 * 86_400_000
    package static let wholeLife: Int64 = 365 * 86_400_000
    /// The maximum number of logins of one user. For a new one, the least recently used one is revoked.
    static let maximum = 512
    /// The maximum number of revoked logins of one user that are kept, besides those whose access tokens may still be valid.
    package static let maximumRevoked = 512

    package let id: FamilyID
    package let subject: String
    package let client: String
    /// The device or app, as it named itself when it signed in; empty if it did not.
    package var device = ""
    package let scopes: Scopes
    /// The thumbprint of the key that the login is bound to.
    package let key: String?
    /// The endpoint whose invitation started the login.
    package let invitedBy: EndpointID?
    package let created: Milliseconds
    /// When the current token was issued.
    package var rotated: Milliseconds
    /// The number of the current token.
    package var current: Int64 = 1
    /// When the login was revoked.
    package var revoked: Milliseconds?
    /// Whether its endpoint was revoked.
    package var isOfRevokedEndpoint = false
    /// Whether it was revoked because a second device used its join link.
    package var isOfReusedLink = false

    /// What to do with a presented token. A repeated request gets the same successor.
    enum Decision: Hashable {
        /// Issue the successor, and call `rotate`.
        case rotate
        /// Issue the successor. The token is newer than the store, which was restored from a backup.
        case rotateAfterRestore
        /// Issue the same successor again.
        case reissueSuccessor
        /// Revoke the login. The token was replaced long ago, so two parties hold tokens of the login.
        case revoke
        case refuse(Rejection)
    }

    enum Rejection: Hashable {
        case revoked
        case expired
        case otherClient
        case otherKey
    }

    /// - Parameter number: The number of an authentic token.
    func decision(_ number: Int64, client: String, key: String?, now: Milliseconds) -> Decision {
        if revoked != nil { return .refuse(.revoked) }
        // A stolen token without its key is useless, and must not end the owner's login either.
        if client != self.client { return .refuse(.otherClient) }
        if let bound = self.key, bound != key { return .refuse(.otherKey) }
        if isOver(at: now) { return .refuse(.expired) }
        if number == current { return .rotate }
        if number > current { return .rotateAfterRestore }
        if number == current - 1, self.key != nil || now.count - rotated.count <= RefreshFamily.grace { return .reissueSuccessor }
        return .revoke
    }

    /// Makes the successor of a token the current token.
    mutating func rotate(from number: Int64, now: Milliseconds) {
        current = number + 1
        rotated = now
    }

    /// Whether a token may revoke the login. A revocation (RFC 7009) needs no key, so old tokens are ignored.
    func mayBeRevoked(with number: Int64) -> Bool { revoked == nil && number >= current - 1 }

    package func isOver(at now: Milliseconds) -> Bool {
        now.count - rotated.count >= RefreshFamily.idleLife || now.count - created.count >= RefreshFamily.wholeLife
    }
}
