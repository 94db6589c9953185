// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Reads a `Decodable` type from JSON, as Foundation's decoder would, in a fraction of its time. Of equal keys the first counts.
struct ControlFrameDecoder {
    var userInfo: [CodingUserInfoKey: Any] = [:]

    func decode<Message: Decodable>(_ type: Message.Type, from bytes: [UInt8]) throws -> Message {
        let index: JSONIndex
        do {
            index = try JSONIndex(bytes)
        } catch {
            throw DecodingError.dataCorrupted(.init(codingPath: [], debugDescription: ControlFrameError.notJSON))
        }
        return try decode(type, from: index)
    }

    func decode<Message: Decodable>(_ type: Message.Type, from index: JSONIndex) throws -> Message {
        try Message(from: Place(document: Document(index: index, userInfo: userInfo), index: 0))
    }
}

private final class Document {
    let index: JSONIndex
    let userInfo: [CodingUserInfoKey: Any]

    init(index: JSONIndex, userInfo: [CodingUserInfoKey: Any]) { (self.index, self.userInfo) = (index, userInfo) }

    /// Where a value is. It is looked for only when somebody asks, since most values are never complained of.
    func path(to value: Int) -> [any CodingKey] {
        var path: [any CodingKey] = []
        var place = Place(document: self, index: 0)
        while place.index < value {
            let isObject = place.node.kind == .object
            // The last that begins no later.
            guard let (count, entry) = place.entries.prefix(while: { $0 <= value }).enumerated().suffix(1).first else { break }
            path.append(isObject ? PathKey(stringValue: index.text(index.nodes[entry])) : PathKey(intValue: count))
            place = Place(document: self, index: isObject ? entry + 1 : entry)
        }
        return path
    }
}

/// One value; it is its own single value container.
private struct Place: Decoder, SingleValueDecodingContainer {
    let document: Document
    let index: Int

    var node: JSONIndex.Node { document.index.nodes[index] }
    var codingPath: [any CodingKey] { document.path(to: index) }
    var userInfo: [CodingUserInfoKey: Any] { document.userInfo }

    /// What is in an object or array: of an object the keys, each with its value behind it.
    var entries: Entries {
        Entries(nodes: document.index.nodes, offset: node.kind == .object ? 1 : 0, place: index + 1, end: node.next)
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        try expect(.object, [String: Any].self)
        return KeyedDecodingContainer(Members<Key>(self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try expect(.array, [Any].self)
        return Elements(self)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }

    private func expect(_ kind: JSONIndex.Kind, _ type: Any.Type) throws {
        guard node.kind != kind else { return }
        let context = DecodingError.Context(codingPath: codingPath, debugDescription: "There is another kind of value here.")
        throw node.kind == .null ? DecodingError.valueNotFound(type, context) : DecodingError.typeMismatch(type, context)
    }

    func decodeNil() -> Bool { node.kind == .null }

    func decode(_ type: Bool.Type) throws -> Bool {
        if node.kind == .no { return false }
        try expect(.yes, type)
        return true
    }

    func decode(_ type: String.Type) throws -> String {
        try expect(.string, type)
        return document.index.text(node)
    }

    func decode(_ type: Double.Type) throws -> Double {
        try expect(.number, type)
        guard let number = Double(document.index.text(node)), number.isFinite else { throw outOfRange }
        return number
    }

    func decode(_ type: Float.Type) throws -> Float {
        let number = Float(try decode(Double.self))
        guard number.isFinite else { throw outOfRange }
        return number
    }

    func decode<Integer: FixedWidthInteger & Decodable>(_ type: Integer.Type) throws -> Integer { try integer(type) }
    // The standard library's own default for these refuses every number.
    func decode(_ type: Int128.Type) throws -> Int128 { try integer(type) }
    func decode(_ type: UInt128.Type) throws -> UInt128 { try integer(type) }

    private func integer<Integer: FixedWidthInteger>(_ type: Integer.Type) throws -> Integer {
        try expect(.number, type)
        let text = document.index.text(node)
        // One with a fraction or an exponent may be whole all the same.
        guard let number = Integer(text) ?? (try? decode(Double.self)).flatMap({ Integer(fitting: $0) }) else {
            throw outOfRange
        }
        return number
    }

    private var outOfRange: DecodingError {
        .dataCorrupted(.init(codingPath: codingPath, debugDescription: "The number does not fit."))
    }

    func decode<T: Decodable>(_ type: T.Type) throws -> T { try T(from: self) }
}

extension FixedWidthInteger {
    /// Nothing beyond what a double holds exactly.
    fileprivate init?(fitting number: Double) {
        guard number.magnitude < 0x1p53 else { return nil }
        self.init(exactly: number)
    }
}

private struct Entries: Sequence, IteratorProtocol {
    let nodes: [JSONIndex.Node]
    /// From an entry to the value that ends it.
    let offset: Int
    var place: Int
    let end: Int

    mutating func next() -> Int? {
        guard place < end else { return nil }
        defer { place = nodes[place + offset].next }
        return place
    }
}

private struct Members<Key: CodingKey>: KeyedDecodingContainerProtocol {
    private let object: Place
    /// Of the keys, where there are many; else it is quicker to look at each.
    private let places: [String: Int]?

    private static var few: Int { 16 }

    init(_ object: Place) {
        self.object = object
        let index = object.document.index
        let isLarge = object.entries.dropFirst(Self.few).contains { _ in true }
        places = isLarge ? Dictionary(object.entries.map { (index.text(index.nodes[$0]), $0) }) { first, _ in first } : nil
    }

    var codingPath: [any CodingKey] { object.codingPath }

    var allKeys: [Key] {
        let index = object.document.index
        let names = places.map { Array($0.keys) } ?? object.entries.map { index.text(index.nodes[$0]) }
        return names.compactMap { Key(stringValue: $0) }
    }

    private func find(_ key: any CodingKey) -> Place? {
        let (name, index) = (key.stringValue, object.document.index)
        let found = places.map { $0[name] } ?? object.entries.first { index.isText(index.nodes[$0], name) }
        // The value stands behind its key.
        return found.map { Place(document: object.document, index: $0 + 1) }
    }

    private func place(_ key: any CodingKey) throws -> Place {
        guard let place = find(key) else {
            throw DecodingError.keyNotFound(key, .init(codingPath: codingPath, debugDescription: "There is no such key."))
        }
        return place
    }

    func contains(_ key: Key) -> Bool { find(key) != nil }
    func decodeNil(forKey key: Key) throws -> Bool { try place(key).decodeNil() }
    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try place(key).decode(type) }
    func decode(_ type: String.Type, forKey key: Key) throws -> String { try place(key).decode(type) }
    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T { try place(key).decode(type) }
    func decode(_ type: Int128.Type, forKey key: Key) throws -> Int128 { try place(key).decode(type) }
    func decode(_ type: UInt128.Type, forKey key: Key) throws -> UInt128 { try place(key).decode(type) }
    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) throws -> KeyedDecodingContainer<Nested> {
        try place(key).container(keyedBy: type)
    }
    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { try place(key).unkeyedContainer() }
    func superDecoder() throws -> any Decoder { try place(PathKey(stringValue: "super")) }
    func superDecoder(forKey key: Key) throws -> any Decoder { try place(key) }
}

private struct Elements: UnkeyedDecodingContainer {
    private let array: Place
    private let elements: [Int]
    private(set) var currentIndex = 0

    init(_ array: Place) {
        self.array = array
        elements = Array(array.entries)
    }

    var codingPath: [any CodingKey] { array.codingPath }
    var count: Int? { elements.count }
    var isAtEnd: Bool { currentIndex == elements.count }

    private func current(_ type: Any.Type) throws -> Place {
        guard !isAtEnd else {
            let path = codingPath + [PathKey(intValue: currentIndex)]
            throw DecodingError.valueNotFound(type, .init(codingPath: path, debugDescription: "There are no more."))
        }
        return Place(document: array.document, index: elements[currentIndex])
    }

    private mutating func next<T>(_ type: T.Type, _ read: (Place) throws -> T) throws -> T {
        let value = try read(try current(type))
        currentIndex += 1
        return value
    }

    mutating func decodeNil() throws -> Bool {
        guard try current(Any?.self).decodeNil() else { return false }
        currentIndex += 1
        return true
    }
    mutating func decode<T: Decodable>(_ type: T.Type) throws -> T { try next(type) { try $0.decode(type) } }
    mutating func decode(_ type: Int128.Type) throws -> Int128 { try next(type) { try $0.decode(type) } }
    mutating func decode(_ type: UInt128.Type) throws -> UInt128 { try next(type) { try $0.decode(type) } }
    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) throws -> KeyedDecodingContainer<Nested> {
        try next(KeyedDecodingContainer<Nested>.self) { try $0.container(keyedBy: type) }
    }
    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try next((any UnkeyedDecodingContainer).self) { try $0.unkeyedContainer() }
    }
    mutating func superDecoder() throws -> any Decoder { try next((any Decoder).self) { $0 } }
}
