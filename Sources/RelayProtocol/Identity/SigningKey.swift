// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Crypto

/// A private P-256 key that signs with ECDSA and SHA-256 (FIPS 186-5). It is a protocol, so that a Secure Enclave can hold the key.
public protocol SigningKey: Sendable {
    /// The public key.
    var publicKey: SigningPublicKey { get }
    /// Signs a message. The signature is r and s, 32 bytes each, big-endian.
    func signature(for message: [UInt8]) throws -> [UInt8]
}

/// The key of an endpoint. Its fingerprint is the `EndpointID`.
public protocol IdentityKey: SigningKey {}

/// The key that the endpoints on one piece of hardware share. Its fingerprint is the `SystemID`.
package protocol SystemKey: SigningKey {}

/// A signing key in memory.
public struct P256SigningKey: IdentityKey, SystemKey {
    private let key: P256.Signing.PrivateKey

    /// The public key.
    public let publicKey: SigningPublicKey

    /// Generates a random key.
    public init() { self.init(P256.Signing.PrivateKey()) }

    /// Restores a key from its 32 bytes; throws if they are not a valid key.
    public init(rawRepresentation: [UInt8]) throws {
        self.init(try P256.Signing.PrivateKey(rawRepresentation: rawRepresentation))
    }

    private init(_ key: P256.Signing.PrivateKey) {
        self.key = key
        self.publicKey = SigningPublicKey(key.publicKey)
    }

    /// The 32 bytes of the private key.
    public var rawRepresentation: [UInt8] { [UInt8](key.rawRepresentation) }

    /// See `SigningKey`.
    public func signature(for message: [UInt8]) throws -> [UInt8] {
        [UInt8](try key.signature(for: message).rawRepresentation)
    }
}

/// A public P-256 key that verifies signatures.
public struct SigningPublicKey: Sendable, Hashable {
    private let key: P256.Signing.PublicKey

    /// SubjectPublicKeyInfo (RFC 5280 §4.1) in DER: 91 bytes.
    public let spki: [UInt8]

    /// The constant DER prefix of every P-256 key (RFC 5480 §2). The uncompressed point follows: 0x04 and two coordinates.
    private static let algorithm: [UInt8] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01,
        0x07, 0x03, 0x42, 0x00,
    ]

    /// Wraps a key of the Crypto library.
    public init(_ key: P256.Signing.PublicKey) {
        self.key = key
        self.spki = Self.algorithm + key.x963Representation
    }

    /// Parses SubjectPublicKeyInfo. Only one DER form is accepted, so that a key has one fingerprint.
    package init(spki: [UInt8]) throws(KeyError) {
        guard spki.count == 91, spki.starts(with: Self.algorithm + [0x04]),
            let key = try? P256.Signing.PublicKey(x963Representation: spki.dropFirst(Self.algorithm.count))
        else {
            throw KeyError.malformedPublicKey
        }
        self.key = key
        self.spki = spki
    }

    /// Whether the 64 bytes are a valid signature of the message by this key.
    package func isValid(_ signature: [UInt8], for message: [UInt8]) -> Bool {
        guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
        return key.isValidSignature(signature, for: message)
    }

    /// Compares the encodings.
    public static func == (left: Self, right: Self) -> Bool { left.spki == right.spki }

    /// Consistent with `==`.
    public func hash(into hasher: inout Hasher) { hasher.combine(spki) }
}

extension SigningPublicKey: Codable {
    /// Decodes SubjectPublicKeyInfo.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let spki = try container.decode([UInt8].self)
        do throws(KeyError) {
            try self.init(spki: spki)
        } catch {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "These bytes are no P-256 public key.")
        }
    }

    /// Encodes SubjectPublicKeyInfo.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(spki)
    }
}

/// Why bytes are not a valid key.
package enum KeyError: Error, Hashable, Sendable {
    case malformedPublicKey
}
