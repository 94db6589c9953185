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
        let digits = Array(description.utf8)
        guard digits.count == 32 else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: 32, by: 2) {
            guard let upper = TunnelID.value(ofDigit: digits[index]), let lower = TunnelID.value(ofDigit: digits[index + 1]) else {
                return nil
            }
            bytes.append(upper << 4 | lower)
        }
        self.init(bytes: bytes)
    }

    private static func value(ofDigit digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }

    /// The 16 bytes.
    package var bytes: [UInt8] {
        [high, low].flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * $0)) } }
    }

    /// 32 lower-case hexadecimal digits.
    package var description: String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// Compares the bytes.
    package static func < (left: Self, right: Self) -> Bool { (left.high, left.low) < (right.high, right.low) }
}
