// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// A code that lets one endpoint into a user's account, once.
struct Invitation: Hashable, Sendable {
    static let life: Int64 = 600_000
    /// Used ones are remembered this long, to notice when somebody else comes with the code.
    static let memory: Int64 = 86_400_000
    /// Open invitations of one user.
    static let maximumOpen = 32

    var code: Digest256
    var subject: String
    var expires: Milliseconds
    var redemption: Redemption?

    struct Redemption: Hashable, Sendable {
        /// The thumbprint of the key it was redeemed with.
        var key: String?
        /// The login that it began, if one that can be refreshed.
        var family: FamilyID?
    }

    enum Decision: Hashable {
        case accept
        case expired
        /// Used before. The login it began is to be revoked, unless the same key came twice (RFC 6749 §4.1.2): two parties had the
        /// code, and nobody knows which was meant.
        case replayed(revoke: FamilyID?)
    }

    func present(key: String?, now: Milliseconds) -> Decision {
        if let redemption {
            let isSameDevice = key != nil && redemption.key == key
            return .replayed(revoke: isSameDevice ? nil : redemption.family)
        }
        return now < expires ? .accept : .expired
    }
}

/// An invitation's code: 128 secret bits.
struct InvitationCode: Sendable {
    private let bytes: Secret<[UInt8]>

    init() { self.bytes = Secret(randomBytes(16)) }

    init?(parsing text: String) {
        guard text.utf8.count == 22, let bytes = Base64URL.decode(text) else { return nil }
        self.bytes = Secret(bytes)
    }

    var digest: Digest256 { Digest256(hashing: bytes.exposed) }
    var text: Secret<String> { Secret(Base64URL.encode(bytes.exposed)) }
}
