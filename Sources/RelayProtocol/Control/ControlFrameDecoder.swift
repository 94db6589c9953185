// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Reads a `Decodable` type from JSON, as Foundation's decoder would, in a fraction of its time. Of equal keys the first counts.
struct ControlFrameDecoder {
    var userInfo: [CodingUserInfoKey: Any] = [:]

    func decode<Message: Decodable>(_ type: Message.Type, from bytes: [UInt8]) throws -> Message {
        do {
            let document = Document(index: try JSONIndex(bytes), userInfo: userInfo)
            return try Message(from: Place(document: document, index: 0, parentPath: [], key: nil))
        } catch is JSONIndex.Malformed {
            throw DecodingError.dataCorrupted(.init(codingPath: [], debugDescription: "not JSON, or nested too deep"))
        }
    }
}

private final class Document {
    let index: JSONIndex
    let userInfo: [CodingUserInfoKey: Any]

    init(index: JSONIndex, userInfo: [CodingUserInfoKey: Any]) { (self.index, self.userInfo) = (index, userInfo) }
}

private struct PlainKey: CodingKey {
    let stringValue: String
    let intValue: Int?

    init(stringValue: String) { (self.stringValue, intValue) = (stringValue, nil) }
    init(intValue: Int) { (stringValue, self.intValue) = ("\(intValue)", intValue) }
}

/// One value; it is its own single value container.
private struct Place: Decoder, SingleValueDecodingContainer {
    let document: Document
    let index: Int
    /// The path is put together only when somebody asks for it: most values are never complained of.
    let parentPath: [any CodingKey]
    let key: (any CodingKey)?

    var node: JSONIndex.Node { document.index.nodes[index] }
    var codingPath: [any CodingKey] { key.map { parentPath + [$0] } ?? parentPath }
    var userInfo: [CodingUserInfoKey: Any] { document.userInfo }

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

private struct Members<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let codingPath: [any CodingKey]
    private let document: Document
    /// Of the keys; the values stand behind.
    private let keys: [Int]
    /// Where there are many; else it is quicker to look at each.
    private let places: [String: Int]?

    private static var few: Int { 16 }

    init(_ place: Place) {
        let index = place.document.index
        codingPath = place.codingPath
        document = place.document
        var keys: [Int] = []
        var key = place.index + 1
        while key < place.node.next {
            keys.append(key)
            key = index.nodes[key + 1].next
        }
        self.keys = keys
        places = keys.count <= Self.few ? nil : Dictionary(keys.map { (index.text(index.nodes[$0]), $0) }) { first, _ in first }
    }

    var allKeys: [Key] {
        let names = places.map { Array($0.keys) } ?? keys.map { document.index.text(document.index.nodes[$0]) }
        return names.compactMap { Key(stringValue: $0) }
    }

    private func find(_ key: any CodingKey) -> Place? {
        let name = key.stringValue
        let found = places.map { $0[name] } ?? keys.first { document.index.isText(document.index.nodes[$0], name) }
        return found.map { Place(document: document, index: $0 + 1, parentPath: codingPath, key: key) }
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
    func superDecoder() throws -> any Decoder { try place(PlainKey(stringValue: "super")) }
    func superDecoder(forKey key: Key) throws -> any Decoder { try place(key) }
}

private struct Elements: UnkeyedDecodingContainer {
    let codingPath: [any CodingKey]
    private let document: Document
    private let elements: [Int]
    private(set) var currentIndex = 0

    init(_ place: Place) {
        codingPath = place.codingPath
        document = place.document
        var elements: [Int] = []
        var element = place.index + 1
        while element < place.node.next {
            elements.append(element)
            element = place.document.index.nodes[element].next
        }
        self.elements = elements
    }

    var count: Int? { elements.count }
    var isAtEnd: Bool { currentIndex == elements.count }

    private func current(_ type: Any.Type) throws -> Place {
        let key = PlainKey(intValue: currentIndex)
        guard !isAtEnd else {
            throw DecodingError.valueNotFound(type, .init(codingPath: codingPath + [key], debugDescription: "There are no more."))
        }
        return Place(document: document, index: elements[currentIndex], parentPath: codingPath, key: key)
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
