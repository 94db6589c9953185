// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Writes an `Encodable` type as JSON in one line, its keys sorted: what Foundation's encoder would write, in a fraction of its time.
enum ControlFrameEncoder {
    static func encode(_ value: some Encodable) throws -> ByteBuffer {
        let node = Node()
        try value.encode(to: Place(node: node, codingPath: []))
        var bytes: [UInt8] = []
        bytes.reserveCapacity(512)
        node.write(to: &bytes)
        return ByteBuffer(bytes: bytes)
    }
}

/// A value that is being put together.
private final class Node {
    enum Content {
        case none
        case text(String)
        /// As it is written: a number, a word.
        case word(String)
        case object([(key: String, value: Node)])
        case array([Node])
    }

    var content = Content.none

    func member(_ key: String) -> Node {
        let node = Node()
        guard case .object(var members) = content else {
            content = .object([(key, node)])
            return node
        }
        content = .none
        // Of equal keys the last counts.
        members.removeAll { $0.key == key }
        members.append((key, node))
        content = .object(members)
        return node
    }

    var count: Int { if case .array(let elements) = content { elements.count } else { 0 } }

    func element() -> Node {
        let node = Node()
        guard case .array(var elements) = content else {
            content = .array([node])
            return node
        }
        content = .none
        elements.append(node)
        content = .array(elements)
        return node
    }

    func write(to bytes: inout [UInt8]) {
        switch content {
        case .none: bytes.append(contentsOf: "{}".utf8)
        case .text(let text): Self.write(text, to: &bytes)
        case .word(let word): bytes.append(contentsOf: word.utf8)
        case .object(let members):
            bytes.append(UInt8(ascii: "{"))
            for (index, member) in members.sorted(by: { $0.key < $1.key }).enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                Self.write(member.key, to: &bytes)
                bytes.append(UInt8(ascii: ":"))
                member.value.write(to: &bytes)
            }
            bytes.append(UInt8(ascii: "}"))
        case .array(let elements):
            bytes.append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                element.write(to: &bytes)
            }
            bytes.append(UInt8(ascii: "]"))
        }
    }

    private static func write(_ text: String, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { text in
            if text.allSatisfy({ $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }) {
                bytes.append(contentsOf: text)
            } else {
                for byte in text { write(escaping: byte, to: &bytes) }
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private static func write(escaping byte: UInt8, to bytes: inout [UInt8]) {
        switch byte {
        case UInt8(ascii: "\""): bytes.append(contentsOf: "\\\"".utf8)
        case UInt8(ascii: "\\"): bytes.append(contentsOf: "\\\\".utf8)
        case 0x08: bytes.append(contentsOf: "\\b".utf8)
        case 0x09: bytes.append(contentsOf: "\\t".utf8)
        case 0x0A: bytes.append(contentsOf: "\\n".utf8)
        case 0x0C: bytes.append(contentsOf: "\\f".utf8)
        case 0x0D: bytes.append(contentsOf: "\\r".utf8)
        case 0..<0x20: bytes.append(contentsOf: (byte < 0x10 ? "\\u000" : "\\u00").utf8 + Array(String(byte, radix: 16).utf8))
        default: bytes.append(byte)
        }
    }
}

private struct PlainKey: CodingKey {
    let stringValue: String
    let intValue: Int?

    init(stringValue: String) { (self.stringValue, intValue) = (stringValue, nil) }
    init(intValue: Int) { (stringValue, self.intValue) = ("\(intValue)", intValue) }
}

/// One value; it is its own single value container.
private struct Place: Encoder, SingleValueEncodingContainer {
    let node: Node
    let codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        if case .none = node.content { node.content = .object([]) }
        return KeyedEncodingContainer(Members<Key>(node: node, codingPath: codingPath))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        if case .none = node.content { node.content = .array([]) }
        return Elements(node: node, codingPath: codingPath)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    func encodeNil() { node.content = .word("null") }
    func encode(_ value: Bool) { node.content = .word(value ? "true" : "false") }
    func encode(_ value: String) { node.content = .text(value) }
    func encode(_ value: Float) throws { try encode(Double(value)) }

    func encode(_ value: Double) throws {
        guard value.isFinite else {
            throw EncodingError.invalidValue(value, .init(codingPath: codingPath, debugDescription: "JSON has no such number."))
        }
        node.content = .word("\(value)")
    }

    func encode<Integer: FixedWidthInteger & Encodable>(_ value: Integer) { node.content = .word("\(value)") }
    // The standard library's own default for these refuses every number.
    func encode(_ value: Int128) { node.content = .word("\(value)") }
    func encode(_ value: UInt128) { node.content = .word("\(value)") }
    func encode<T: Encodable>(_ value: T) throws { try value.encode(to: self) }
}

private struct Members<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let node: Node
    let codingPath: [any CodingKey]

    private func place(_ key: any CodingKey) -> Place { Place(node: node.member(key.stringValue), codingPath: codingPath + [key]) }

    func encodeNil(forKey key: Key) { place(key).encodeNil() }
    func encode(_ value: Bool, forKey key: Key) { place(key).encode(value) }
    func encode(_ value: String, forKey key: Key) { place(key).encode(value) }
    func encode<T: Encodable>(_ value: T, forKey key: Key) throws { try place(key).encode(value) }
    func encode(_ value: Int128, forKey key: Key) { place(key).encode(value) }
    func encode(_ value: UInt128, forKey key: Key) { place(key).encode(value) }
    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) -> KeyedEncodingContainer<Nested> {
        place(key).container(keyedBy: type)
    }
    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { place(key).unkeyedContainer() }
    func superEncoder() -> any Encoder { place(PlainKey(stringValue: "super")) }
    func superEncoder(forKey key: Key) -> any Encoder { place(key) }
}

private struct Elements: UnkeyedEncodingContainer {
    let node: Node
    let codingPath: [any CodingKey]

    var count: Int { node.count }

    private func place() -> Place { Place(node: node.element(), codingPath: codingPath + [PlainKey(intValue: node.count)]) }

    func encodeNil() { place().encodeNil() }
    func encode<T: Encodable>(_ value: T) throws { try place().encode(value) }
    func encode(_ value: Int128) { place().encode(value) }
    func encode(_ value: UInt128) { place().encode(value) }
    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        place().container(keyedBy: type)
    }
    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { place().unkeyedContainer() }
    func superEncoder() -> any Encoder { place() }
}
