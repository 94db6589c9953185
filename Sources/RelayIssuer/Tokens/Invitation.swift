// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// A code that lets one endpoint into a user's account, once.
struct Invitation: Hashable, Sendable {
    static let life: Int64 = 600_000
    /// Used ones are remembered this long, so that the log says of what was used again that it was.
    static let memory: Int64 = 86_400_000
    /// Open invitations of one user.
    static let maximumOpen = 32

    let code: Digest256
    let subject: String
    /// `nil` for one that the operator made.
    let inviter: Inviter?
    let expires: Milliseconds
    var redemption: Redemption?

    /// The endpoint that made it.
    struct Inviter: Hashable, Sendable {
        /// The thumbprint of its key.
        let key: String
        let endpoint: EndpointID
    }

    struct Redemption: Hashable, Sendable {
        /// The thumbprint of the key it was redeemed with.
        var key: String?
        /// The login that it began; `nil` once that is forgotten.
        var family: FamilyID?
    }

    enum Decision: Hashable {
        case accept
        case expired
        /// Used before, by the same key: its answer may have been lost.
        case repeated
        /// Used before. A person who finds a used link must not end the login, so nothing comes of it.
        case usedAgain
        /// Used before, and the link still holds: another device was meant to join by it, or another one has joined. Nobody knows which
        /// was meant, so the login that it began is revoked.
        case revoke(FamilyID)
    }

    /// - Parameter key: the thumbprint of the key that proved the request.
    func present(key: String?, now: Milliseconds) -> Decision {
        guard let redemption else { return now < expires ? .accept : .expired }
        guard let key else { return .usedAgain }
        if key == redemption.key { return .repeated }
        guard now < expires, let family = redemption.family else { return .usedAgain }
        return .revoke(family)
    }
}

/// An invitation's code: 128 secret bits.
struct InvitationCode: Sendable {
    private let bytes: Secret<[UInt8]>

    init() { self.bytes = Secret(randomBytes(16)) }

    init?(parsing text: String) {
        guard text.utf8.count == 22, let bytes = Base64.url.decode(text) else { return nil }
        self.bytes = Secret(bytes)
    }

    var digest: Digest256 { Digest256(hashing: bytes.exposed) }
    var text: Secret<String> { Secret(Base64.url.encode(bytes.exposed)) }
}
