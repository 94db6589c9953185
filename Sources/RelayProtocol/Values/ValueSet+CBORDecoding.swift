// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import NIOCore

extension ValueSet {
    /// Decodes a message that fills the buffer's readable bytes.
    /// - Throws: The violated rule, with key path and byte position. Only the deterministic encoding is accepted, so that equal messages
    ///   have equal bytes.
    package init(decoding buffer: ByteBuffer) throws(ValueSetError) {
        self = try buffer.withUnsafeReadableBytes { (bytes) -> Result<ValueSet, ValueSetError> in
            CBORReader.message(in: bytes)
        }.get()
    }

    /// Decodes a message that fills the bytes.
    package init(decoding bytes: [UInt8]) throws(ValueSetError) {
        self = try bytes.withUnsafeBytes { (bytes) -> Result<ValueSet, ValueSetError> in
            CBORReader.message(in: bytes)
        }.get()
    }
}

/// Reads the bytes of one message. Every read is checked against the end first. No length causes an allocation beyond what the remaining
/// bytes could contain.
private struct CBORReader {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0
    private var valueCount = 0

    static func message(in bytes: UnsafeRawBufferPointer) -> Result<ValueSet, ValueSetError> {
        Result { () throws(ValueSetError) in
            var reader = CBORReader(bytes: bytes)
            let (major, argument) = try reader.head()
            guard major == .map else { throw ValueSetError(.notAValueSet, at: 0) }
            let set = try reader.map(count: argument, depth: 1)
            guard reader.position == bytes.count else { throw ValueSetError(.trailingBytes, at: reader.position) }
            return set
        }
    }

    private init(bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    private var remaining: Int { bytes.count - position }

    // MARK: Values

    private mutating func value(depth: Int) throws(ValueSetError) -> ValueSet.Value {
        let start = position
        valueCount += 1
        guard valueCount <= ValueSet.maximumValueCount else { throw ValueSetError(.tooManyValues, at: start) }
        let (major, argument) = try head()
        switch major {
        case .unsigned:
            return Int64(exactly: argument).map { .int($0) } ?? .uint(argument)
        case .negative:
            guard let magnitude = Int64(exactly: argument) else { throw ValueSetError(.integerOutOfRange, at: start) }
            return .int(~magnitude)
        case .bytes:
            return .data([UInt8](try take(argument)))
        case .text:
            return .string(try text(argument))
        case .array:
            return .array(try array(count: argument, depth: depth + 1, start: start))
        case .map:
            return .valueSet(try map(count: argument, depth: depth + 1))
        case .tag:
            return try tagged(argument, start: start)
        case .simple:
            return try simple(start: start, argument: argument)
        }
    }

    private mutating func map(count: UInt64, depth: Int) throws(ValueSetError) -> ValueSet {
        guard depth <= ValueSet.maximumDepth else { throw ValueSetError(.tooDeep, at: position) }
        // An entry takes at least two bytes: an empty key and a one-byte value.
        guard count <= UInt64(remaining / 2) else { throw ValueSetError(.truncated, at: bytes.count) }
        guard count <= UInt64(ValueSet.maximumValueCount - valueCount) else { throw ValueSetError(.tooManyValues, at: position) }
        var entries: [ValueSet.Entry] = []
        entries.reserveCapacity(Self.reservation(count))
        var previous: UnsafeRawBufferPointer?
        for _ in 0..<count {
            let start = position
            let (major, length) = try head()
            guard major == .text else { throw ValueSetError(.nonStringKey, at: start) }
            let encoded = try take(length)
            if let previous {
                switch CBORReader.order(previous, encoded) {
                case 0: throw ValueSetError(.duplicateKey, at: start).inside(key: try CBORReader.string(encoded, at: start))
                case 1...: throw ValueSetError(.unsortedKey, at: start)
                default: break
                }
            }
            previous = encoded
            let key = try CBORReader.string(encoded, at: start)
            do throws(ValueSetError) {
                entries.append(ValueSet.Entry(key: key, value: try value(depth: depth)))
            } catch {
                throw error.inside(key: key)
            }
        }
        return ValueSet(sortedEntries: entries)
    }

    /// The capacity to reserve for a claimed count. It is bounded, because the claims of 32 nested levels add up.
    private static func reservation(_ count: UInt64) -> Int { Int(min(count, 1_024)) }

    private mutating func array(count: UInt64, depth: Int, start: Int) throws(ValueSetError) -> [ValueSet.Value] {
        guard depth <= ValueSet.maximumDepth else { throw ValueSetError(.tooDeep, at: start) }
        guard count <= UInt64(remaining) else { throw ValueSetError(.truncated, at: bytes.count) }
        guard count <= UInt64(ValueSet.maximumValueCount - valueCount) else { throw ValueSetError(.tooManyValues, at: start) }
        var values: [ValueSet.Value] = []
        values.reserveCapacity(Self.reservation(count))
        for index in 0..<Int(count) {
            let start = position
            do throws(ValueSetError) {
                let value = try value(depth: depth)
                if let first = values.first, first.kind != value.kind { throw ValueSetError(.mixedArray, at: start) }
                values.append(value)
            } catch {
                throw error.inside(index: index)
            }
        }
        return values
    }

    private mutating func tagged(_ tag: UInt64, start: Int) throws(ValueSetError) -> ValueSet.Value {
        switch tag {
        case CBOR.epochTag:
            let contentStart = position
            let (major, argument) = try head()
            let seconds: Double
            switch major {
            case .unsigned where argument < 1 << 53: seconds = Double(argument)
            case .negative where argument < 1 << 53 - 1: seconds = -1 - Double(argument)
            case .unsigned, .negative: throw ValueSetError(.notShortest, at: contentStart)
            case .simple:
                guard case .double(let value) = try simple(start: contentStart, argument: argument) else {
                    throw ValueSetError(.invalidTagContent, at: contentStart)
                }
                guard value.isFinite else { throw ValueSetError(.dateNotFinite, at: contentStart) }
                seconds = value
            default: throw ValueSetError(.invalidTagContent, at: contentStart)
            }
            if major == .simple, case .seconds = CBOR.Epoch(seconds) { throw ValueSetError(.notShortest, at: contentStart) }
            return .date(Date(timeIntervalSince1970: seconds))
        case CBOR.uuidTag:
            let contentStart = position
            let (major, length) = try head()
            guard major == .bytes, length == 16 else { throw ValueSetError(.invalidTagContent, at: contentStart) }
            return .uuid(UUID(uuid: try take(16).loadUnaligned(as: uuid_t.self)))
        default:
            throw ValueSetError(.unknownTag, at: start)
        }
    }

    /// Booleans and floats. The head is already read, and `start` is its position.
    private func simple(start: Int, argument: UInt64) throws(ValueSetError) -> ValueSet.Value {
        let number: Double
        switch bytes[start] {
        case CBOR.falseByte: return .bool(false)
        case CBOR.trueByte: return .bool(true)
        case CBOR.halfByte: number = HalfPrecision.value(UInt16(truncatingIfNeeded: argument))
        case CBOR.floatByte: number = Double(Float(bitPattern: UInt32(truncatingIfNeeded: argument)))
        case CBOR.doubleByte: number = Double(bitPattern: argument)
        default: throw ValueSetError(.unsupportedType, at: start)
        }
        guard CBOR.ShortestFloat(number).size == position - start else { throw ValueSetError(.notShortest, at: start) }
        if number.isNaN, argument != UInt64(HalfPrecision.quietNaN) { throw ValueSetError(.notShortest, at: start) }
        return .double(number)
    }

    private mutating func text(_ length: UInt64) throws(ValueSetError) -> String {
        let start = position
        return try CBORReader.string(try take(length), at: start)
    }

    // MARK: Bytes

    /// The major type of an item, and its argument. For a float the argument is its bits.
    private mutating func head() throws(ValueSetError) -> (CBOR.Major, UInt64) {
        let start = position
        guard remaining > 0 else { throw ValueSetError(.truncated, at: position) }
        let first = bytes[position]
        position += 1
        guard let major = CBOR.Major(rawValue: first >> 5) else { throw ValueSetError(.unsupportedType, at: start) }
        let argument: UInt64
        let minimum: UInt64
        switch first & 0x1F {
        case let small where small < 24: return (major, UInt64(small))
        case 24: (argument, minimum) = (UInt64(try fixedWidth(UInt8.self)), 24)
        case 25: (argument, minimum) = (UInt64(try fixedWidth(UInt16.self)), 0x100)
        case 26: (argument, minimum) = (UInt64(try fixedWidth(UInt32.self)), 0x1_0000)
        case 27: (argument, minimum) = (try fixedWidth(UInt64.self), 0x1_0000_0000)
        case 31: throw ValueSetError(major == .simple || major.rawValue < 2 ? .unsupportedType : .indefiniteLength, at: start)
        default: throw ValueSetError(.unsupportedType, at: start)
        }
        guard major == .simple || argument >= minimum else { throw ValueSetError(.notShortest, at: start) }
        return (major, argument)
    }

    private mutating func fixedWidth<Integer: FixedWidthInteger & BitwiseCopyable>(
        _ type: Integer.Type
    ) throws(ValueSetError) -> Integer {
        let size = MemoryLayout<Integer>.size
        guard remaining >= size else { throw ValueSetError(.truncated, at: bytes.count) }
        let value = bytes.loadUnaligned(fromByteOffset: position, as: Integer.self)
        position += size
        return Integer(bigEndian: value)
    }

    private mutating func take(_ length: UInt64) throws(ValueSetError) -> UnsafeRawBufferPointer {
        guard length <= UInt64(remaining) else { throw ValueSetError(.truncated, at: bytes.count) }
        let end = position + Int(length)
        defer { position = end }
        return UnsafeRawBufferPointer(rebasing: bytes[position..<end])
    }

    private static func string(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(ValueSetError) -> String {
        // `String(decoding:)` replaces invalid bytes, but is several times faster. For ASCII both give the same result.
        if bytes.isASCII { return String(decoding: bytes, as: UTF8.self) }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw ValueSetError(.invalidText, at: offset) }
        return text
    }

    /// The wire order of two encoded keys: negative, zero or positive.
    private static func order(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Int {
        guard left.count == right.count else { return left.count < right.count ? -1 : 1 }
        for index in 0..<left.count where left[index] != right[index] {
            return left[index] < right[index] ? -1 : 1
        }
        return 0
    }
}

extension UnsafeRawBufferPointer {
    /// Whether no byte has its highest bit set.
    var isASCII: Bool {
        var all: UInt64 = 0
        var offset = 0
        while offset + 8 <= count {
            all |= loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            offset += 8
        }
        while offset < count {
            all |= UInt64(self[offset])
            offset += 1
        }
        return all & 0x8080_8080_8080_8080 == 0
    }
}
