// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import RelayProtocol

/// A refresh token: which login it belongs to, and 256 secret bits. Only its digest is ever stored.
struct RefreshToken: Sendable {
    static let familyBytes = 16
    static let secretBytes = 32

    private let bytes: Secret<[UInt8]>

    private init(family: FamilyID, secret: some Sequence<UInt8>) {
        self.bytes = Secret(family.bytes + secret)
    }

    /// The first token of a family.
    init(family: FamilyID) {
        self.init(family: family, secret: randomBytes(RefreshToken.secretBytes))
    }

    /// `nil` if the text is no refresh token of ours.
    init?(parsing text: String) {
        guard text.utf8.count == 64, let bytes = Base64URL.decode(text) else { return nil }
        self.bytes = Secret(bytes)
    }

    var family: FamilyID { FamilyID(Array(bytes.exposed.prefix(RefreshToken.familyBytes))) }

    var digest: Digest256 { Digest256(hashing: bytes.exposed) }

    var text: Secret<String> { Secret(Base64URL.encode(bytes.exposed)) }

    /// The token that replaces this one. It follows from this one and a key that only the issuer has, so that a repeated request
    /// gets the same answer although no token is stored, and an old token tells nobody the later ones.
    func successor(by key: SymmetricKey) -> RefreshToken {
        RefreshToken(family: family, secret: HMAC<SHA256>.authenticationCode(for: bytes.exposed, using: key))
    }
}

/// Names a login: all the refresh tokens that followed one another since.
struct FamilyID: Hashable, Sendable {
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    static func random() -> FamilyID { FamilyID(randomBytes(RefreshToken.familyBytes)) }

    /// What access tokens call the login (`sid`). Not the id itself, with which the family could be revoked.
    var session: String { Base64URL.encode(Digest256(hashing: Array("session".utf8) + bytes).bytes.prefix(16)) }
}

/// Bytes that nobody can guess.
func randomBytes(_ count: Int) -> [UInt8] {
    SymmetricKey(size: SymmetricKeySize(bitCount: count * 8)).withUnsafeBytes { Array($0) }
}
