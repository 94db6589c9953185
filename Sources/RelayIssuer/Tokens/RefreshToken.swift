// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import RelayProtocol

/// A refresh token: which login it belongs to, its number within that login, and a code over both that the issuer alone can make.
/// Of a token that was issued nothing has to be stored, so a database that is older than the token still knows it for its own.
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

    /// Reads a token, of which nobody knows yet who made it. `nil` if the text has not the form of one.
    init?(parsing text: String) {
        guard text.utf8.count == RefreshToken.characters, let bytes = Base64.url.decode(text),
            bytes.count == RefreshToken.familyBytes + RefreshToken.numberBytes + RefreshToken.codeBytes
        else { return nil }
        let number = bytes.dropFirst(RefreshToken.familyBytes).prefix(RefreshToken.numberBytes).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        // The next number has to exist.
        guard let number = Int64(exactly: number), (1..<Int64.max).contains(number) else { return nil }
        self.family = FamilyID(Array(bytes.prefix(RefreshToken.familyBytes)))
        self.number = number
        self.code = Secret(Array(bytes.suffix(RefreshToken.codeBytes)))
    }

    /// Whether the holder of the key issued it.
    func isAuthentic(by key: SymmetricKey) -> Bool {
        HMAC<SHA256>.isValidAuthenticationCode(code.exposed, authenticating: RefreshToken.signed(family, number), using: key)
    }

    var text: Secret<String> { Secret(Base64.url.encode(RefreshToken.signed(family, number) + code.exposed)) }

    private static func signed(_ family: FamilyID, _ number: Int64) -> [UInt8] {
        family.bytes + (0..<numberBytes).reversed().map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }
    }
}

/// Names a login: all the refresh tokens that followed one another since.
struct FamilyID: Hashable, Sendable {
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    static func random() -> FamilyID { FamilyID(randomBytes(16)) }

    /// What access tokens call the login (`sid`). Not the id itself, which is a part of its refresh tokens.
    var session: String { Base64.url.encode(Digest256(hashing: Array("session".utf8) + bytes).bytes.prefix(16)) }
}

/// Bytes that cannot be guessed.
func randomBytes(_ count: Int) -> [UInt8] {
    SymmetricKey(size: SymmetricKeySize(bitCount: count * 8)).withUnsafeBytes { Array($0) }
}
