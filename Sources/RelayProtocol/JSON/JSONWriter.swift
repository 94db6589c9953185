// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Writes JSON on one line, value by value, with members in the order of the calls.
package struct JSONWriter {
    package private(set) var bytes: [UInt8] = []
    /// Whether the innermost object or array is still empty.
    private var isEmpty = true

    /// - Parameter capacity: The expected length of the text.
    package init(capacity: Int = 0) { bytes.reserveCapacity(capacity) }

    // MARK: Objects and arrays

    package mutating func object(_ members: (inout JSONWriter) -> Void) {
        bytes.append(UInt8(ascii: "{"))
        isEmpty = true
        members(&self)
        bytes.append(UInt8(ascii: "}"))
        isEmpty = false
    }

    package mutating func member(_ key: String, _ value: some JSONWritable) {
        begin(key)
        value.write(to: &self)
    }

    /// Omits the member if the value is `nil`.
    package mutating func member(_ key: String, _ value: (some JSONWritable)?) {
        if let value { member(key, value) }
    }

    package mutating func array(_ elements: some Sequence<some JSONWritable>) {
        bytes.append(UInt8(ascii: "["))
        isEmpty = true
        for element in elements {
            separate()
            element.write(to: &self)
        }
        bytes.append(UInt8(ascii: "]"))
        isEmpty = false
    }

    private mutating func begin(_ key: String) {
        separate()
        string(key)
        bytes.append(UInt8(ascii: ":"))
    }

    private mutating func separate() {
        if !isEmpty { bytes.append(UInt8(ascii: ",")) }
        isEmpty = false
    }

    // MARK: Scalars

    /// A number or a literal name.
    mutating func word(_ word: String) { bytes.append(contentsOf: word.utf8) }

    mutating func integer(_ number: Int64) { word(String(number)) }

    /// A string in quotes, with escapes where needed.
    mutating func string(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { text in
            // The loop has no branch, so that the compiler can vectorize it.
            var specials: UInt8 = 0
            for byte in text { specials |= JSONEscape.isSpecial(byte) }
            if specials == 0 {
                bytes.append(contentsOf: text)
            } else {
                for byte in text { JSONEscape.write(byte, to: &bytes) }
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    mutating func base64(_ content: [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        Base64.standard.append(content, to: &bytes)
        bytes.append(UInt8(ascii: "\""))
    }
}
