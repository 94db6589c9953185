// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The SHA-256 of a public key's SubjectPublicKeyInfo in DER. The identifier is self-certifying: only the holder of the key can prove it.
public protocol KeyFingerprint: TextIdentifier {
    /// The 256 bits.
    var digest: Digest256 { get }
    /// Creates an identifier from its 256 bits.
    init(digest: Digest256)
}

extension KeyFingerprint {
    /// The identifier of a public key.
    public init(_ key: SigningPublicKey) {
        self.init(digest: Digest256(hashing: key.spki))
    }

    /// Parses the text form: 52 lower-case base32 characters.
    public init(parsing text: String) throws(IdentifierError) {
        self.init(digest: try Digest256(parsing: text))
    }

    /// Parses the text form; `nil` if it is invalid.
    public init?(_ description: String) {
        guard let digest = try? Digest256(parsing: description) else { return nil }
        self.init(digest: digest)
    }

    /// The text form: 52 lower-case base32 characters (RFC 4648, no padding).
    public var description: String { digest.description }

    /// The first 8 characters: a label for people and logs, never a proof.
    public var label: String { String(description.prefix(8)) }

    /// Compares the bytes in order, so that two peers agree on which identifier is smaller.
    public static func < (left: Self, right: Self) -> Bool { left.digest < right.digest }
}

/// Identifies an endpoint: the fingerprint of its identity key.
public struct EndpointID: KeyFingerprint {
    /// The 256 bits.
    public let digest: Digest256
    /// Creates an identifier from its 256 bits.
    public init(digest: Digest256) { self.digest = digest }
}

/// Identifies a device: the fingerprint of the system key that the endpoints on one piece of hardware share.
public struct SystemID: KeyFingerprint {
    /// The 256 bits.
    public let digest: Digest256
    /// Creates an identifier from its 256 bits.
    public init(digest: Digest256) { self.digest = digest }
}

/// Identifies a relay: the fingerprint of its own key, which a join link pins.
public struct RelayID: KeyFingerprint {
    /// The 256 bits.
    public let digest: Digest256
    /// Creates an identifier from its 256 bits.
    public init(digest: Digest256) { self.digest = digest }
}
