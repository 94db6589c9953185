// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Crypto
import Foundation

/// A private P-256 key from which two endpoints derive the keys of their direct paths. It is a protocol, so that a Secure Enclave can hold
/// the key.
public protocol LinkKey: Sendable {
    /// The public key. It is in the endpoint's record, and nothing is sealed for it.
    var publicKey: AgreementPublicKey { get }
    /// The Diffie-Hellman agreement (NIST SP 800-56A §5.7.1.2) with the public key of another endpoint.
    func sharedSecret(with other: P256.KeyAgreement.PublicKey) throws -> SharedSecret
}

/// A link key in memory.
public struct P256LinkKey: LinkKey {
    private let key: P256.KeyAgreement.PrivateKey

    /// Generates a random key.
    public init() { key = P256.KeyAgreement.PrivateKey() }

    /// Restores a key from its 32 bytes; throws if they are not a valid key.
    public init(rawRepresentation: [UInt8]) throws { key = try P256.KeyAgreement.PrivateKey(rawRepresentation: rawRepresentation) }

    /// The 32 bytes of the private key.
    public var rawRepresentation: [UInt8] { [UInt8](key.rawRepresentation) }

    /// See `LinkKey`.
    public var publicKey: AgreementPublicKey { AgreementPublicKey(key.publicKey) }

    /// See `LinkKey`.
    public func sharedSecret(with other: P256.KeyAgreement.PublicKey) throws -> SharedSecret {
        try key.sharedSecretFromKeyAgreement(with: other)
    }
}

/// The keys that only these two endpoints have. Both derive the same.
package struct PairKeys: Sendable {
    /// Recognises the other's advertisements.
    let tag: SymmetricKey
    /// Proves to a listener that a known endpoint knocks.
    let knock: SymmetricKey
    /// Seals addresses that pass through the relay.
    package let candidates: SymmetricKey

    package init(_ own: some LinkKey, of ownID: EndpointID, with other: AgreementPublicKey, of otherID: EndpointID) throws {
        let secret = try own.sharedSecret(with: other.key)
        let salt = Self.salt(ownID, otherID)
        func derive(_ purpose: Purpose) -> SymmetricKey {
            secret.hkdfDerivedSymmetricKey(using: SHA256.self, salt: salt, sharedInfo: purpose.bytes, outputByteCount: 32)
        }
        tag = derive(.nearbyTag)
        knock = derive(.nearbyKnock)
        candidates = derive(.nearbyCandidates)
    }

    /// The ids of both endpoints, the smaller one first.
    package static func salt(_ one: EndpointID, _ other: EndpointID) -> [UInt8] { [one, other].sorted().flatMap(\.digest.bytes) }

    /// The tag by which the other endpoint recognises an advertisement: the first 4 bytes.
    package func tag(of advertiser: EndpointID, nonce: [UInt8]) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: nonce + advertiser.digest.bytes, using: tag).prefix(4))
    }

    package func proof(of knock: Knock) -> [UInt8] { Array(HMAC<SHA256>.authenticationCode(for: knock.statement, using: self.knock)) }

    /// Compares in constant time.
    package func isValid(_ proof: [UInt8], for knock: Knock) -> Bool {
        HMAC<SHA256>.isValidAuthenticationCode(proof, authenticating: knock.statement, using: self.knock)
    }
}

/// What a dialer proves to a listener, before either says who it is.
package struct Knock: Hashable, Sendable {
    /// The first bytes of both sides.
    package static let magic = Array("DRL1".utf8)
    package static let challengeBytes = 16
    package static let nonceBytes = 8
    package static let proofBytes = 32

    package enum Kind: UInt8, Sendable {
        case known = 0
        /// Without a proof, while the listener is visible for it. The anonymous endpoint answers.
        case pairing = 1
    }

    package var challenge: [UInt8]
    package var kind: Kind
    package var nonce: [UInt8]
    package var dialer: EndpointID
    package var listener: EndpointID

    package init(challenge: [UInt8], kind: Kind, nonce: [UInt8], dialer: EndpointID, listener: EndpointID) {
        self.challenge = challenge
        self.kind = kind
        self.nonce = nonce
        self.dialer = dialer
        self.listener = listener
    }

    package var statement: [UInt8] {
        Self.magic + challenge + [kind.rawValue] + nonce + dialer.digest.bytes + listener.digest.bytes
    }
}
