// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto

/// A SHA-256 digest with constant-time comparison.
package struct Digest256: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// Big-endian, most significant word first.
    private let words: (UInt64, UInt64, UInt64, UInt64)

    package init(hashing bytes: [UInt8]) {
        self = Digest256(SHA256.hash(data: bytes))
    }

    init(_ digest: SHA256Digest) {
        self = digest.withUnsafeBytes { Digest256($0) }
    }

    /// Reads 32 bytes.
    private init(_ bytes: UnsafeRawBufferPointer) {
        func word(_ index: Int) -> UInt64 { UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: index * 8, as: UInt64.self)) }
        self.words = (word(0), word(1), word(2), word(3))
    }

    package static let byteCount = 32

    /// 32 zero bytes.
    static let zero = Digest256(words: (0, 0, 0, 0))

    private init(words: (UInt64, UInt64, UInt64, UInt64)) { self.words = words }

    /// The digest with these 32 bytes; `nil` for any other number of bytes.
    package init?(bytes: [UInt8]) {
        guard bytes.count == Self.byteCount else { return nil }
        self = bytes.withUnsafeBytes { Digest256($0) }
    }

    init(parsing text: String) throws(IdentifierError) {
        guard text.utf8.count == 52 else { throw IdentifierError(.wrongLength(expected: 52, found: text.utf8.count)) }
        var text = text
        // Read from the UTF-8 buffer, which is three times as fast as iterating over the characters.
        let words = text.withUTF8 { characters -> Result<(UInt64, UInt64, UInt64, UInt64), IdentifierError> in
            var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
            var last: UInt64 = 0
            for offset in characters.indices {
                guard let value = Base32.value(of: characters[offset]) else {
                    return .failure(IdentifierError(.invalidCharacter(offset: offset)))
                }
                last = UInt64(value)
                if offset == 51 { break }
                words.0 = words.0 << 5 | words.1 >> 59
                words.1 = words.1 << 5 | words.2 >> 59
                words.2 = words.2 << 5 | words.3 >> 59
                words.3 = words.3 << 5 | last
            }
            // 52 characters carry 260 bits. The last four must be 0, otherwise one identifier would have sixteen texts.
            guard last & 0xF == 0 else { return .failure(IdentifierError(.invalidCharacter(offset: 51))) }
            return .success(
                (words.0 << 1 | words.1 >> 63, words.1 << 1 | words.2 >> 63, words.2 << 1 | words.3 >> 63, words.3 << 1 | last >> 4)
            )
        }
        self.words = try words.get()
    }

    /// The 32 bytes.
    package var bytes: [UInt8] { withUnsafeBytes { [UInt8]($0) } }

    /// Passes the 32 bytes to a closure. The pointer is valid only during the call.
    package func withUnsafeBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        let bigEndian = (words.0.bigEndian, words.1.bigEndian, words.2.bigEndian, words.3.bigEndian)
        return try Swift.withUnsafeBytes(of: bigEndian, body)
    }

    /// The text form: 52 lower-case base32 characters.
    package var description: String { Base32.encode(bytes) }

    /// The first 8 characters of the text form.
    package var label: String { String(description.prefix(8)) }

    /// Runs in constant time.
    package static func == (left: Self, right: Self) -> Bool {
        (left.words.0 ^ right.words.0) | (left.words.1 ^ right.words.1) | (left.words.2 ^ right.words.2) | (left.words.3 ^ right.words.3)
            == 0
    }

    /// Compares the bytes in order.
    package static func < (left: Self, right: Self) -> Bool { left.words < right.words }

    /// Consistent with `==`.
    package func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(words.1)
        hasher.combine(words.2)
        hasher.combine(words.3)
    }
}

extension Digest256: Codable {
    /// Decodes the 32 bytes.
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let digest = Digest256(bytes: try container.decode([UInt8].self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "A digest has 32 bytes.")
        }
        self = digest
    }

    /// Encodes the 32 bytes.
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(bytes)
    }
}
