// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Writes JSON on one line, value by value; members in the order in which they are given.
package struct JSONWriter {
    package private(set) var bytes: [UInt8] = []
    /// Nothing was written yet in the innermost object or array.
    private var isEmpty = true

    /// - Parameter capacity: About how long the text becomes.
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

    /// Leaves the member out if there is no value.
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

    /// A number, or a word.
    mutating func word(_ word: String) { bytes.append(contentsOf: word.utf8) }

    mutating func integer(_ number: Int64) { word(String(number)) }

    /// A string in quotes, with the escapes it needs.
    mutating func string(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { text in
            // Without a branch in it the loop takes many bytes at a time.
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
