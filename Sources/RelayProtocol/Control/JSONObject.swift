// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A JSON object as it is written, member by member. For what is said so often that `Codable` would be most of the work.
struct JSONObject {
    private(set) var bytes: [UInt8] = []
    private var isEmpty = true

    /// - Parameter capacity: about how long it will be.
    init(capacity: Int) {
        bytes.reserveCapacity(capacity)
        bytes.append(UInt8(ascii: "{"))
    }

    mutating func put(_ key: StaticString, _ text: String) {
        begin(key)
        bytes.append(json: text)
    }

    mutating func put(_ key: StaticString, _ number: Int64) {
        begin(key)
        bytes.append(contentsOf: String(number).utf8)
    }

    mutating func put(_ key: StaticString, _ flag: Bool) {
        begin(key)
        bytes.append(contentsOf: (flag ? "true" : "false").utf8)
    }

    mutating func put<Kind>(_ key: StaticString, _ blob: Blob<Kind>) {
        begin(key)
        append(blob)
    }

    mutating func put<Kind>(_ key: StaticString, _ blobs: [Blob<Kind>]) {
        begin(key)
        bytes.append(UInt8(ascii: "["))
        for (index, blob) in blobs.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            append(blob)
        }
        bytes.append(UInt8(ascii: "]"))
    }

    mutating func put(_ key: StaticString, _ body: (inout JSONObject) -> Void) {
        begin(key)
        bytes.append(UInt8(ascii: "{"))
        isEmpty = true
        body(&self)
        end()
    }

    /// Nothing can be put behind it.
    mutating func end() {
        bytes.append(UInt8(ascii: "}"))
        isEmpty = false
    }

    private mutating func begin(_ key: StaticString) {
        if !isEmpty { bytes.append(UInt8(ascii: ",")) }
        isEmpty = false
        bytes.append(UInt8(ascii: "\""))
        key.withUTF8Buffer { bytes.append(contentsOf: $0) }
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
    }

    private mutating func append<Kind>(_ blob: Blob<Kind>) {
        bytes.append(UInt8(ascii: "\""))
        Base64.standard.append(blob.bytes, to: &bytes)
        bytes.append(UInt8(ascii: "\""))
    }
}

extension [UInt8] {
    /// A string in quotes, with what escapes it needs (RFC 8259 §7).
    mutating func append(json text: String) {
        append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { text in
            // Without a branch in it the loop takes many bytes at a time.
            var specials: UInt8 = 0
            for byte in text {
                specials |= (byte < 0x20 ? 1 : 0) | (byte == UInt8(ascii: "\"") ? 1 : 0) | (byte == UInt8(ascii: "\\") ? 1 : 0)
            }
            if specials == 0 {
                append(contentsOf: text)
            } else {
                for byte in text { append(escaping: byte) }
            }
        }
        append(UInt8(ascii: "\""))
    }

    private mutating func append(escaping byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""): append(contentsOf: "\\\"".utf8)
        case UInt8(ascii: "\\"): append(contentsOf: "\\\\".utf8)
        case 0x08: append(contentsOf: "\\b".utf8)
        case 0x09: append(contentsOf: "\\t".utf8)
        case 0x0A: append(contentsOf: "\\n".utf8)
        case 0x0C: append(contentsOf: "\\f".utf8)
        case 0x0D: append(contentsOf: "\\r".utf8)
        case 0..<0x20: append(contentsOf: (byte < 0x10 ? "\\u000" : "\\u00").utf8 + Array(String(byte, radix: 16).utf8))
        default: append(byte)
        }
    }
}
