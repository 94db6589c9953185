// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import CryptoExtras
package import RelayProtocol

/// A public key credential with which a user signs in (WebAuthn Level 3). Attestation is not requested, because the kind of authenticator
/// that holds the key does not matter.
package struct Passkey: Hashable, Sendable {
    static let maximum = 16
    static let maximumNameCharacters = 64

    package let id: [UInt8]
    package let subject: String
    package let key: PasskeyKey
    package let name: String
    package let created: Milliseconds
    /// The authenticator's counter of signatures; 0 if it has none.
    package var counter: UInt32

    /// Whether the counter of an assertion is valid. An old counter indicates a copied authenticator.
    func accepts(counter: UInt32) -> Bool { counter > self.counter || (counter == 0 && self.counter == 0) }
}

/// The public key of a passkey.
package struct PasskeyKey: Hashable, Sendable {
    /// COSE algorithm identifiers (RFC 9053, RFC 8812).
    package enum Algorithm: Int, CaseIterable, Sendable {
        case es256 = -7
        case rs256 = -257
    }

    package static let maximumBytes = 1_024

    package let algorithm: Algorithm
    /// SubjectPublicKeyInfo in DER.
    package let spki: [UInt8]

    package init?(algorithm: Int, spki: [UInt8]) {
        guard let algorithm = Algorithm(rawValue: algorithm), spki.count <= PasskeyKey.maximumBytes else { return nil }
        switch algorithm {
        case .es256: guard (try? SigningPublicKey(spki: spki)) != nil else { return nil }
        // This rejects keys of fewer than 2048 bits.
        case .rs256: guard (try? _RSA.Signing.PublicKey(derRepresentation: spki)) != nil else { return nil }
        }
        self.algorithm = algorithm
        self.spki = spki
    }

    package func isValid(_ signature: [UInt8], for message: [UInt8]) -> Bool {
        switch algorithm {
        case .es256:
            guard let key = try? SigningPublicKey(spki: spki),
                let signature = try? P256.Signing.ECDSASignature(derRepresentation: signature)
            else { return false }
            return key.isValid([UInt8](signature.rawRepresentation), for: message)
        case .rs256:
            guard let key = try? _RSA.Signing.PublicKey(derRepresentation: spki) else { return false }
            return key.isValidSignature(.init(rawRepresentation: signature), for: message, padding: .insecurePKCS1v1_5)
        }
    }
}

/// The data that an authenticator signs (WebAuthn §6.1).
package struct AuthenticatorData: Sendable {
    private static let userPresent: UInt8 = 0x01
    private static let userVerified: UInt8 = 0x04
    private static let hasCredential: UInt8 = 0x40

    package let relyingParty: Digest256
    package let flags: UInt8
    package let counter: UInt32
    /// The id of a new credential.
    package let credential: [UInt8]?

    package init?(parsing bytes: [UInt8]) {
        guard bytes.count >= 37, let relyingParty = Digest256(bytes: Array(bytes[..<32])) else { return nil }
        self.relyingParty = relyingParty
        flags = bytes[32]
        counter = bytes[33..<37].reduce(0) { $0 << 8 | UInt32($1) }
        guard flags & Self.hasCredential != 0 else {
            credential = nil
            return
        }
        // 16 bytes identify the authenticator's model, and 2 are the length of the id.
        guard bytes.count >= 55 else { return nil }
        let count = Int(bytes[53]) << 8 | Int(bytes[54])
        guard (1...1_023).contains(count), bytes.count >= 55 + count else { return nil }
        credential = Array(bytes[55..<(55 + count)])
    }

    /// Whether the user was present, and the authenticator verified the user.
    package var isVerified: Bool { flags & Self.userPresent != 0 && flags & Self.userVerified != 0 }
}

/// The data that a browser adds (WebAuthn §5.8.1).
package struct PasskeyClientData: JSONReadable, Sendable {
    let type: String
    let challenge: String
    let origin: String
    let isCrossOrigin: Bool

    package init(json: JSONValue) throws(JSONError) {
        type = try json.member("type")
        challenge = try json.member("challenge")
        origin = try json.member("origin")
        isCrossOrigin = try json.optional("crossOrigin") ?? false
    }
}

/// The challenge in a page for one browser: time, random bytes, and a MAC, so that nothing is stored before it is answered.
struct PasskeyChallenge: Hashable, Sendable {
    static let life: Int64 = 600_000

    private let time: Milliseconds
    private let bytes: [UInt8]

    init(browser: BrowserToken, now: Milliseconds, key: SymmetricKey) {
        time = now
        let clear = (0..<8).reversed().map { UInt8(truncatingIfNeeded: now.count >> ($0 * 8)) } + randomBytes(16)
        bytes = clear + Array(HMAC<SHA256>.authenticationCode(for: clear + browser.session.bytes, using: key))
    }

    init?(parsing text: String, browser: BrowserToken, now: Milliseconds, key: SymmetricKey) {
        guard text.utf8.count == 75, let bytes = Base64.url.decode(text), bytes.count == 56,
            HMAC<SHA256>.isValidAuthenticationCode(bytes[24...], authenticating: bytes[..<24] + browser.session.bytes, using: key)
        else { return nil }
        time = Milliseconds(clamping: bytes[..<8].reduce(Int64(0)) { $0 << 8 | Int64($1) })
        self.bytes = bytes
        guard (0..<PasskeyChallenge.life).contains(now.count - time.count) else { return nil }
    }

    var text: String { Base64.url.encode(bytes) }
    var id: Digest256 { Digest256(hashing: bytes) }
    /// The expiry. After it, a used challenge can be forgotten.
    var ends: Milliseconds { Milliseconds(clamping: time.count + PasskeyChallenge.life) }
}
