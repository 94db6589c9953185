// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Crypto

/// A private P-256 key that signs: ECDSA with SHA-256 (FIPS 186-5). A protocol, so that a Secure Enclave can hold it.
public protocol SigningKey: Sendable {
    /// Its public half.
    var publicKey: SigningPublicKey { get }
    /// The signature over a message: r and s, 32 bytes each, big-endian.
    func signature(for message: [UInt8]) throws -> [UInt8]
}

/// The key that an endpoint is: its fingerprint is the `EndpointID`.
public protocol IdentityKey: SigningKey {}

/// The key that the endpoints in one piece of hardware share: its fingerprint is the `SystemID`.
public protocol SystemKey: SigningKey {}

/// A signing key in memory.
public struct P256SigningKey: IdentityKey, SystemKey {
    private let key: P256.Signing.PrivateKey

    /// Its public half.
    public let publicKey: SigningPublicKey

    /// A new random key.
    public init() { self.init(P256.Signing.PrivateKey()) }

    /// The key whose 32 bytes were stored; throws if they are no key.
    public init(rawRepresentation: [UInt8]) throws {
        self.init(try P256.Signing.PrivateKey(rawRepresentation: rawRepresentation))
    }

    private init(_ key: P256.Signing.PrivateKey) {
        self.key = key
        self.publicKey = SigningPublicKey(key.publicKey)
    }

    /// The 32 secret bytes.
    public var rawRepresentation: [UInt8] { [UInt8](key.rawRepresentation) }

    /// See `SigningKey`.
    public func signature(for message: [UInt8]) throws -> [UInt8] {
        [UInt8](try key.signature(for: message).rawRepresentation)
    }
}

/// A public P-256 key that checks signatures.
public struct SigningPublicKey: Sendable, Hashable {
    private let key: P256.Signing.PublicKey

    /// SubjectPublicKeyInfo (RFC 5280 §4.1) in DER: 91 bytes.
    public let spki: [UInt8]

    /// The DER of every P-256 key up to its uncompressed point (RFC 5480 §2), which is the rest: 0x04 and two coordinates.
    private static let algorithm: [UInt8] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01,
        0x07, 0x03, 0x42, 0x00,
    ]

    /// From a key of the Crypto library.
    public init(_ key: P256.Signing.PublicKey) {
        self.key = key
        self.spki = Self.algorithm + key.x963Representation
    }

    /// From SubjectPublicKeyInfo. Only the one DER form is accepted, so that a key has one fingerprint.
    package init(spki: [UInt8]) throws(KeyError) {
        guard spki.count == 91, spki.starts(with: Self.algorithm + [0x04]),
            let key = try? P256.Signing.PublicKey(x963Representation: spki.dropFirst(Self.algorithm.count))
        else {
            throw KeyError.malformedPublicKey
        }
        self.key = key
        self.spki = spki
    }

    /// Whether the 64 bytes are the key's signature over the message.
    package func isValid(_ signature: [UInt8], for message: [UInt8]) -> Bool {
        guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
        return key.isValidSignature(signature, for: message)
    }

    /// Keys are equal if their encodings are.
    public static func == (left: Self, right: Self) -> Bool { left.spki == right.spki }

    /// Consistent with `==`.
    public func hash(into hasher: inout Hasher) { hasher.combine(spki) }
}

extension SigningPublicKey: Codable {
    /// Reads SubjectPublicKeyInfo.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let spki = try container.decode([UInt8].self)
        do throws(KeyError) {
            try self.init(spki: spki)
        } catch {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "These bytes are no P-256 public key.")
        }
    }

    /// Writes SubjectPublicKeyInfo.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(spki)
    }
}

/// Why bytes are not a key.
package enum KeyError: Error, Hashable, Sendable {
    case malformedPublicKey
}
