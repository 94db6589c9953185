// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import RelayProtocol

/// A refresh token: the login, a number within the login, and a MAC over both. Tokens are not stored, so a restored
/// database recognises tokens that were issued after the backup.
struct RefreshToken: Sendable {
    static let characters = 75
    private static let familyBytes = 16
    private static let numberBytes = 8
    private static let codeBytes = SHA256.byteCount

    let family: FamilyID
    let number: Int64
    private let code: Secret<[UInt8]>

    /// Issues a token.
    init(family: FamilyID, number: Int64, key: SymmetricKey) {
        self.family = family
        self.number = number
        let signed = RefreshToken.signed(family, number)
        self.code = Secret(Array(HMAC<SHA256>.authenticationCode(for: signed, using: key)))
    }

    /// Parses a token without checking its MAC; `nil` if the format is wrong.
    init?(parsing text: String) {
        guard text.utf8.count == RefreshToken.characters, let bytes = Base64.url.decode(text),
            bytes.count == RefreshToken.familyBytes + RefreshToken.numberBytes + RefreshToken.codeBytes
        else { return nil }
        let number = bytes.dropFirst(RefreshToken.familyBytes).prefix(RefreshToken.numberBytes).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        // The successor's number must not overflow.
        guard let number = Int64(exactly: number), (1..<Int64.max).contains(number) else { return nil }
        self.family = FamilyID(Array(bytes.prefix(RefreshToken.familyBytes)))
        self.number = number
        self.code = Secret(Array(bytes.suffix(RefreshToken.codeBytes)))
    }

    /// Whether the token's MAC was made with the key.
    func isAuthentic(by key: SymmetricKey) -> Bool {
        HMAC<SHA256>.isValidAuthenticationCode(code.exposed, authenticating: RefreshToken.signed(family, number), using: key)
    }

    var text: Secret<String> { Secret(Base64.url.encode(RefreshToken.signed(family, number) + code.exposed)) }

    private static func signed(_ family: FamilyID, _ number: Int64) -> [UInt8] {
        family.bytes + (0..<numberBytes).reversed().map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }
    }
}

/// Identifies a login.
package struct FamilyID: Hashable, Sendable {
    package let bytes: [UInt8]

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    static func random() -> FamilyID { FamilyID(randomBytes(16)) }

    /// The `sid` of the login's access tokens. It is a hash, because the id itself is part of the refresh tokens.
    package var session: String { Base64.url.encode(Digest256(hashing: Array("session".utf8) + bytes).bytes.prefix(16)) }
}

/// Returns bytes from a cryptographic random generator.
func randomBytes(_ count: Int) -> [UInt8] {
    SymmetricKey(size: SymmetricKeySize(bitCount: count * 8)).withUnsafeBytes { Array($0) }
}
