// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

// The mapping is lossless in both directions. Text, booleans, arrays and sets map to the corresponding JSON values. Integers are numbers
// without a fraction or exponent, doubles are numbers with one. A value without a JSON form is an object with one key, its tag:
// `{"$int": "…"}` beyond ±(2^53 − 1), `{"$double": "NaN" | "Infinity" | "-Infinity"}`, `{"$date": seconds since 1970}`,
// `{"$uuid": "…"}` and `{"$data": base64}`. A key of a set that begins with `$` gets a second `$` in front.

extension ValueSet {
    /// The message as JSON on one line.
    /// - Throws: The error of encoding the message as CBOR: a mixed array, an infinite date, or too many levels or values.
    public func json() throws(ValueSetError) -> String {
        _ = try encodedSize()
        var json = JSONWriter()
        write(to: &json)
        return String(decoding: json.bytes, as: UTF8.self)
    }
}

/// The tags of values that have no JSON form.
enum JSONTag: String {
    case int = "$int"
    case double = "$double"
    case date = "$date"
    case uuid = "$uuid"
    case data = "$data"

    static let exactIntegers: ClosedRange<Int64> = -(1 << 53 - 1)...(1 << 53 - 1)
    /// The value of the tag's object; `nil` if its content is invalid.
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

    // Each value has exactly one text: no sign or zero in front, no unused bits at the end.

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

    /// Whether an unmodified key from JSON is a tag's key.
    static func isTag(_ key: String) -> Bool { needsEscape(key) && !needsEscape(key.utf8.dropFirst()) }

    /// Whether a key of a set gets a `$` in front. It compares bytes, because a combining mark after the `$` would hide it from a
    /// comparison of characters.
    static func needsEscape(_ key: String) -> Bool { needsEscape(key.utf8[...]) }

    private static func needsEscape(_ key: Substring.UTF8View) -> Bool { key.first == UInt8(ascii: "$") }
}

extension ValueSet: JSONWritable {
    package func write(to json: inout JSONWriter) {
        json.object { json in
            for entry in entries { json.member(JSONTag.needsEscape(entry.key) ? "$" + entry.key : entry.key, entry.value) }
        }
    }
}

extension ValueSet.Value: JSONWritable {
    package func write(to json: inout JSONWriter) {
        func tag(_ tag: JSONTag, _ content: some JSONWritable) { json.object { $0.member(tag.rawValue, content) } }
        switch self {
        case .string(let value): json.string(value)
        case .bool(let value): value.write(to: &json)
        case .int(let value) where JSONTag.exactIntegers.contains(value): json.integer(value)
        case .int(let value): tag(.int, "\(value)")
        case .uint(let value): tag(.int, "\(value)")
        case .double(let value) where value.isFinite: json.word("\(value)")
        case .double(let value): tag(.double, value.isNaN ? "NaN" : value < 0 ? "-Infinity" : "Infinity")
        case .date(let value): tag(.date, ValueSet.Value.double(value.timeIntervalSince1970))
        case .uuid(let value): tag(.uuid, value.uuidString.lowercased())
        case .data(let value): tag(.data, Base64.standard.encode(value))
        case .array(let values): json.array(values)
        case .valueSet(let set): set.write(to: &json)
        }
    }
}
