// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Turns any `Encodable` type into a message.
///
/// Numbers, text, `Date`, `UUID`, `Data`, `[UInt8]` and `URL` become the value of their kind, arrays an array, everything with
/// keys a nested set. A `nil` property is left out. What a message cannot hold is an `EncodingError.invalidValue` with its
/// coding path: an integer outside of −2^63 … 2^64 − 1, `nil` or values of different kinds in an array, a top level without keys.
public struct ValueSetEncoder: Sendable {
    /// Passed on to the type's own `encode(to:)`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// An encoder without user information.
    public init() {}

    /// The message that stands for a value.
    public func encode(_ value: some Encodable) throws -> ValueSet {
        let node = EncodedNode()
        try node.encode(value, codingPath: [], userInfo: userInfo)
        guard case .valueSet(let set)? = try node.value(codingPath: []) else {
            throw EncodingError.invalidValue(value, .init(codingPath: [], debugDescription: "A message has keys at its top level."))
        }
        return set
    }
}

/// A place that an encoder fills: a reference, because nested containers may still be written when their parents were handed out.
private final class EncodedNode {
    private enum Content {
        case nothing
        case value(ValueSet.Value)
        case keyed([String: EncodedNode])
        case unkeyed([EncodedNode])
    }

    private var content: Content = .nothing

    /// What was encoded here; `nil` for nothing, or an optional without a value.
    func value(codingPath: [any CodingKey]) throws -> ValueSet.Value? {
        switch content {
        case .nothing: return nil
        case .value(let value): return value
        case .keyed(let nodes):
            let pairs = try nodes.compactMap { key, node in
                try node.value(codingPath: codingPath + [PathKey(stringValue: key)]).map { (key: key, value: $0) }
            }
            return .valueSet(ValueSet(pairs))
        case .unkeyed(let nodes):
            var values: [ValueSet.Value] = []
            values.reserveCapacity(nodes.count)
            for (index, node) in nodes.enumerated() {
                let path = codingPath + [PathKey(intValue: index)]
                guard let value = try node.value(codingPath: path) else {
                    throw EncodingError.invalidValue(
                        index,
                        .init(codingPath: path, debugDescription: "An array in a message holds no nil.")
                    )
                }
                guard value.kind == (values.first ?? value).kind else {
                    let reason =
                        "An array in a message holds values of one kind; this is \(value.kind), the first is \((values.first ?? value).kind)."
                    throw EncodingError.invalidValue(index, .init(codingPath: path, debugDescription: reason))
                }
                values.append(value)
            }
            return .array(values)
        }
    }

    func set(_ value: ValueSet.Value) { content = .value(value) }

    func becomeKeyed() {
        if case .keyed = content { return }
        content = .keyed([:])
    }

    func becomeUnkeyed() {
        if case .unkeyed = content { return }
        content = .unkeyed([])
    }

    func child(_ key: String) -> EncodedNode {
        let node = EncodedNode()
        if case .keyed(var nodes) = content {
            content = .nothing  // keeps the dictionary unshared
            nodes[key] = node
            content = .keyed(nodes)
        }
        return node
    }

    func appendChild() -> EncodedNode {
        let node = EncodedNode()
        if case .unkeyed(var nodes) = content {
            content = .nothing
            nodes.append(node)
            content = .unkeyed(nodes)
        }
        return node
    }

    var childCount: Int {
        if case .unkeyed(let nodes) = content { nodes.count } else { 0 }
    }

    func encode<T: Encodable>(_ value: T, codingPath: [any CodingKey], userInfo: [CodingUserInfoKey: any Sendable]) throws {
        // Comparing types is much cheaper than casting each value.
        let special: ValueSet.Value? =
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
        if let special {
            set(special)
        } else {
            try value.encode(to: NodeEncoder(node: self, codingPath: codingPath, userInfoValues: userInfo))
        }
    }
}

/// An encoder at one place; it is its own single value container. The generic `encode` of the other containers
/// stands for every type: a scalar encodes itself through here.
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
    func encode(_ value: some BinaryInteger & Encodable) throws { try setInteger(value) }
    // The standard library's own default for these refuses every number.
    func encode(_ value: Int128) throws { try setInteger(value) }
    func encode(_ value: UInt128) throws { try setInteger(value) }

    private func setInteger(_ value: some BinaryInteger) throws {
        guard let value = ValueSet.Value(exactly: value) else {
            let reason = "An integer in a message lies within -2^63 and 2^64 - 1."
            throw EncodingError.invalidValue(value, .init(codingPath: codingPath, debugDescription: reason))
        }
        node.set(value)
    }
    func encode(_ value: some Encodable) throws { try node.encode(value, codingPath: codingPath, userInfo: userInfoValues) }
}

private struct UnkeyedNodeContainer: UnkeyedEncodingContainer {
    let encoder: NodeEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }
    var count: Int { encoder.node.childCount }

    private func next() -> NodeEncoder {
        let key = PathKey(intValue: count)
        return encoder.nested(encoder.node.appendChild(), key: key)
    }

    func encodeNil() throws { _ = next() }
    func encode(_ value: some Encodable) throws { try next().encode(value) }
    func encode(_ value: Int128) throws { try next().encode(value) }
    func encode(_ value: UInt128) throws { try next().encode(value) }
    func nestedContainer<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> { next().container(keyedBy: type) }
    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { next().unkeyedContainer() }
    func superEncoder() -> any Encoder { next() }
}

private struct KeyedNodeContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoder: NodeEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }

    private func place(_ key: any CodingKey) -> NodeEncoder {
        encoder.nested(encoder.node.child(key.stringValue), key: key)
    }

    func encodeNil(forKey key: Key) throws {}
    func encode(_ value: some Encodable, forKey key: Key) throws { try place(key).encode(value) }
    func encode(_ value: Int128, forKey key: Key) throws { try place(key).encode(value) }
    func encode(_ value: UInt128, forKey key: Key) throws { try place(key).encode(value) }
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
