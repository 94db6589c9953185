// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Names and values of a form (`application/x-www-form-urlencoded`).
package enum FormCoding {
    /// Percent-encodes all bytes except RFC 3986's unreserved characters.
    package static func encode(_ text: String) -> String {
        text.utf8.map { byte in
            switch byte {
            case _ where isASCIIAlphanumeric(byte), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                String(UnicodeScalar(byte))
            default: "%" + Hexadecimal.encode([byte]).uppercased()
            }
        }.joined()
    }

    /// `nil` if a `%` is not followed by two hexadecimal digits, or if the result is not UTF-8 or has a control character: such a text is
    /// shown, compared and stored in different ways by different programs. A plus sign is a space.
    package static func decode(_ bytes: some Sequence<UInt8>) -> String? {
        var decoded: [UInt8] = []
        var rest = bytes.makeIterator()
        while let byte = rest.next() {
            switch byte {
            case UInt8(ascii: "+"): decoded.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard let high = rest.next().flatMap(Hexadecimal.value), let low = rest.next().flatMap(Hexadecimal.value) else {
                    return nil
                }
                decoded.append(high << 4 | low)
            default: decoded.append(byte)
            }
        }
        guard let text = String(validating: decoded, as: UTF8.self), !text.hasControlCharacters else { return nil }
        return text
    }
}
