// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The escapes in a JSON string (RFC 8259 §7).
enum JSONEscape {
    /// The scalar of the escape at a position, and the length of the escape. Half a surrogate pair is an error.
    static func read(_ bytes: UnsafeBufferPointer<UInt8>, at position: Int) throws(JSONSyntaxError) -> (scalar: Unicode.Scalar, count: Int)
    {
        guard position + 1 < bytes.count else { throw JSONSyntaxError(.truncated, at: bytes.count) }
        switch bytes[position + 1] {
        case UInt8(ascii: "\""): return ("\"", 2)
        case UInt8(ascii: "\\"): return ("\\", 2)
        case UInt8(ascii: "/"): return ("/", 2)
        case UInt8(ascii: "b"): return ("\u{08}", 2)
        case UInt8(ascii: "f"): return ("\u{0C}", 2)
        case UInt8(ascii: "n"): return ("\n", 2)
        case UInt8(ascii: "r"): return ("\r", 2)
        case UInt8(ascii: "t"): return ("\t", 2)
        case UInt8(ascii: "u"):
            let first = try codeUnit(bytes, at: position)
            if let scalar = Unicode.Scalar(first) { return (scalar, 6) }
            // The first half of a surrogate pair needs the second half. The second half must not stand alone.
            guard first < 0xDC00, bytes[(position + 6)...].starts(with: #"\u"#.utf8) else {
                throw JSONSyntaxError(.invalidText, at: position)
            }
            let second = try codeUnit(bytes, at: position + 6)
            guard (0xDC00..<0xE000).contains(second),
                let scalar = Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
            else { throw JSONSyntaxError(.invalidText, at: position) }
            return (scalar, 12)
        default: throw JSONSyntaxError(.invalidSyntax, at: position + 1)
        }
    }

    /// A UTF-16 code unit: the four digits after `\u`.
    private static func codeUnit(_ bytes: UnsafeBufferPointer<UInt8>, at position: Int) throws(JSONSyntaxError) -> UInt32 {
        var unit: UInt32 = 0
        for place in position + 2..<position + 6 {
            guard place < bytes.count else { throw JSONSyntaxError(.truncated, at: place) }
            guard let value = Hexadecimal.value(ofDigit: bytes[place]) else { throw JSONSyntaxError(.invalidSyntax, at: place) }
            unit = unit << 4 | UInt32(value)
        }
        return unit
    }

    /// Passes the unescaped UTF-8 bytes of a part of a string to `append`, one by one.
    static func unescape(_ bytes: UnsafeBufferPointer<UInt8>, _ range: Range<Int>, _ append: (UInt8) -> Void) {
        var position = range.lowerBound
        while position < range.upperBound {
            if bytes[position] == UInt8(ascii: "\\"), let escape = try? read(bytes, at: position) {
                for byte in UTF8.encode(escape.scalar) ?? UTF8.encodedReplacementCharacter { append(byte) }
                position += escape.count
            } else {
                append(bytes[position])
                position += 1
            }
        }
    }

    /// Writes a byte of a string, as an escape if it needs one.
    static func write(_ byte: UInt8, to text: inout [UInt8]) {
        switch byte {
        case UInt8(ascii: "\""): text.append(contentsOf: "\\\"".utf8)
        case UInt8(ascii: "\\"): text.append(contentsOf: "\\\\".utf8)
        case 0x08: text.append(contentsOf: "\\b".utf8)
        case 0x09: text.append(contentsOf: "\\t".utf8)
        case 0x0A: text.append(contentsOf: "\\n".utf8)
        case 0x0C: text.append(contentsOf: "\\f".utf8)
        case 0x0D: text.append(contentsOf: "\\r".utf8)
        case 0..<0x20, 0x7F:
            text.append(contentsOf: "\\u00".utf8)
            text.append(Hexadecimal.digit(byte >> 4))
            text.append(Hexadecimal.digit(byte & 0xF))
        default: text.append(byte)
        }
    }

    /// Zero for a byte that needs no escape.
    @inline(__always) static func isSpecial(_ byte: UInt8) -> UInt8 {
        (byte < 0x20 ? 1 : 0) | (byte == UInt8(ascii: "\"") ? 1 : 0) | (byte == UInt8(ascii: "\\") ? 1 : 0) | (byte == 0x7F ? 1 : 0)
    }
}
