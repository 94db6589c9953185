// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

extension ValueSet {
    /// The bytes of memory that a message takes after decoding, computed from its encoding. An array of small numbers takes 24 times its
    /// encoded size. It is one pass over the heads of the items, without an allocation. For bytes that do not decode, the result has no
    /// meaning.
    package static func decodedMemory(of buffer: ByteBuffer) -> Int {
        buffer.withUnsafeReadableBytes { bytes in
            var memory = 0
            var position = 0
            while position < bytes.count, memory < enoughForAnyLimit {
                let first = bytes[position]
                position += 1
                guard let argument = argument(of: first, in: bytes, at: &position) else { return memory }
                let remaining = bytes.count - position
                switch CBOR.Major(rawValue: first >> 5) {
                case .bytes, .text:
                    guard argument <= UInt64(remaining) else { return memory }
                    position += Int(argument)
                    // Up to 15 bytes of text are stored in the value itself.
                    if argument > 15 || first >> 5 == CBOR.Major.bytes.rawValue { memory += objectBytes + Int(argument) }
                case .array:
                    guard argument <= UInt64(remaining) else { return memory }
                    memory += objectBytes + Int(argument) * MemoryLayout<Value>.stride
                case .map:
                    guard argument <= UInt64(remaining) else { return memory }
                    memory += objectBytes + Int(argument) * MemoryLayout<Entry>.stride
                case .unsigned, .negative, .tag, .simple, nil:
                    // Counted with the array or map that contains it.
                    break
                }
            }
            return memory
        }
    }

    /// The header of an array or text in memory, and the allocator's rounding.
    private static let objectBytes = 48
    /// Counting stops here, because heads may claim far more elements than there are.
    private static let enoughForAnyLimit = 1 << 40

    /// The argument of a head; `nil` if the bytes end before it, or if the head is reserved or indefinite.
    private static func argument(of first: UInt8, in bytes: UnsafeRawBufferPointer, at position: inout Int) -> UInt64? {
        let information = first & 0x1F
        guard information >= 24 else { return UInt64(information) }
        guard information <= 27 else { return nil }
        let width = 1 << Int(information - 24)
        guard bytes.count - position >= width else { return nil }
        defer { position += width }
        return bytes[position..<position + width].reduce(0) { $0 << 8 | UInt64($1) }
    }
}
