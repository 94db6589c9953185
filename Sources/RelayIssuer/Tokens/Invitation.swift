// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// A single-use code that admits one endpoint to a user's account.
package struct Invitation: Hashable, Sendable {
    static let life: Int64 = 600_000
    /// How long an invitation is kept after its expiry, in milliseconds, so that the log can report another use.
    package static let memory: Int64 = 86_400_000
    /// The maximum number of open invitations of one user.
    static let maximumOpen = 32

    package let code: Digest256
    package let subject: String
    /// `nil` for an invitation by the operator.
    package let inviter: Inviter?
    package let expires: Milliseconds
    package var redemption: Redemption?

    /// The endpoint that created the invitation.
    package struct Inviter: Hashable, Sendable {
        /// The thumbprint of its key.
        package let key: String
        package let endpoint: EndpointID
    }

    package struct Redemption: Hashable, Sendable {
        /// The thumbprint of the key that redeemed the invitation.
        package var key: String?
        /// The login that it started; `nil` once that login is deleted.
        package var family: FamilyID?
    }

    enum Decision: Hashable {
        case accept
        case expired
        /// The same key used it before, and it has not expired. The response may have been lost, so the login that it started is given
        /// again.
        case repeated(FamilyID)
        /// It was used before, and has expired or the request has no key. It is refused without a revocation, so that the finder
        /// of a used link cannot end the login.
        case usedAgain
        /// Another key used it before, and it has not expired. Either key may be the intended one, so the login that it started
        /// is revoked.
        case revoke(FamilyID)
    }

    /// - Parameter key: The thumbprint of the key that proved the request.
    func decision(key: String?, now: Milliseconds) -> Decision {
        guard let redemption else { return now < expires ? .accept : .expired }
        guard let key else { return .usedAgain }
        guard now < expires, let family = redemption.family else { return key == redemption.key ? .expired : .usedAgain }
        return key == redemption.key ? .repeated(family) : .revoke(family)
    }
}

/// The code of an invitation: 128 random bits.
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
