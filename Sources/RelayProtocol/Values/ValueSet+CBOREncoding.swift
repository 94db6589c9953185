// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import NIOCore

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
        case .int(let number): size += CBOR.headSize(CBOR.argument(of: number))
        case .uint(let number): size += CBOR.headSize(number)
        case .double(let number): size += CBOR.ShortestFloat(number).size
        case .date(let date):
            guard date.timeIntervalSince1970.isFinite else { throw ValueSetError(.dateNotFinite) }
            switch CBOR.Epoch(date.timeIntervalSince1970) {
            case .seconds(let seconds): size += 1 + CBOR.headSize(CBOR.argument(of: seconds))
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
