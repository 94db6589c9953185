// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

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
        head(value < 0 ? .negative : .unsigned, CBOR.argument(of: value))
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
