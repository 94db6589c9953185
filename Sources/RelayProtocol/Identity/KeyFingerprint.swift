// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The SHA-256 of a public key's SubjectPublicKeyInfo in DER. An identifier of this kind certifies itself: only the
/// holder of the key can prove it.
public protocol KeyFingerprint: TextIdentifier {
    /// The 256 bits.
    var digest: Digest256 { get }
    /// An identifier of the given bits.
    init(digest: Digest256)
}

extension KeyFingerprint {
    /// The identifier of a key.
    public init(_ key: SigningPublicKey) {
        self.init(digest: Digest256(hashing: key.spki))
    }

    /// Reads the text form: 52 lower-case base32 characters.
    public init(parsing text: String) throws(IdentifierError) {
        self.init(digest: try Digest256(parsing: text))
    }

    /// Reads the text form; `nil` if it is none.
    public init?(_ description: String) {
        guard let digest = try? Digest256(parsing: description) else { return nil }
        self.init(digest: digest)
    }

    /// The text form: 52 lower-case base32 characters (RFC 4648, no padding).
    public var description: String { digest.description }

    /// The first 8 characters: a label for people and logs, never a proof.
    public var label: String { String(description.prefix(8)) }

    /// In the order of the bytes, so that two peers agree on which of them is the smaller.
    public static func < (left: Self, right: Self) -> Bool { left.digest < right.digest }
}

/// Names an endpoint: the fingerprint of its identity key.
public struct EndpointID: KeyFingerprint {
    /// The 256 bits.
    public let digest: Digest256
    /// An identifier of the given bits.
    public init(digest: Digest256) { self.digest = digest }
}

/// Names a device: the fingerprint of the system key that the endpoints in one piece of hardware share.
public struct SystemID: KeyFingerprint {
    /// The 256 bits.
    public let digest: Digest256
    /// An identifier of the given bits.
    public init(digest: Digest256) { self.digest = digest }
}

/// Names a relay: the fingerprint of its own key, which a join link pins.
public struct RelayID: KeyFingerprint {
    /// The 256 bits.
    public let digest: Digest256
    /// An identifier of the given bits.
    public init(digest: Digest256) { self.digest = digest }
}
