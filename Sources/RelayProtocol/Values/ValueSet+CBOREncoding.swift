// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// Deterministic CBOR (RFC 8949 §4.2.1): every message has exactly one encoding. Two passes: the first checks the
// values and adds up the size, the second writes into memory of just that size and cannot fail.

extension ValueSet {
    /// The maximum nesting depth of a message, including the outermost set.
    package static let maximumDepth = 32
    /// The maximum number of values in a message, including nested ones. A decoded value takes up to 40 bytes, so without this bound a
    /// message of one-byte values would grow forty-fold in memory.
    package static let maximumValueCount = 1 << 21

    /// The size of the encoding in bytes.
    /// - Throws: The reason why the message cannot be encoded: a mixed array, a date that is not finite, too many levels or values.
    package func encodedSize() throws(ValueSetError) -> Int {
        var measure = CBORMeasure()
        try measure.add(self, depth: 1)
        return measure.size
    }

    /// Appends the encoding to a buffer and returns its size. On an error the buffer is unchanged.
    @discardableResult
    package func encode(into buffer: inout ByteBuffer) throws(ValueSetError) -> Int {
        let size = try encodedSize()
        encode(into: &buffer, measuredAs: size)
        return size
    }

    /// Appends the encoding to a buffer.
    /// - Parameter size: The result of `encodedSize`.
    package func encode(into buffer: inout ByteBuffer, measuredAs size: Int) {
        buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: size) { memory in
            var writer = CBORWriter(memory: memory)
            writer.write(self)
            assert(writer.position == size)
            return writer.position
        }
    }

    /// The encoding as an array of bytes.
    package func encodedBytes() throws(ValueSetError) -> [UInt8] {
        let size = try encodedSize()
        return [UInt8](unsafeUninitializedCapacity: size) { memory, count in
            var writer = CBORWriter(memory: UnsafeMutableRawBufferPointer(memory))
            writer.write(self)
            count = writer.position
        }
    }
}

/// The parts of CBOR that messages use.
enum CBOR {
    enum Major: UInt8 {
        case unsigned = 0
        case negative = 1
        case bytes = 2
        case text = 3
        case array = 4
        case map = 5
        case tag = 6
        case simple = 7
    }

    static let epochTag: UInt64 = 1
    static let uuidTag: UInt64 = 37
    static let falseByte: UInt8 = 0xF4
    static let trueByte: UInt8 = 0xF5
    static let halfByte: UInt8 = 0xF9
    static let floatByte: UInt8 = 0xFA
    static let doubleByte: UInt8 = 0xFB

    /// The bytes that a head with this argument takes.
    static func headSize(_ argument: UInt64) -> Int {
        switch argument {
        case 0..<24: 1
        case 24..<0x100: 2
        case 0x100..<0x1_0000: 3
        case 0x1_0000..<0x1_0000_0000: 5
        default: 9
        }
    }

    /// A double in the shortest of the three widths that represents it exactly.
    enum ShortestFloat {
        case half(UInt16)
        case float(UInt32)
        case double(UInt64)

        init(_ value: Double) {
            if value.isNaN {
                self = .half(HalfPrecision.quietNaN)
                return
            }
            let narrow = Float(value)
            guard Double(narrow) == value else {
                self = .double(value.bitPattern)
                return
            }
            if let half = HalfPrecision.bits(exactly: narrow) {
                self = .half(half)
            } else {
                self = .float(narrow.bitPattern)
            }
        }

        var size: Int {
            switch self {
            case .half: 3
            case .float: 5
            case .double: 9
            }
        }
    }

    /// The content of tag 1: whole seconds as an integer, all other times as a float.
    enum Epoch {
        case seconds(Int64)
        case fraction(Double)

        init(_ seconds: Double) {
            // Beyond 2^53 every double is a whole number, and a float is never longer than the integer.
            if seconds.magnitude < 0x1p53, let whole = Int64(exactly: seconds) {
                self = .seconds(whole)
            } else {
                self = .fraction(seconds)
            }
        }
    }
}

/// The argument of an integer's head.
private func argument(of value: Int64) -> UInt64 {
    UInt64(bitPattern: value < 0 ? ~value : value)
}

private struct CBORMeasure {
    private(set) var size = 0
    private var count = 0

    mutating func add(_ set: ValueSet, depth: Int) throws(ValueSetError) {
        guard depth <= ValueSet.maximumDepth else { throw ValueSetError(.tooDeep) }
        size += CBOR.headSize(UInt64(set.entries.count))
        for entry in set.entries {
            addBytes(entry.key.utf8.count)
            do throws(ValueSetError) {
                try add(entry.value, depth: depth)
            } catch {
                throw error.inside(key: entry.key)
            }
        }
    }

    private mutating func addBytes(_ count: Int) {
        size += CBOR.headSize(UInt64(count)) + count
    }

    private mutating func add(_ value: ValueSet.Value, depth: Int) throws(ValueSetError) {
        count += 1
        guard count <= ValueSet.maximumValueCount else { throw ValueSetError(.tooManyValues) }
        switch value {
        case .string(let text): addBytes(text.utf8.count)
        case .bool: size += 1
        case .int(let number): size += CBOR.headSize(argument(of: number))
        case .uint(let number): size += CBOR.headSize(number)
        case .double(let number): size += CBOR.ShortestFloat(number).size
        case .date(let date):
            guard date.timeIntervalSince1970.isFinite else { throw ValueSetError(.dateNotFinite) }
            switch CBOR.Epoch(date.timeIntervalSince1970) {
            case .seconds(let seconds): size += 1 + CBOR.headSize(argument(of: seconds))
            case .fraction(let seconds): size += 1 + CBOR.ShortestFloat(seconds).size
            }
        case .uuid: size += 2 + 1 + 16
        case .data(let bytes): addBytes(bytes.count)
        case .array(let values):
            guard depth < ValueSet.maximumDepth else { throw ValueSetError(.tooDeep) }
            size += CBOR.headSize(UInt64(values.count))
            let kind = values.first?.kind
            for (index, value) in values.enumerated() {
                do throws(ValueSetError) {
                    guard value.kind == kind else { throw ValueSetError(.mixedArray) }
                    try add(value, depth: depth + 1)
                } catch {
                    throw error.inside(index: index)
                }
            }
        case .valueSet(let set): try add(set, depth: depth + 1)
        }
    }
}

/// Writes CBOR items and other frame fields into memory that is large enough.
struct CBORWriter {
    let memory: UnsafeMutableRawBufferPointer
    private(set) var position = 0

    init(memory: UnsafeMutableRawBufferPointer) {
        self.memory = memory
    }

    mutating func write(_ set: ValueSet) {
        head(.map, UInt64(set.entries.count))
        for entry in set.entries {
            text(entry.key)
            write(entry.value)
        }
    }

    private mutating func write(_ value: ValueSet.Value) {
        switch value {
        case .string(let value): text(value)
        case .bool(let value): byte(value ? CBOR.trueByte : CBOR.falseByte)
        case .int(let value): integer(value)
        case .uint(let value): head(.unsigned, value)
        case .double(let value): float(value)
        case .date(let date):
            head(.tag, CBOR.epochTag)
            switch CBOR.Epoch(date.timeIntervalSince1970) {
            case .seconds(let seconds): integer(seconds)
            case .fraction(let seconds): float(seconds)
            }
        case .uuid(let uuid):
            head(.tag, CBOR.uuidTag)
            head(.bytes, 16)
            withUnsafeBytes(of: uuid.uuid) { raw($0) }
        case .data(let bytes):
            head(.bytes, UInt64(bytes.count))
            bytes.withUnsafeBytes { raw($0) }
        case .array(let values):
            head(.array, UInt64(values.count))
            for value in values { write(value) }
        case .valueSet(let set): write(set)
        }
    }

    private mutating func integer(_ value: Int64) {
        head(value < 0 ? .negative : .unsigned, argument(of: value))
    }

    private mutating func float(_ value: Double) {
        switch CBOR.ShortestFloat(value) {
        case .half(let bits):
            byte(CBOR.halfByte)
            bigEndian(bits)
        case .float(let bits):
            byte(CBOR.floatByte)
            bigEndian(bits)
        case .double(let bits):
            byte(CBOR.doubleByte)
            bigEndian(bits)
        }
    }

    private mutating func text(_ value: String) {
        var value = value
        head(.text, UInt64(value.utf8.count))
        value.withUTF8 { raw(UnsafeRawBufferPointer($0)) }
    }

    mutating func text(_ value: StaticString) {
        head(.text, UInt64(value.utf8CodeUnitCount))
        raw(UnsafeRawBufferPointer(start: value.utf8Start, count: value.utf8CodeUnitCount))
    }

    mutating func head(_ major: CBOR.Major, _ argument: UInt64) {
        let first = major.rawValue << 5
        switch argument {
        case 0..<24: byte(first | UInt8(truncatingIfNeeded: argument))
        case 24..<0x100:
            byte(first | 24)
            byte(UInt8(truncatingIfNeeded: argument))
        case 0x100..<0x1_0000:
            byte(first | 25)
            bigEndian(UInt16(truncatingIfNeeded: argument))
        case 0x1_0000..<0x1_0000_0000:
            byte(first | 26)
            bigEndian(UInt32(truncatingIfNeeded: argument))
        default:
            byte(first | 27)
            bigEndian(argument)
        }
    }

    mutating func byte(_ value: UInt8) {
        memory.storeBytes(of: value, toByteOffset: position, as: UInt8.self)
        position += 1
    }

    mutating func bigEndian<Integer: FixedWidthInteger & BitwiseCopyable>(_ value: Integer) {
        memory.storeBytes(of: value.bigEndian, toByteOffset: position, as: Integer.self)
        position += MemoryLayout<Integer>.size
    }

    private mutating func raw(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, let target = memory.baseAddress, !bytes.isEmpty else { return }
        precondition(bytes.count <= memory.count - position)
        target.advanced(by: position).copyMemory(from: source, byteCount: bytes.count)
        position += bytes.count
    }
}
