// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import CryptoExtras
import Foundation
package import RelayProtocol

/// The permitted signature algorithms of tokens. All are asymmetric, so that a published key cannot be used to sign.
package enum TokenAlgorithm: String, Sendable, CaseIterable {
    case es256 = "ES256"
    case es384 = "ES384"
    case edDSA = "EdDSA"
    case ps256 = "PS256"
    case rs256 = "RS256"
}

/// A public key of an issuer that verifies signatures.
package struct TokenKey: Sendable {
    let id: String?
    /// The only algorithm of the key, if the issuer names one.
    private let algorithm: String?
    private let key: Key

    private enum Key: Sendable {
        case p256(P256.Signing.PublicKey)
        case p384(P384.Signing.PublicKey)
        case ed25519(Curve25519.Signing.PublicKey)
        case rsa(_RSA.Signing.PublicKey)
    }

    /// `nil` if the key has an unsupported type, is not for signatures, or is invalid.
    package init?(_ jwk: JSONWebKey) {
        guard jwk.use == nil || jwk.use == "sig", let key = TokenKey.key(jwk) else { return nil }
        self.id = jwk.kid
        self.algorithm = jwk.alg
        self.key = key
    }

    private static func key(_ jwk: JSONWebKey) -> Key? {
        func bytes(_ member: String?, upTo limit: Int) -> [UInt8]? {
            guard let member, member.utf8.count <= limit * 2 else { return nil }
            return Base64.url.decode(member)
        }
        switch (jwk.kty, jwk.crv) {
        case ("EC", "P-256"):
            guard let x = bytes(jwk.x, upTo: 32), let y = bytes(jwk.y, upTo: 32), x.count == 32, y.count == 32 else { return nil }
            return (try? P256.Signing.PublicKey(rawRepresentation: x + y)).map(Key.p256)
        case ("EC", "P-384"):
            guard let x = bytes(jwk.x, upTo: 48), let y = bytes(jwk.y, upTo: 48), x.count == 48, y.count == 48 else { return nil }
            return (try? P384.Signing.PublicKey(rawRepresentation: x + y)).map(Key.p384)
        case ("OKP", "Ed25519"):
            guard let x = bytes(jwk.x, upTo: 32) else { return nil }
            return (try? Curve25519.Signing.PublicKey(rawRepresentation: x)).map(Key.ed25519)
        case ("RSA", _):
            // 2048 to 8192 bits: shorter keys are broken, and longer keys cost too much time to verify.
            guard let n = bytes(jwk.n, upTo: 1_024), let e = bytes(jwk.e, upTo: 4), (256...1_024).contains(n.count) else { return nil }
            return (try? _RSA.Signing.PublicKey(n: n, e: e)).map(Key.rsa)
        default: return nil
        }
    }

    package func fits(_ algorithm: TokenAlgorithm) -> Bool {
        guard self.algorithm == nil || self.algorithm == algorithm.rawValue else { return false }
        return switch (algorithm, key) {
        case (.es256, .p256), (.es384, .p384), (.edDSA, .ed25519), (.ps256, .rsa), (.rs256, .rsa): true
        default: false
        }
    }

    package func isValid(_ signature: [UInt8], for message: [UInt8], by algorithm: TokenAlgorithm) -> Bool {
        switch (algorithm, key) {
        case (.es256, .p256(let key)):
            (try? P256.Signing.ECDSASignature(rawRepresentation: signature)).map { key.isValidSignature($0, for: message) } ?? false
        case (.es384, .p384(let key)):
            (try? P384.Signing.ECDSASignature(rawRepresentation: signature)).map { key.isValidSignature($0, for: message) } ?? false
        case (.edDSA, .ed25519(let key)):
            key.isValidSignature(signature, for: message)
        case (.ps256, .rsa(let key)):
            key.isValidSignature(.init(rawRepresentation: signature), for: message, padding: .PSS)
        case (.rs256, .rsa(let key)):
            key.isValidSignature(.init(rawRepresentation: signature), for: message, padding: .insecurePKCS1v1_5)
        default: false
        }
    }
}
