// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// Encodes any `Encodable` type as a message.
///
/// Numbers, text, `Date`, `UUID`, `Data`, `[UInt8]` and `URL` become the value of their kind, arrays become an array, and types with keys
/// become a nested set. A `nil` property is omitted. A value that a message cannot contain is an `EncodingError.invalidValue` with its
/// coding path: an integer outside −2^63 … 2^64 − 1, `nil` or values of different kinds in an array, a top level without keys.
public struct ValueSetEncoder: Sendable {
    /// Passed to the type's `encode(to:)`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// An encoder without user information.
    public init() {}

    /// Encodes a value as a message.
    public func encode(_ value: some Encodable) throws -> ValueSet {
        let node = EncodedNode()
        try NodeEncoder(node: node, codingPath: [], userInfoValues: userInfo).encode(value)
        guard case .valueSet(let set)? = try node.value(codingPath: []) else {
            throw EncodingError.invalidValue(value, .init(codingPath: [], debugDescription: "A message has keys at its top level."))
        }
        return set
    }
}

/// A place that an encoder fills. It is a class, because a type may write to a nested container after the container was added to its
/// parent.
private final class EncodedNode {
    private enum Content {
        case nothing
        case value(ValueSet.Value)
        case keyed([(key: String, place: Place)])
        case unkeyed([Place])
    }

    /// The content of a place. A value that is known at once needs no node.
    enum Place {
        case value(ValueSet.Value)
        case node(EncodedNode)

        func value(codingPath: [any CodingKey], _ key: PathKey) throws -> ValueSet.Value? {
            switch self {
            case .value(let value): value
            case .node(let node): try node.value(codingPath: codingPath + [key])
            }
        }
    }

    private var content: Content = .nothing

    /// The encoded value; `nil` if nothing was encoded, or an optional without a value.
    func value(codingPath: [any CodingKey]) throws -> ValueSet.Value? {
        switch content {
        case .nothing: return nil
        case .value(let value): return value
        case .keyed(let places):
            var pairs: [ValueSet.Element] = []
            pairs.reserveCapacity(places.count)
            for (key, place) in places {
                if let value = try place.value(codingPath: codingPath, PathKey(stringValue: key)) { pairs.append((key, value)) }
            }
            return .valueSet(ValueSet(pairs))
        case .unkeyed(let places):
            var values: [ValueSet.Value] = []
            values.reserveCapacity(places.count)
            for (index, place) in places.enumerated() {
                func refuse(_ reason: String) -> EncodingError {
                    let path = codingPath + [PathKey(intValue: index)]
                    return .invalidValue(index, .init(codingPath: path, debugDescription: reason))
                }
                guard let value = try place.value(codingPath: codingPath, PathKey(intValue: index)) else {
                    throw refuse("An array in a message holds no nil.")
                }
                if let first = values.first, first.kind != value.kind {
                    throw refuse("An array in a message holds values of one kind; this is \(value.kind), the first is \(first.kind).")
                }
                values.append(value)
            }
            return .array(values)
        }
    }

    func set(_ value: ValueSet.Value) { content = .value(value) }

    func becomeKeyed() {
        if case .keyed = content { return }
        content = .keyed([])
    }

    func becomeUnkeyed() {
        if case .unkeyed = content { return }
        content = .unkeyed([])
    }

    func append(_ place: Place, key: String) {
        guard case .keyed(var places) = content else { return }
        content = .nothing  // keeps the array unshared
        places.append((key, place))
        content = .keyed(places)
    }

    func append(_ place: Place) {
        guard case .unkeyed(var places) = content else { return }
        content = .nothing
        places.append(place)
        content = .unkeyed(places)
    }

    var placeCount: Int {
        if case .unkeyed(let places) = content { places.count } else { 0 }
    }
}

/// The value of a type that messages represent directly; `nil` for all other types. A comparison of types is much cheaper than a cast.
private func directValue<T: Encodable>(_ value: T) -> ValueSet.Value? {
    if T.self == Date.self {
        (value as? Date).map { .date($0) }
    } else if T.self == UUID.self {
        (value as? UUID).map { .uuid($0) }
    } else if T.self == Data.self {
        (value as? Data).map { .data([UInt8]($0)) }
    } else if T.self == [UInt8].self {
        (value as? [UInt8]).map { .data($0) }
    } else if T.self == URL.self {
        (value as? URL).map { .string($0.absoluteString) }
    } else {
        nil
    }
}

private func integerValue(_ value: some BinaryInteger, _ codingPath: @autoclosure () -> [any CodingKey]) throws -> ValueSet.Value {
    guard let value = ValueSet.Value(exactly: value) else {
        let reason = "An integer in a message lies within -2^63 and 2^64 - 1."
        throw EncodingError.invalidValue(value, .init(codingPath: codingPath(), debugDescription: reason))
    }
    return value
}

/// An encoder at one place. It is also its own single value container.
private struct NodeEncoder: Encoder {
    let node: EncodedNode
    let codingPath: [any CodingKey]
    let userInfoValues: [CodingUserInfoKey: any Sendable]

    var userInfo: [CodingUserInfoKey: Any] { userInfoValues }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        node.becomeKeyed()
        return KeyedEncodingContainer(KeyedNodeContainer<Key>(encoder: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        node.becomeUnkeyed()
        return UnkeyedNodeContainer(encoder: self)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    func nested(_ child: EncodedNode, key: any CodingKey) -> NodeEncoder {
        NodeEncoder(node: child, codingPath: codingPath + [key], userInfoValues: userInfoValues)
    }
}

extension NodeEncoder: SingleValueEncodingContainer {
    func encodeNil() throws {}
    func encode(_ value: Bool) throws { node.set(.bool(value)) }
    func encode(_ value: String) throws { node.set(.string(value)) }
    func encode(_ value: Double) throws { node.set(.double(value)) }
    func encode(_ value: Float) throws { node.set(.double(Double(value))) }
    func encode(_ value: some BinaryInteger & Encodable) throws { node.set(try integerValue(value, codingPath)) }
    // The standard library's default implementation rejects every number.
    func encode(_ value: Int128) throws { node.set(try integerValue(value, codingPath)) }
    func encode(_ value: UInt128) throws { node.set(try integerValue(value, codingPath)) }

    func encode(_ value: some Encodable) throws {
        if let value = directValue(value) {
            node.set(value)
        } else {
            try value.encode(to: self)
        }
    }
}

// The containers store scalars directly. The generic `encode` handles every type that has no method of its own: such a value encodes itself
// into a node.

private struct UnkeyedNodeContainer: UnkeyedEncodingContainer {
    let encoder: NodeEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }
    var count: Int { encoder.node.placeCount }

    private func append(_ value: ValueSet.Value) { encoder.node.append(.value(value)) }

    private func next() -> NodeEncoder {
        let (node, key) = (EncodedNode(), PathKey(intValue: count))
        encoder.node.append(.node(node))
        return encoder.nested(node, key: key)
    }

    func encodeNil() throws { _ = next() }
    func encode(_ value: Bool) throws { append(.bool(value)) }
    func encode(_ value: String) throws { append(.string(value)) }
    func encode(_ value: Double) throws { append(.double(value)) }
    func encode(_ value: Float) throws { append(.double(Double(value))) }
    func encode(_ value: some BinaryInteger & Encodable) throws {
        append(try integerValue(value, codingPath + [PathKey(intValue: count)]))
    }
    func encode(_ value: Int128) throws { try next().encode(value) }
    func encode(_ value: UInt128) throws { try next().encode(value) }
    func encode(_ value: some Encodable) throws {
        if let value = directValue(value) {
            append(value)
        } else {
            try next().encode(value)
        }
    }
    func nestedContainer<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> { next().container(keyedBy: type) }
    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { next().unkeyedContainer() }
    func superEncoder() -> any Encoder { next() }
}

private struct KeyedNodeContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoder: NodeEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }

    private func set(_ value: ValueSet.Value, _ key: Key) { encoder.node.append(.value(value), key: key.stringValue) }

    private func place(_ key: any CodingKey) -> NodeEncoder {
        let node = EncodedNode()
        encoder.node.append(.node(node), key: key.stringValue)
        return encoder.nested(node, key: key)
    }

    func encodeNil(forKey key: Key) throws {}
    func encode(_ value: Bool, forKey key: Key) throws { set(.bool(value), key) }
    func encode(_ value: String, forKey key: Key) throws { set(.string(value), key) }
    func encode(_ value: Double, forKey key: Key) throws { set(.double(value), key) }
    func encode(_ value: Float, forKey key: Key) throws { set(.double(Double(value)), key) }
    func encode(_ value: some BinaryInteger & Encodable, forKey key: Key) throws { set(try integerValue(value, codingPath + [key]), key) }
    func encode(_ value: Int128, forKey key: Key) throws { try place(key).encode(value) }
    func encode(_ value: UInt128, forKey key: Key) throws { try place(key).encode(value) }
    func encode(_ value: some Encodable, forKey key: Key) throws {
        if let value = directValue(value) {
            set(value, key)
        } else {
            try place(key).encode(value)
        }
    }
    func nestedContainer<NestedKey: CodingKey>(keyedBy type: NestedKey.Type, forKey key: Key) -> KeyedEncodingContainer<NestedKey> {
        place(key).container(keyedBy: type)
    }
    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { place(key).unkeyedContainer() }
    func superEncoder() -> any Encoder { place(PathKey(stringValue: "super")) }
    func superEncoder(forKey key: Key) -> any Encoder { place(key) }
}

/// A coding path element that is a plain key or index.
struct PathKey: CodingKey {
    let stringValue: String
    let intValue: Int?

    init(stringValue: String) {
        self.stringValue = stringValue
        self.intValue = nil
    }

    init(intValue: Int) {
        self.stringValue = "\(intValue)"
        self.intValue = intValue
    }
}
