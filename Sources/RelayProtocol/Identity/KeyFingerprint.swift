// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The SHA-256 of a public key's SubjectPublicKeyInfo in DER. The identifier is self-certifying: only the holder of the key can prove it.
package protocol KeyFingerprint: TextIdentifier {
    /// The 256 bits.
    var digest: Digest256 { get }
    /// Creates an identifier from its 256 bits.
    init(digest: Digest256)
    /// The first 8 characters: a label for people and logs, never a proof.
    var label: String { get }
}

extension KeyFingerprint {
    /// The identifier of a public key.
    package init(_ key: SigningPublicKey) {
        self.init(digest: Digest256(hashing: key.spki))
    }

    /// Parses the text form: 52 lower-case base32 characters.
    package init(parsing text: String) throws(IdentifierError) {
        self.init(digest: try Digest256(parsing: text))
    }

    /// Parses the text form; `nil` if it is invalid.
    public init?(_ description: String) {
        guard let digest = try? Digest256(parsing: description) else { return nil }
        self.init(digest: digest)
    }

    /// The text form: 52 lower-case base32 characters (RFC 4648, no padding).
    public var description: String { digest.description }

    /// Compares the bytes in order, so that two peers agree on which identifier is smaller.
    public static func < (left: Self, right: Self) -> Bool { left.digest < right.digest }
}

/// Identifies an endpoint: the fingerprint of its identity key. The text form has 52 lower-case base32 characters (RFC 4648, no padding).
public struct EndpointID: KeyFingerprint {
    package let digest: Digest256
    package init(digest: Digest256) { self.digest = digest }

    /// The first 8 characters: a label for people and logs, never a proof.
    public var label: String { digest.label }
}

/// Identifies the system key that the endpoints on one piece of hardware share: its fingerprint. Its text form, that of an `EndpointID`, is
/// the device's `RemoteSystem.ID`.
package struct SystemID: KeyFingerprint {
    package let digest: Digest256
    package init(digest: Digest256) { self.digest = digest }

    /// The first 8 characters: a label for people and logs, never a proof.
    package var label: String { digest.label }
}

/// Identifies a relay: the fingerprint of its own key, which a join link pins. The text form is that of an `EndpointID`.
public struct RelayID: KeyFingerprint {
    package let digest: Digest256
    package init(digest: Digest256) { self.digest = digest }

    /// The first 8 characters: a label for people and logs, never a proof.
    public var label: String { digest.label }

    /// Stands for no relay, where devices without an account sign or seal something. No key has this fingerprint.
    package static let none = RelayID(digest: .zero)
}
