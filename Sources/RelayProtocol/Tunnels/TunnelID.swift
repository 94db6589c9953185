// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Identifies a tunnel: 16 random bytes. The text form is 32 lower-case hexadecimal digits.
package struct TunnelID: TextIdentifier {
    private let high: UInt64
    private let low: UInt64

    /// Generates a random id.
    package init(using random: inout some RandomNumberGenerator) {
        self.high = random.next()
        self.low = random.next()
    }

    /// The id with these 16 bytes; `nil` for any other number of bytes.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        self.high = bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        self.low = bytes.suffix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// Parses the text form; `nil` if it is invalid.
    package init?(_ description: String) {
        guard description.utf8.count == 32, let bytes = Hexadecimal.decode(description) else { return nil }
        self.init(bytes: bytes)
        // One id has one text.
        guard self.description.utf8.elementsEqual(description.utf8) else { return nil }
    }

    /// The 16 bytes.
    package var bytes: [UInt8] {
        [high, low].flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * $0)) } }
    }

    /// 32 lower-case hexadecimal digits.
    package var description: String { Hexadecimal.encode(bytes) }

    /// Compares the bytes.
    package static func < (left: Self, right: Self) -> Bool { (left.high, left.low) < (right.high, right.low) }
}
