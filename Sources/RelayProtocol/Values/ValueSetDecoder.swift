// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// Decodes a message as any `Decodable` type, the reverse of `ValueSetEncoder`.
///
/// A missing key is `nil` for an optional property, else `DecodingError.keyNotFound`. A value of another kind is `typeMismatch`. An integer
/// that does not fit the property's type is `dataCorrupted`. Each error has its coding path. Keys that the type does not know are ignored.
public struct ValueSetDecoder: Sendable {
    /// Passed to the type's `init(from:)`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// A decoder without user information.
    public init() {}

    /// Decodes a value from a message.
    public func decode<T: Decodable>(_ type: T.Type = T.self, from set: ValueSet) throws -> T {
        try ValueDecoder(value: .valueSet(set), parentPath: [], key: nil, userInfoValues: userInfo).decode(type)
    }
}

/// A decoder at one value. It is also its own single value container. The generic `decode` of the other containers handles every type,
/// because a scalar decodes itself through this decoder.
private struct ValueDecoder: Decoder {
    let value: ValueSet.Value
    /// `codingPath` is computed from these on demand, because errors are rare.
    let parentPath: [any CodingKey]
    let key: (any CodingKey)?
    let userInfoValues: [CodingUserInfoKey: any Sendable]

    var codingPath: [any CodingKey] { key.map { parentPath + [$0] } ?? parentPath }
    var userInfo: [CodingUserInfoKey: Any] { userInfoValues }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(KeyedValueContainer<Key>(decoder: self, valueSet: try unwrap(value.valueSet, as: ValueSet.self)))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        // A type that decodes its bytes one by one can also read them from data.
        if case .data(let bytes) = value {
            return UnkeyedValueContainer(decoder: self, count: bytes.count) { .int(Int64(bytes[$0])) }
        }
        let values = try unwrap(value.array, as: [Any].self)
        return UnkeyedValueContainer(decoder: self, count: values.count) { values[$0] }
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }

    func unwrap<T>(_ content: T?, as type: Any.Type) throws -> T {
        guard let content else {
            throw DecodingError.typeMismatch(type, .init(codingPath: codingPath, debugDescription: "The message has \(value.kind) here."))
        }
        return content
    }

    func corrupted(_ reason: String) -> DecodingError {
        .dataCorrupted(.init(codingPath: codingPath, debugDescription: reason))
    }
}

extension ValueDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { false }
    func decode(_ type: Bool.Type) throws -> Bool { try unwrap(value.bool, as: type) }
    func decode(_ type: String.Type) throws -> String { try unwrap(value.string, as: type) }
    func decode(_ type: Double.Type) throws -> Double { try unwrap(value.double, as: type) }

    func decode(_ type: Float.Type) throws -> Float {
        let number = try unwrap(value.double, as: type)
        let float = Float(number)
        guard float.isFinite || !number.isFinite else { throw corrupted("The number does not fit into Float.") }
        return float
    }

    func decode<Integer: FixedWidthInteger & Decodable>(_ type: Integer.Type) throws -> Integer { try integer(type) }
    // The standard library's default implementation rejects every number.
    func decode(_ type: Int128.Type) throws -> Int128 { try integer(type) }
    func decode(_ type: UInt128.Type) throws -> UInt128 { try integer(type) }

    private func integer<Integer: FixedWidthInteger>(_ type: Integer.Type) throws -> Integer {
        guard value.kind == .integer else { return try unwrap(nil, as: type) }
        guard let integer = value.integer(as: type) else { throw corrupted("The number does not fit into \(type).") }
        return integer
    }

    func decode<T: Decodable>(_ type: T.Type) throws -> T {
        // A comparison of types is much cheaper than a cast of each value.
        let special: T? =
            if T.self == Date.self {
                try unwrap(value.date, as: type) as? T
            } else if T.self == UUID.self {
                try unwrap(value.uuid, as: type) as? T
            } else if T.self == Data.self {
                Data(try unwrap(value.data, as: type)) as? T
            } else if T.self == [UInt8].self {
                value.data as? T
            } else if T.self == URL.self {
                try url() as? T
            } else {
                nil
            }
        return try special ?? T(from: self)
    }

    private func url() throws -> URL {
        guard let url = URL(exactly: try unwrap(value.string, as: URL.self)) else { throw corrupted("This text is no URL.") }
        return url
    }
}

private struct UnkeyedValueContainer: UnkeyedDecodingContainer {
    let codingPath: [any CodingKey]
    private let userInfoValues: [CodingUserInfoKey: any Sendable]
    private let end: Int
    private let valueAt: (Int) -> ValueSet.Value
    private(set) var currentIndex = 0

    init(decoder: ValueDecoder, count: Int, valueAt: @escaping (Int) -> ValueSet.Value) {
        self.codingPath = decoder.codingPath
        self.userInfoValues = decoder.userInfoValues
        self.end = count
        self.valueAt = valueAt
    }

    var count: Int? { end }
    var isAtEnd: Bool { currentIndex >= end }

    private mutating func next(_ type: Any.Type) throws -> ValueDecoder {
        let key = PathKey(intValue: currentIndex)
        guard !isAtEnd else {
            let reason = "The array has no more than \(end) values."
            throw DecodingError.valueNotFound(type, .init(codingPath: codingPath + [key], debugDescription: reason))
        }
        defer { currentIndex += 1 }
        return ValueDecoder(value: valueAt(currentIndex), parentPath: codingPath, key: key, userInfoValues: userInfoValues)
    }

    func decodeNil() throws -> Bool { false }
    mutating func decode<T: Decodable>(_ type: T.Type) throws -> T { try next(type).decode(type) }
    mutating func decode(_ type: Int128.Type) throws -> Int128 { try next(type).decode(type) }
    mutating func decode(_ type: UInt128.Type) throws -> UInt128 { try next(type).decode(type) }
    mutating func nestedContainer<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        try next(ValueSet.self).container(keyedBy: type)
    }
    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer { try next([Any].self).unkeyedContainer() }
    mutating func superDecoder() throws -> any Decoder { try next((any Decoder).self) }
}

private struct KeyedValueContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let codingPath: [any CodingKey]
    private let userInfoValues: [CodingUserInfoKey: any Sendable]
    private let valueSet: ValueSet

    init(decoder: ValueDecoder, valueSet: ValueSet) {
        self.codingPath = decoder.codingPath
        self.userInfoValues = decoder.userInfoValues
        self.valueSet = valueSet
    }

    var allKeys: [Key] { valueSet.keys.compactMap(Key.init(stringValue:)) }

    private func place(_ key: any CodingKey) throws -> ValueDecoder {
        guard let value = valueSet[key.stringValue] else {
            throw DecodingError.keyNotFound(key, .init(codingPath: codingPath, debugDescription: "The message does not have this key."))
        }
        return ValueDecoder(value: value, parentPath: codingPath, key: key, userInfoValues: userInfoValues)
    }

    func contains(_ key: Key) -> Bool { valueSet[key.stringValue] != nil }
    func decodeNil(forKey key: Key) throws -> Bool { !contains(key) }
    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T { try place(key).decode(type) }
    func decode(_ type: Int128.Type, forKey key: Key) throws -> Int128 { try place(key).decode(type) }
    func decode(_ type: UInt128.Type, forKey key: Key) throws -> UInt128 { try place(key).decode(type) }
    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> {
        try place(key).container(keyedBy: type)
    }
    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { try place(key).unkeyedContainer() }
    func superDecoder() throws -> any Decoder { try place(PathKey(stringValue: "super")) }
    func superDecoder(forKey key: Key) throws -> any Decoder { try place(key) }
}
