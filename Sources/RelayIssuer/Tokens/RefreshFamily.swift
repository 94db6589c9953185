// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// A login and the refresh tokens that followed one another since: which one may be used, and what it means if another is. Tokens are
/// numbered, and only those that the issuer made come here.
struct RefreshFamily: Hashable, Sendable {
    /// The token before the current one still works for this long: its answer may have been lost. Where it needs a key, it works until
    /// the current one is used: the holder of the key has no use for old tokens, and a device may sleep for long in the middle of a refresh.
    static let grace: Int64 = 60_000
    static let idleLife: Int64 = 90 * 86_400_000
    static let wholeLife: Int64 = 365 * 86_400_000

    let id: FamilyID
    let subject: String
    let client: String
    let scopes: Scopes
    /// The thumbprint of the key that the login is bound to.
    let key: String?
    /// The endpoint whose invitation began the login.
    let invitedBy: EndpointID?
    let created: Milliseconds
    /// When the current token was made.
    var rotated: Milliseconds
    /// The number of the current token.
    var current: Int64 = 1
    /// When it was revoked.
    var revoked: Milliseconds?
    /// Whether its endpoint was revoked.
    var isOfRevokedEndpoint = false

    /// What to do with a token that was presented. Where one is given, it is the token's successor, so that a repeated request has the
    /// same answer.
    enum Decision: Hashable {
        /// Give the successor, and `rotate`.
        case rotate
        /// The same, of a token that this store never heard of: the store is older than the token, since it was restored from a backup.
        case catchUp
        /// Give the successor again.
        case repeatSuccessor
        /// A token that was replaced long ago: two parties have tokens of the login. Revoke it.
        case revoke
        case refuse(Refusal)
    }

    enum Refusal: Hashable {
        case revoked
        case expired
        case otherClient
        case otherKey
    }

    /// - Parameter number: that of the token, which the issuer made.
    func present(_ number: Int64, client: String, key: String?, now: Milliseconds) -> Decision {
        if revoked != nil { return .refuse(.revoked) }
        // A token without its key is of no use to a thief, and must not let him log the owner out either.
        if client != self.client { return .refuse(.otherClient) }
        if let bound = self.key, bound != key { return .refuse(.otherKey) }
        if isOver(at: now) { return .refuse(.expired) }
        if number == current { return .rotate }
        if number > current { return .catchUp }
        if number == current - 1, self.key != nil || now.count - rotated.count <= RefreshFamily.grace { return .repeatSuccessor }
        return .revoke
    }

    /// Makes the successor of a token the current one.
    mutating func rotate(from number: Int64, now: Milliseconds) {
        current = number + 1
        rotated = now
    }

    /// Whether a token may end the login, as its client asks for. The key is not asked for, so an old token, which may lie anywhere, does not.
    func mayBeRevoked(with number: Int64) -> Bool { revoked == nil && number >= current - 1 }

    func isOver(at now: Milliseconds) -> Bool {
        now.count - rotated.count >= RefreshFamily.idleLife || now.count - created.count >= RefreshFamily.wholeLife
    }
}
