// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation

extension ValueSet {
    /// One value of a message.
    ///
    /// All integers are one kind. `.uint` is needed only above `Int64.max`, and equal numbers are equal values in either case. `.double`
    /// follows IEEE 754 (NaN differs from itself, −0 equals 0).
    public enum Value: Sendable {
        /// Text.
        case string(String)
        /// A truth value.
        case bool(Bool)
        /// An integer from −2^63 to 2^63 − 1.
        case int(Int64)
        /// An integer. The decoder uses this case only above `Int64.max`.
        case uint(UInt64)
        /// A 64-bit floating-point number. The wire format has only one NaN, without payload.
        case double(Double)
        /// A time. On the wire it is the number of seconds since 1970, in double precision. It must be finite.
        case date(Date)
        /// A UUID.
        case uuid(UUID)
        /// Bytes.
        case data([UInt8])
        /// Values of one kind. A mixed array is rejected when it is encoded or decoded.
        case array([Value])
        /// A nested set.
        case valueSet(ValueSet)
    }
}

extension ValueSet.Value {
    /// The kinds of values. All elements of an array have the same kind.
    package enum Kind: String, Sendable {
        case string
        case bool
        case integer
        case double
        case date
        case uuid
        case data
        case array
        case valueSet
    }

    package var kind: Kind {
        switch self {
        case .string: .string
        case .bool: .bool
        case .int, .uint: .integer
        case .double: .double
        case .date: .date
        case .uuid: .uuid
        case .data: .data
        case .array: .array
        case .valueSet: .valueSet
        }
    }

    /// An integer of any width, as `.int` if it fits, else as `.uint`; `nil` outside −2^63 … 2^64 − 1.
    public init?(exactly integer: some BinaryInteger) {
        if let value = Int64(exactly: integer) {
            self = .int(value)
        } else if let value = UInt64(exactly: integer) {
            self = .uint(value)
        } else {
            return nil
        }
    }

    /// The text, if this is one.
    public var string: String? {
        if case .string(let value) = self { value } else { nil }
    }

    /// The truth value, if this is one.
    public var bool: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    /// The value as `Int`; `nil` if it is not an integer or does not fit.
    public var int: Int? { integer(as: Int.self) }

    /// The value as `Int64`; `nil` if it is not an integer or does not fit.
    public var int64: Int64? { integer(as: Int64.self) }

    /// The value as `UInt64`; `nil` if it is not an integer or does not fit.
    public var uint64: UInt64? { integer(as: UInt64.self) }

    /// The value as the given type; `nil` if it is not an integer or does not fit.
    public func integer<Integer: FixedWidthInteger>(as type: Integer.Type) -> Integer? {
        switch self {
        case .int(let value): Integer(exactly: value)
        case .uint(let value): Integer(exactly: value)
        default: nil
        }
    }

    /// The number, if this is a double, or an integer that a double represents exactly.
    public var double: Double? {
        switch self {
        case .double(let value): value
        case .int(let value): Double(exactly: value)
        case .uint(let value): Double(exactly: value)
        default: nil
        }
    }

    /// The date, if this is one.
    public var date: Date? {
        if case .date(let value) = self { value } else { nil }
    }

    /// The UUID, if this is one.
    public var uuid: UUID? {
        if case .uuid(let value) = self { value } else { nil }
    }

    /// The bytes, if this is data.
    public var data: [UInt8]? {
        if case .data(let value) = self { value } else { nil }
    }

    /// The elements, if this is an array.
    public var array: [ValueSet.Value]? {
        if case .array(let value) = self { value } else { nil }
    }

    /// The nested set, if this is one.
    public var valueSet: ValueSet? {
        if case .valueSet(let value) = self { value } else { nil }
    }

    /// The value of a key, if this is a nested set that has it.
    public subscript(key: String) -> ValueSet.Value? { valueSet?[key] }
}

extension ValueSet.Value: Hashable {
    /// Equal kind and content. Integers are compared as numbers.
    public static func == (left: Self, right: Self) -> Bool {
        switch (left, right) {
        case (.string(let left), .string(let right)): left == right
        case (.bool(let left), .bool(let right)): left == right
        case (.int(let left), .int(let right)): left == right
        case (.uint(let left), .uint(let right)): left == right
        case (.int(let signed), .uint(let unsigned)), (.uint(let unsigned), .int(let signed)): UInt64(exactly: signed) == unsigned
        case (.double(let left), .double(let right)): left == right
        case (.date(let left), .date(let right)): left == right
        case (.uuid(let left), .uuid(let right)): left == right
        case (.data(let left), .data(let right)): left == right
        case (.array(let left), .array(let right)): left == right
        case (.valueSet(let left), .valueSet(let right)): left == right
        default: false
        }
    }

    /// Consistent with `==`.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(kind)
        switch self {
        case .string(let value): hasher.combine(value)
        case .bool(let value): hasher.combine(value)
        // Equal integers have equal bit patterns. −1 and 2^64 − 1 share a hash, which is permitted.
        case .int(let value): hasher.combine(UInt64(bitPattern: value))
        case .uint(let value): hasher.combine(value)
        case .double(let value): hasher.combine(value)
        case .date(let value): hasher.combine(value)
        case .uuid(let value): hasher.combine(value)
        case .data(let value): hasher.combine(value)
        case .array(let value): hasher.combine(value)
        case .valueSet(let value): hasher.combine(value)
        }
    }
}

extension ValueSet.Value: ExpressibleByStringLiteral, ExpressibleByStringInterpolation, ExpressibleByBooleanLiteral,
    ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// Text.
    public init(stringLiteral value: String) { self = .string(value) }
    /// A truth value.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// An integer; above `Int64.max` use `.uint`.
    public init(integerLiteral value: Int64) { self = .int(value) }
    /// A double.
    public init(floatLiteral value: Double) { self = .double(value) }
    /// An array of one kind.
    public init(arrayLiteral elements: ValueSet.Value...) { self = .array(elements) }
    /// A nested set.
    public init(dictionaryLiteral elements: (String, ValueSet.Value)...) {
        self = .valueSet(ValueSet(elements.lazy.map { (key: $0.0, value: $0.1) }))
    }
}
