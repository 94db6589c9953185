// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Crypto
import Foundation

/// A private P-256 key that decrypts data sealed for it with HPKE (RFC 9180): base mode, DHKEM(P-256, HKDF-SHA256),
/// HKDF-SHA256 and AES-256-GCM. It is a protocol, so that a Secure Enclave can hold the key.
public protocol AgreementKey: Sendable {
    /// The public key.
    var publicKey: AgreementPublicKey { get }
    /// Decrypts data that was sealed for this key. Throws if it was sealed for another key or modified.
    /// - Parameters:
    ///   - ciphertext: The ciphertext with its authentication tag.
    ///   - encapsulatedKey: The sender's ephemeral key, 65 bytes.
    ///   - info: The purpose that it was sealed for.
    ///   - associatedData: The authenticated associated data.
    func open(_ ciphertext: [UInt8], encapsulatedKey: [UInt8], info: [UInt8], associatedData: [UInt8]) throws -> [UInt8]
}

/// An agreement key in memory.
public struct P256AgreementKey: AgreementKey {
    private let key: P256.KeyAgreement.PrivateKey

    /// The public key.
    public let publicKey: AgreementPublicKey

    /// Generates a random key.
    public init() { self.init(P256.KeyAgreement.PrivateKey()) }

    /// Restores a key from its 32 bytes; throws if they are not a valid key.
    public init(rawRepresentation: [UInt8]) throws {
        self.init(try P256.KeyAgreement.PrivateKey(rawRepresentation: rawRepresentation))
    }

    private init(_ key: P256.KeyAgreement.PrivateKey) {
        self.key = key
        self.publicKey = AgreementPublicKey(key.publicKey)
    }

    /// The 32 bytes of the private key.
    public var rawRepresentation: [UInt8] { [UInt8](key.rawRepresentation) }

    /// See `AgreementKey`.
    public func open(_ ciphertext: [UInt8], encapsulatedKey: [UInt8], info: [UInt8], associatedData: [UInt8]) throws -> [UInt8] {
        var recipient = try HPKE.Recipient(
            privateKey: key,
            ciphersuite: .P256_SHA256_AES_GCM_256,
            info: Data(info),
            encapsulatedKey: Data(encapsulatedKey)
        )
        return [UInt8](try recipient.open(ciphertext, authenticating: associatedData))
    }
}

/// A public P-256 key that data is sealed for.
public struct AgreementPublicKey: Sendable, Hashable, Codable {
    let key: P256.KeyAgreement.PublicKey

    /// The uncompressed point (SEC 1 §2.3.3): 65 bytes.
    public let bytes: [UInt8]

    /// Wraps a key of the Crypto library.
    public init(_ key: P256.KeyAgreement.PublicKey) {
        self.key = key
        self.bytes = [UInt8](key.x963Representation)
    }

    /// Parses an uncompressed point.
    package init(bytes: [UInt8]) throws(KeyError) {
        guard bytes.count == 65, let key = try? P256.KeyAgreement.PublicKey(x963Representation: bytes) else {
            throw KeyError.malformedPublicKey
        }
        self.key = key
        self.bytes = bytes
    }

    /// Identifies the key in sealed data, so that its holder finds the right key after a rotation. It is the first 16 bytes of the point's
    /// SHA-256.
    package var keyID: [UInt8] { Array(Digest256(hashing: bytes).bytes.prefix(16)) }

    /// Encrypts data so that only the holder of the private key can read it.
    package func seal(_ plain: [UInt8], info: [UInt8], associatedData: [UInt8]) throws -> (encapsulatedKey: [UInt8], ciphertext: [UInt8]) {
        var sender = try HPKE.Sender(recipientKey: key, ciphersuite: .P256_SHA256_AES_GCM_256, info: Data(info))
        let ciphertext = try sender.seal(plain, authenticating: associatedData)
        return ([UInt8](sender.encapsulatedKey), [UInt8](ciphertext))
    }

    /// Compares the encodings.
    public static func == (left: Self, right: Self) -> Bool { left.bytes == right.bytes }

    /// Consistent with `==`.
    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }

    /// Decodes the uncompressed point.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let bytes = try container.decode([UInt8].self)
        do throws(KeyError) {
            try self.init(bytes: bytes)
        } catch {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "These bytes are no P-256 public key.")
        }
    }

    /// Encodes the uncompressed point.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(bytes)
    }
}
