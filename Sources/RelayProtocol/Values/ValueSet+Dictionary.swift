// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

// The original takes messages as `NSDictionary` with boxed values. Each app that is ported has such dictionaries.
extension ValueSet {
    /// A message of a dictionary of boxed values, such as `["Type": "seek", "Position": 12.5, "Marks": [1, 2.5]]`.
    ///
    /// It takes text, truth values, integers and floating-point numbers of any width, `Date`, `UUID`, `Data`, arrays and dictionaries with text
    /// keys; on Apple systems also their Objective-C classes, so that an `NSDictionary` can be passed (`as? [String: Any]`). If an array has
    /// integers and floating-point numbers, all of them become doubles.
    /// - Throws: `ValueSetError` with the path to the value: `unsupportedType` for any other type, such as `NSNull` (leave the key out);
    ///   `mixedArray` for an array of several kinds; `integerOutOfRange`; `numberOutOfRange` for an integer beside floating-point numbers
    ///   that a double does not hold exactly; `tooDeep` for more than 32 levels.
    public init(dictionary: [String: Any]) throws(ValueSetError) { try self.init(dictionary, depth: 1) }

    private init(_ dictionary: [String: Any], depth: Int) throws(ValueSetError) {
        guard depth <= Self.maximumDepth else { throw ValueSetError(.tooDeep) }
        var pairs: [Element] = []
        pairs.reserveCapacity(dictionary.count)
        for (key, boxed) in dictionary {
            do throws(ValueSetError) {
                pairs.append((key, try Value(boxed, depth: depth)))
            } catch {
                throw error.inside(key: key)
            }
        }
        self.init(pairs)
    }

    /// The message as a dictionary of boxed values: `String`, `Bool`, `Int`, `UInt64` (above `Int.max`), `Double`, `Date`, `UUID`, `Data`,
    /// `[Any]` and `[String: Any]`. `init(dictionary:)` makes the same message of it. Of keys that Swift takes as equal, because they are
    /// canonically equivalent, one remains.
    public var dictionary: [String: Any] {
        Dictionary(map { ($0.key, $0.value.boxed) }) { _, last in last }
    }
}

extension ValueSet.Value {
    fileprivate init(_ boxed: Any, depth: Int) throws(ValueSetError) {
        switch boxed {
        case let text as String: self = .string(text)
        case let date as Date: self = .date(date)
        case let id as UUID: self = .uuid(id)
        case let data as Data: self = .data([UInt8](data))
        case let dictionary as [String: Any]: self = .valueSet(try ValueSet(dictionary, depth: depth + 1))
        case let array as [Any]:
            guard depth < ValueSet.maximumDepth else { throw ValueSetError(.tooDeep) }
            self = .array(try Self.elements(array, depth: depth + 1))
        default: self = try Self(scalar: boxed)
        }
    }

    private init(scalar: Any) throws(ValueSetError) {
        #if canImport(Darwin)
        // A boxed number can be cast to each other kind of number, so its own kind decides.
        if let number = scalar as? NSNumber {
            if CFGetTypeID(number) == CFBooleanGetTypeID() {
                self = .bool(number.boolValue)
            } else if CFNumberIsFloatType(number) {
                self = .double(number.doubleValue)
            } else {
                self =
                    number.compare(NSNumber(value: Int64.max)) == .orderedDescending ? .uint(number.uint64Value) : .int(number.int64Value)
            }
            return
        }
        #endif
        switch scalar {
        case let value as Bool: self = .bool(value)
        case let value as any BinaryInteger:
            guard let integer = Self(exactly: value) else { throw ValueSetError(.integerOutOfRange) }
            self = integer
        case let value as any BinaryFloatingPoint: self = .double(Double(value))
        default: throw ValueSetError(.unsupportedType)
        }
    }

    private static func elements(_ array: [Any], depth: Int) throws(ValueSetError) -> [Self] {
        var values: [Self] = []
        values.reserveCapacity(array.count)
        for (index, boxed) in array.enumerated() {
            do throws(ValueSetError) {
                values.append(try Self(boxed, depth: depth))
            } catch {
                throw error.inside(index: index)
            }
        }
        let kinds = Set(values.map(\.kind))
        if kinds == [.integer, .double] {
            for index in values.indices {
                guard let number = values[index].exactDouble else { throw ValueSetError(.numberOutOfRange).inside(index: index) }
                values[index] = .double(number)
            }
        } else if let first = values.first, let other = values.firstIndex(where: { $0.kind != first.kind }) {
            throw ValueSetError(.mixedArray).inside(index: other)
        }
        return values
    }

    /// `nil` for an integer that a double does not hold.
    private var exactDouble: Double? {
        switch self {
        case .int(let value): Double(exactly: value)
        case .uint(let value): Double(exactly: value)
        case .double(let value): value
        default: nil
        }
    }

    fileprivate var boxed: Any {
        switch self {
        case .string(let value): value
        case .bool(let value): value
        case .int(let value): Int(exactly: value) ?? value
        case .uint(let value): Int(exactly: value) ?? value
        case .double(let value): value
        case .date(let value): value
        case .uuid(let value): value
        case .data(let value): Data(value)
        case .array(let values): values.map(\.boxed)
        case .valueSet(let set): set.dictionary
        }
    }
}
