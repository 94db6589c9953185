// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Crypto

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A private P-256 key that opens what was sealed for it: HPKE (RFC 9180) in base mode with DHKEM(P-256, HKDF-SHA256),
/// HKDF-SHA256 and AES-256-GCM. A protocol, so that a Secure Enclave can hold it.
public protocol AgreementKey: Sendable {
    /// Its public half.
    var publicKey: AgreementPublicKey { get }
    /// The plain bytes of something sealed for this key; throws if it was not, or was changed.
    /// - Parameters:
    ///   - ciphertext: what was sealed, with its authentication tag.
    ///   - encapsulatedKey: the sender's ephemeral key, 65 bytes.
    ///   - info: the purpose it was sealed for.
    ///   - associatedData: bytes that were authenticated with it.
    func open(_ ciphertext: [UInt8], encapsulatedKey: [UInt8], info: [UInt8], associatedData: [UInt8]) throws -> [UInt8]
}

/// An agreement key in memory.
public struct P256AgreementKey: AgreementKey {
    private let key: P256.KeyAgreement.PrivateKey

    /// Its public half.
    public let publicKey: AgreementPublicKey

    /// A new random key.
    public init() { self.init(P256.KeyAgreement.PrivateKey()) }

    /// The key whose 32 bytes were stored; throws if they are no key.
    public init(rawRepresentation: [UInt8]) throws {
        self.init(try P256.KeyAgreement.PrivateKey(rawRepresentation: rawRepresentation))
    }

    private init(_ key: P256.KeyAgreement.PrivateKey) {
        self.key = key
        self.publicKey = AgreementPublicKey(key.publicKey)
    }

    /// The 32 secret bytes.
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

/// A public P-256 key to seal for.
public struct AgreementPublicKey: Sendable, Hashable, Codable {
    private let key: P256.KeyAgreement.PublicKey

    /// The uncompressed point (SEC 1 §2.3.3): 65 bytes.
    public let bytes: [UInt8]

    /// From a key of the Crypto library.
    public init(_ key: P256.KeyAgreement.PublicKey) {
        self.key = key
        self.bytes = [UInt8](key.x963Representation)
    }

    /// From the uncompressed point.
    package init(bytes: [UInt8]) throws(KeyError) {
        guard bytes.count == 65, let key = try? P256.KeyAgreement.PublicKey(x963Representation: bytes) else {
            throw KeyError.malformedPublicKey
        }
        self.key = key
        self.bytes = bytes
    }

    /// Names the key in what was sealed for it, so that its holder finds it after a rotation: the first 16 bytes of
    /// its SHA-256.
    package var keyID: [UInt8] { Array(Digest256(hashing: bytes).bytes.prefix(16)) }

    /// Seals bytes so that only the key's holder can read them.
    package func seal(_ plain: [UInt8], info: [UInt8], associatedData: [UInt8]) throws -> (encapsulatedKey: [UInt8], ciphertext: [UInt8]) {
        var sender = try HPKE.Sender(recipientKey: key, ciphersuite: .P256_SHA256_AES_GCM_256, info: Data(info))
        let ciphertext = try sender.seal(plain, authenticating: associatedData)
        return ([UInt8](sender.encapsulatedKey), [UInt8](ciphertext))
    }

    /// Keys are equal if their encodings are.
    public static func == (left: Self, right: Self) -> Bool { left.bytes == right.bytes }

    /// Consistent with `==`.
    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }

    /// Reads the uncompressed point.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let bytes = try container.decode([UInt8].self)
        do throws(KeyError) {
            try self.init(bytes: bytes)
        } catch {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "These bytes are no P-256 public key.")
        }
    }

    /// Writes the uncompressed point.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(bytes)
    }
}
