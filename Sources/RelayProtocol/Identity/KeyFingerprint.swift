// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto

/// The SHA-256 of a public key's SubjectPublicKeyInfo in DER. An identifier of this kind certifies itself: only the
/// holder of the key can prove it.
public protocol KeyFingerprint: Hashable, Sendable, Codable, Comparable, LosslessStringConvertible {
    /// The 256 bits.
    var digest: KeyDigest { get }
    /// An identifier of the given bits.
    init(digest: KeyDigest)
}

extension KeyFingerprint {
    /// The identifier of a key.
    public init(_ key: SigningPublicKey) {
        self.init(digest: KeyDigest(hashing: key.spki))
    }

    /// Reads the text form: 52 lower-case base32 characters.
    public init(parsing text: String) throws(IdentifierError) {
        self.init(digest: try KeyDigest(parsing: text))
    }

    /// Reads the text form; `nil` if it is none.
    public init?(_ description: String) {
        guard let digest = try? KeyDigest(parsing: description) else { return nil }
        self.init(digest: digest)
    }

    /// The text form: 52 lower-case base32 characters (RFC 4648, no padding).
    public var description: String { digest.description }

    /// The first 8 characters: a label for people and logs, never a proof.
    public var label: String { String(description.prefix(8)) }

    /// In the order of the bytes, so that two peers agree on which of them is the smaller.
    public static func < (left: Self, right: Self) -> Bool { left.digest < right.digest }

    /// Reads the text form.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        do throws(IdentifierError) {
            try self.init(parsing: text)
        } catch {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: error.description)
        }
    }

    /// Writes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

/// Names an endpoint: the fingerprint of its identity key.
public struct EndpointID: KeyFingerprint {
    /// The 256 bits.
    public let digest: KeyDigest
    /// An identifier of the given bits.
    public init(digest: KeyDigest) { self.digest = digest }
}

/// Names a device: the fingerprint of the system key that the endpoints in one piece of hardware share.
public struct SystemID: KeyFingerprint {
    /// The 256 bits.
    public let digest: KeyDigest
    /// An identifier of the given bits.
    public init(digest: KeyDigest) { self.digest = digest }
}

/// Names a relay: the fingerprint of its own key, which a join link pins.
public struct RelayID: KeyFingerprint {
    /// The 256 bits.
    public let digest: KeyDigest
    /// An identifier of the given bits.
    public init(digest: KeyDigest) { self.digest = digest }
}

/// 256 bits that are compared in constant time.
public struct KeyDigest: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// Big-endian, most significant word first.
    private let words: (UInt64, UInt64, UInt64, UInt64)

    init(hashing bytes: [UInt8]) {
        self.init(Array(SHA256.hash(data: bytes)))
    }

    /// Of the first 32 bytes, missing ones taken as zero.
    private init(_ bytes: [UInt8]) {
        func word(_ index: Int) -> UInt64 {
            bytes.dropFirst(index * 8).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        }
        self.words = (word(0), word(1), word(2), word(3))
    }

    /// The digest in 32 bytes; `nil` for any other number of them.
    public init?(bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        self.init(bytes)
    }

    init(parsing text: String) throws(IdentifierError) {
        guard text.utf8.count == 52 else { throw IdentifierError(.wrongLength(expected: 52, found: text.utf8.count)) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(32)
        var bits: UInt32 = 0
        var bitCount: UInt32 = 0
        for (offset, character) in text.utf8.enumerated() {
            guard let value = Base32.value(of: character) else { throw IdentifierError(.invalidCharacter(offset: offset)) }
            bits = bits << 5 & 0xFFFF | UInt32(value)
            bitCount += 5
            if bitCount >= 8 {
                bitCount -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> bitCount))
            }
        }
        // 52 characters are 260 bits; were the last four free, one identifier would have sixteen texts.
        guard bits & 0xF == 0 else { throw IdentifierError(.invalidCharacter(offset: 51)) }
        self.init(bytes)
    }

    /// The 32 bytes.
    public var bytes: [UInt8] {
        [words.0, words.1, words.2, words.3].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * $0)) }
        }
    }

    /// The text form: 52 lower-case base32 characters.
    public var description: String { Base32.encode(bytes) }

    /// Takes the same time wherever the first difference is.
    public static func == (left: Self, right: Self) -> Bool {
        (left.words.0 ^ right.words.0) | (left.words.1 ^ right.words.1) | (left.words.2 ^ right.words.2) | (left.words.3 ^ right.words.3)
            == 0
    }

    /// In the order of the bytes.
    public static func < (left: Self, right: Self) -> Bool { left.words < right.words }

    /// Consistent with `==`.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(words.1)
        hasher.combine(words.2)
        hasher.combine(words.3)
    }
}

/// Why a text is not an identifier.
public struct IdentifierError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What is wrong with the text.
    public enum Reason: Hashable, Sendable {
        /// It has another number of characters.
        case wrongLength(expected: Int, found: Int)
        /// A character that cannot stand there; counted from 0 in UTF-8 bytes.
        case invalidCharacter(offset: Int)
    }

    /// What is wrong with the text.
    public let reason: Reason

    init(_ reason: Reason) { self.reason = reason }

    /// One line; holds nothing of the text itself.
    public var description: String {
        switch reason {
        case .wrongLength(let expected, let found): "an identifier has \(expected) characters, this one has \(found)"
        case .invalidCharacter(let offset): "an identifier cannot have this character at position \(offset + 1)"
        }
    }
}
