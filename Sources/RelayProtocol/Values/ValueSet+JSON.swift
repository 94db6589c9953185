// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// The mapping, lossless both ways: text, booleans, arrays and sets as themselves; integers as numbers without and doubles
// as numbers with a fraction or exponent. What JSON has no form for is an object with one key, its tag:
// `{"$int": "…"}` beyond ±(2^53 − 1), `{"$double": "NaN" | "Infinity" | "-Infinity"}`, `{"$date": seconds since 1970}`,
// `{"$uuid": "…"}` and `{"$data": base64}`. A key of a set that begins with `$` is written with a second one in front.

extension ValueSet {
    /// Reads a message from JSON text in UTF-8.
    /// - Throws: what is wrong, with the key path and the byte.
    public init(json: some Sequence<UInt8>) throws(ValueSetError) {
        var parser = JSONParser(Array(json))
        self = try parser.message()
    }

    /// Reads a message from JSON text.
    /// - Throws: what is wrong, with the key path and the byte.
    public init(json: String) throws(ValueSetError) {
        try self.init(json: json.utf8)
    }

    /// The message as JSON on one line.
    /// - Throws: what a message cannot hold, as when it is sent: a mixed array, an infinite date, too deep a nesting.
    public func json() throws(ValueSetError) -> String {
        _ = try encodedSize()
        var writer = JSONWriter()
        writer.write(self)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

/// The objects that stand for what JSON has no form for.
enum JSONTag: String {
    case int = "$int"
    case double = "$double"
    case date = "$date"
    case uuid = "$uuid"
    case data = "$data"

    static let exactIntegers: ClosedRange<Int64> = -(1 << 53 - 1)...(1 << 53 - 1)
    /// What the tag's object stands for, if its content fits.
    func value(of content: ValueSet.Value) -> ValueSet.Value? {
        switch (self, content) {
        case (.int, .string(let text)): Self.integer(text)
        case (.double, .string("NaN")): .double(.nan)
        case (.double, .string("Infinity")): .double(.infinity)
        case (.double, .string("-Infinity")): .double(-.infinity)
        case (.date, .int), (.date, .double): Self.date(content)
        case (.uuid, .string(let text)): UUID(uuidString: text).map { .uuid($0) }
        case (.data, .string(let text)): Self.data(text)
        default: nil
        }
    }

    // One value has one text: no sign or zero in front, no stray bits behind.

    private static func integer(_ text: String) -> ValueSet.Value? {
        guard let value: ValueSet.Value = Int64(text).map({ .int($0) }) ?? UInt64(text).map({ .uint($0) }) else { return nil }
        let canonical = value.int64.map { "\($0)" } ?? value.uint64.map { "\($0)" }
        return canonical == text ? value : nil
    }

    private static func date(_ content: ValueSet.Value) -> ValueSet.Value? {
        guard let seconds = content.double, seconds.isFinite else { return nil }
        return .date(Date(timeIntervalSince1970: seconds))
    }

    private static func data(_ text: String) -> ValueSet.Value? {
        var text = text
        return text.withUTF8(Base64.standard.decode).map { .data($0) }
    }

    /// Whether a key, as it is written, is that of a tag and not of a set.
    static func isTag(_ key: String) -> Bool { needsEscape(key) && !needsEscape(key.utf8.dropFirst()) }

    /// Whether a key of a set is written with a `$` in front. By bytes: a combining mark behind the sign changes nothing.
    static func needsEscape(_ key: String) -> Bool { needsEscape(key.utf8[...]) }

    private static func needsEscape(_ key: Substring.UTF8View) -> Bool { key.first == UInt8(ascii: "$") }
}

private struct JSONWriter {
    private(set) var bytes: [UInt8] = []

    mutating func write(_ set: ValueSet) {
        bytes.append(UInt8(ascii: "{"))
        for (index, entry) in set.entries.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            text(JSONTag.needsEscape(entry.key) ? "$" + entry.key : entry.key)
            bytes.append(UInt8(ascii: ":"))
            write(entry.value)
        }
        bytes.append(UInt8(ascii: "}"))
    }

    private mutating func write(_ value: ValueSet.Value) {
        switch value {
        case .string(let value): text(value)
        case .bool(let value): bytes.append(contentsOf: (value ? "true" : "false").utf8)
        case .int(let value) where JSONTag.exactIntegers.contains(value): bytes.append(contentsOf: "\(value)".utf8)
        case .int(let value): tag(.int) { $0.text("\(value)") }
        case .uint(let value): tag(.int) { $0.text("\(value)") }
        case .double(let value) where value.isFinite: bytes.append(contentsOf: "\(value)".utf8)
        case .double(let value): tag(.double) { $0.text(value.isNaN ? "NaN" : value < 0 ? "-Infinity" : "Infinity") }
        case .date(let value): tag(.date) { $0.bytes.append(contentsOf: "\(value.timeIntervalSince1970)".utf8) }
        case .uuid(let value): tag(.uuid) { $0.text(value.uuidString.lowercased()) }
        case .data(let value): tag(.data) { $0.text(Base64.standard.encode(value)) }
        case .array(let values):
            bytes.append(UInt8(ascii: "["))
            for (index, value) in values.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                write(value)
            }
            bytes.append(UInt8(ascii: "]"))
        case .valueSet(let set): write(set)
        }
    }

    private mutating func tag(_ tag: JSONTag, content: (inout JSONWriter) -> Void) {
        bytes.append(contentsOf: "{\"\(tag.rawValue)\":".utf8)
        content(&self)
        bytes.append(UInt8(ascii: "}"))
    }

    private mutating func text(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""): bytes.append(contentsOf: "\\\"".utf8)
            case UInt8(ascii: "\\"): bytes.append(contentsOf: "\\\\".utf8)
            case 0x0A: bytes.append(contentsOf: "\\n".utf8)
            case 0x0D: bytes.append(contentsOf: "\\r".utf8)
            case 0x09: bytes.append(contentsOf: "\\t".utf8)
            case 0..<0x20, 0x7F:
                bytes.append(contentsOf: "\\u00".utf8)
                bytes.append(contentsOf: [byte >> 4, byte & 15].map { $0 < 10 ? UInt8(ascii: "0") + $0 : UInt8(ascii: "a") + $0 - 10 })
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
