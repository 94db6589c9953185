// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// A login and the refresh tokens that followed one another since: which one may be used, and what it means if another is.
struct RefreshFamily: Hashable, Sendable {
    /// The token before the current one still works for this long: its answer may have been lost. Where it needs a key, it works until
    /// the current one is used: whoever has the key has no use for old tokens, and a device may sleep for long in the middle of a refresh.
    static let grace: Int64 = 60_000
    static let idleLife: Int64 = 90 * 86_400_000
    static let wholeLife: Int64 = 365 * 86_400_000

    var id: FamilyID
    var subject: String
    var client: String
    var scopes: Scopes
    /// The thumbprint of the key that the login is bound to.
    var key: String?
    var created: Milliseconds
    /// When the current token was made.
    var rotated: Milliseconds
    var current: Digest256
    var previous: Digest256?
    /// When it was revoked.
    var revoked: Milliseconds?

    /// What to do with a token that was presented.
    enum Decision: Hashable {
        /// Make the successor, and `rotate` to it.
        case rotate
        /// Answer with the same successor again.
        case repeatSuccessor
        /// A token that was replaced long ago: somebody else has it. Revoke the family.
        case revoke
        case refuse(Refusal)
    }

    enum Refusal: Hashable {
        case revoked
        case expired
        case otherClient
        case otherKey
    }

    func present(_ token: Digest256, client: String, key: String?, now: Milliseconds) -> Decision {
        if revoked != nil { return .refuse(.revoked) }
        // A token without its key is of no use to a thief, and must not let him log the owner out either.
        if client != self.client { return .refuse(.otherClient) }
        if let bound = self.key, bound != key { return .refuse(.otherKey) }
        if isOver(at: now) { return .refuse(.expired) }
        if token == current { return .rotate }
        if token == previous, self.key != nil || now.count - rotated.count <= RefreshFamily.grace { return .repeatSuccessor }
        return .revoke
    }

    mutating func rotate(to successor: Digest256, now: Milliseconds) {
        previous = current
        current = successor
        rotated = now
    }

    func isOver(at now: Milliseconds) -> Bool {
        now.count - rotated.count >= RefreshFamily.idleLife || now.count - created.count >= RefreshFamily.wholeLife
    }
}
