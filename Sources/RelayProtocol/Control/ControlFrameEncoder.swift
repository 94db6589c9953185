// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Writes an `Encodable` type as JSON in one line, its members in the order in which it encodes them: what Foundation's encoder would write,
/// in a fraction of its time. Each value goes behind the one before, so a type has to be done with one member before it begins the next,
/// and encode each once.
enum ControlFrameEncoder {
    static func encode(_ value: some Encodable) throws -> ByteBuffer {
        let text = JSONText()
        try value.encode(to: Place(text: text, depth: 0, value: 0))
        text.close(to: 0)
        return ByteBuffer(bytes: text.bytes)
    }
}

/// What is written so far. One encoder at a time writes, so nothing is checked for two at once.
private final class JSONText {
    /// An object or array that may go on.
    struct Level {
        /// Which value it is.
        let value: Int
        let end: UInt8
        /// Which of its values was begun last; 0 while there is none.
        var last = 0
    }

    @exclusivity(unchecked) private(set) var bytes: [UInt8] = []
    @exclusivity(unchecked) private(set) var levels: [Level] = []
    /// Values are counted, the whole text being 0.
    @exclusivity(unchecked) private var values = 0
    /// The value that was begun last has not said what it is.
    @exclusivity(unchecked) private var isValueOpen = true

    init() {
        bytes.reserveCapacity(1_024)
        levels.reserveCapacity(8)
    }

    /// Whether a value can still be written.
    private func isCurrent(_ value: Int, depth: Int) -> Bool {
        depth == 0 ? value == 0 : levels.count >= depth && levels[depth - 1].last == value
    }

    /// Ends what is within.
    func close(to depth: Int) {
        // Somebody had nothing to say.
        if isValueOpen { bytes.append(contentsOf: "{}".utf8) }
        isValueOpen = false
        while levels.count > depth {
            bytes.append(levels.removeLast().end)
        }
    }

    /// Makes a value an object or array; `false` if it cannot be one.
    func open(_ value: Int, depth: Int, _ start: Unicode.Scalar, _ end: Unicode.Scalar) -> Bool {
        guard isCurrent(value, depth: depth) else { return false }
        if levels.count > depth, levels[depth].value == value {
            // Once more: the members go on.
            return levels[depth].end == UInt8(ascii: end)
        }
        guard isValueOpen else { return false }
        isValueOpen = false
        bytes.append(UInt8(ascii: start))
        levels.append(Level(value: value, end: UInt8(ascii: end)))
        return true
    }

    /// Begins a value in an object or array.
    func begin(_ key: String?, in container: Int, depth: Int) throws -> Int {
        guard levels.count > depth, levels[depth].value == container else { throw outOfOrder }
        close(to: depth + 1)
        if levels[depth].last > 0 { bytes.append(UInt8(ascii: ",")) }
        if let key {
            bytes.append(json: key)
            bytes.append(UInt8(ascii: ":"))
        }
        values += 1
        levels[depth].last = values
        isValueOpen = true
        return values
    }

    private func expectValue(_ value: Int, depth: Int) throws {
        guard isValueOpen, isCurrent(value, depth: depth) else { throw outOfOrder }
        isValueOpen = false
    }

    /// A number, or a word.
    func put(_ word: String, as value: Int, depth: Int) throws {
        try expectValue(value, depth: depth)
        bytes.append(contentsOf: word.utf8)
    }

    func put(text: String, as value: Int, depth: Int) throws {
        try expectValue(value, depth: depth)
        bytes.append(json: text)
    }

    private var outOfOrder: EncodingError {
        .invalidValue(self, .init(codingPath: [], debugDescription: "Another value has been begun, or this one is there."))
    }
}

/// Where one value goes; it is its own single value container. It keeps no path: nobody outside hears what could not be written.
private struct Place: Encoder, SingleValueEncodingContainer {
    let text: JSONText
    let depth: Int
    let value: Int
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(Members<Key>(place: text.open(value, depth: depth, "{", "}") ? self : nowhere))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        Elements(place: text.open(value, depth: depth, "[", "]") ? self : nowhere)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    /// Whoever writes here is told that it is too late.
    var nowhere: Place { Place(text: text, depth: depth, value: -1) }

    /// Begins a value in this one.
    func begin(_ key: String?) throws -> Place {
        Place(text: text, depth: depth + 1, value: try text.begin(key, in: value, depth: depth))
    }

    func put(_ word: String) throws { try text.put(word, as: value, depth: depth) }

    func encodeNil() throws { try put("null") }
    func encode(_ value: Bool) throws { try put(value ? "true" : "false") }
    func encode(_ value: String) throws { try text.put(text: value, as: self.value, depth: depth) }
    func encode(_ value: Float) throws { try encode(Double(value)) }

    func encode(_ value: Double) throws {
        guard value.isFinite else {
            throw EncodingError.invalidValue(value, .init(codingPath: codingPath, debugDescription: "JSON has no such number."))
        }
        try put("\(value)")
    }

    func encode<Integer: FixedWidthInteger & Encodable>(_ value: Integer) throws { try put("\(value)") }
    // The standard library's own default for these refuses every number.
    func encode(_ value: Int128) throws { try put("\(value)") }
    func encode(_ value: UInt128) throws { try put("\(value)") }
    func encode<T: Encodable>(_ value: T) throws { try value.encode(to: self) }
}

private struct Members<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let place: Place
    var codingPath: [any CodingKey] { [] }

    private func begin(_ key: Key) throws -> Place { try place.begin(key.stringValue) }
    private func nested(_ key: String) -> Place { (try? place.begin(key)) ?? place.nowhere }

    func encodeNil(forKey key: Key) throws { try begin(key).encodeNil() }
    func encode(_ value: Bool, forKey key: Key) throws { try begin(key).encode(value) }
    func encode(_ value: String, forKey key: Key) throws { try begin(key).encode(value) }
    func encode<Integer: FixedWidthInteger & Encodable>(_ value: Integer, forKey key: Key) throws { try begin(key).encode(value) }
    func encode<T: Encodable>(_ value: T, forKey key: Key) throws { try value.encode(to: begin(key)) }
    func encode(_ value: Int128, forKey key: Key) throws { try begin(key).encode(value) }
    func encode(_ value: UInt128, forKey key: Key) throws { try begin(key).encode(value) }
    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) -> KeyedEncodingContainer<Nested> {
        nested(key.stringValue).container(keyedBy: type)
    }
    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { nested(key.stringValue).unkeyedContainer() }
    func superEncoder() -> any Encoder { nested("super") }
    func superEncoder(forKey key: Key) -> any Encoder { nested(key.stringValue) }
}

private struct Elements: UnkeyedEncodingContainer {
    let place: Place
    private(set) var count = 0
    var codingPath: [any CodingKey] { [] }

    init(place: Place) { self.place = place }

    private mutating func begin() throws -> Place {
        count += 1
        return try place.begin(nil)
    }
    private mutating func nested() -> Place { (try? begin()) ?? place.nowhere }

    mutating func encodeNil() throws { try begin().encodeNil() }
    mutating func encode<T: Encodable>(_ value: T) throws { try value.encode(to: begin()) }
    mutating func encode(_ value: Int128) throws { try begin().encode(value) }
    mutating func encode(_ value: UInt128) throws { try begin().encode(value) }
    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        nested().container(keyedBy: type)
    }
    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { nested().unkeyedContainer() }
    mutating func superEncoder() -> any Encoder { nested() }
}
