// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Hexadecimal text (base16, RFC 4648 §8).
package enum Hexadecimal {
    /// The value of a digit in either case; `nil` for other characters.
    package static func value(ofDigit digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    /// The lower-case digit of a value from 0 to 15.
    package static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
    }

    /// Two digits for each byte, in lower case.
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        String(decoding: bytes.flatMap { [digit($0 >> 4), digit($0 & 0xF)] }, as: UTF8.self)
    }

    /// Reads digits in either case; `nil` for any other text.
    package static func decode(_ text: String) -> [UInt8]? {
        let digits = text.utf8.map { value(ofDigit: $0) }
        guard digits.count % 2 == 0 else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = digits[index], let low = digits[index + 1] else { return nil }
            bytes.append(high << 4 | low)
        }
        return bytes
    }
}
