// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
package import RelayProtocol

/// A one-time code that a browser carries to a client, which redeems it with the verifier of its request (RFC 7636, S256 only).
package struct AuthorizationCode: Hashable, Sendable {
    static let life: Int64 = 60_000
    /// How long a code is kept after its expiry, in milliseconds, so that a second use is detected.
    package static let memory: Int64 = 600_000
    /// The maximum number of codes of one user that are kept.
    package static let maximum = 32

    package let code: Digest256
    package let subject: String
    package let client: String
    /// The redirect URI of the request.
    package let redirect: String
    package let challenge: Digest256
    package let scopes: Scopes
    package let expires: Milliseconds
    package var redemption: Invitation.Redemption?

    enum Decision: Hashable {
        case accept
        case refuse
        /// The code was used before, and not by the same key, so two parties hold the code and its verifier. The login that it began is
        /// revoked.
        case revoke(FamilyID)
    }

    /// - Parameter key: The thumbprint of the key that proved the request.
    func decision(client: String, redirect: String, verifier: Secret<String>, key: String?, now: Milliseconds) -> Decision {
        // A code without its verifier is useless, and must not end the owner's login either.
        guard client.utf8.elementsEqual(self.client.utf8), redirect.utf8.elementsEqual(self.redirect.utf8),
            Digest256(hashing: Array(verifier.exposed.utf8)) == challenge
        else { return .refuse }
        guard let redemption else { return now < expires ? .accept : .refuse }
        // The first response may have been lost.
        if let key, key == redemption.key { return .refuse }
        return redemption.family.map(Decision.revoke) ?? .refuse
    }

    /// Returns the digest that a request's `code_challenge` encodes; `nil` if the text is malformed.
    static func challenge(_ text: String) -> Digest256? {
        text.utf8.count == 43 ? Base64.url.decode(text).flatMap(Digest256.init(bytes:)) : nil
    }

    /// Whether the text is a code verifier (RFC 7636 §4.1).
    static func isVerifier(_ text: String) -> Bool {
        (43...128).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                (0x61...0x7A).contains(byte) || (0x41...0x5A).contains(byte) || (0x30...0x39).contains(byte) || "-._~".utf8.contains(byte)
            }
    }
}
