// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

// The relay has its own WebSocket reader, by messages on the control channel and as a stream in tunnels, because NIOWebSocket cannot keep
// its bounds. Its decoder has one maximum frame size per connection, while a client may send more after `welcome`. Its aggregator keeps
// an object per fragment, so that empty fragments take megabytes, or it rejects short fragments, which real clients send. It does not
// report a length that is encoded longer than necessary. And it passes on all frames of a read at once, while the relay must stop between
// two messages when the read budget is used.

/// The header of a client's frame (RFC 6455 §5.2).
package struct WebSocketHeader: Hashable, Sendable {
    package enum Opcode: UInt8, Sendable {
        case continuation = 0
        case text = 1
        case binary = 2
        case close = 8
        case ping = 9
        case pong = 10

        package var isControl: Bool { rawValue >= 8 }
    }

    package var isFinal: Bool
    package var opcode: Opcode
    package var length: Int
    /// The first byte of the mask is the lowest.
    package var mask: UInt32

    /// The maximum length of a header.
    static let maximumByteCount = 14
}

extension ByteBuffer {
    /// Reads a header from the front of the buffer, if it is complete.
    /// - Parameter check: checks opcode and length before further bytes must arrive.
    mutating func readWebSocketHeader(
        check: (WebSocketHeader.Opcode, UInt64) throws(WebSocketReader.Violation) -> Void = { _, _ in }
    ) throws(WebSocketReader.Violation) -> WebSocketHeader? {
        var bytes = self
        guard let first = bytes.readInteger(as: UInt8.self), let second = bytes.readInteger(as: UInt8.self) else { return nil }
        guard first & 0x70 == 0 else { throw .protocolError("reserved bits are set") }
        guard let opcode = WebSocketHeader.Opcode(rawValue: first & 0x0F) else { throw .protocolError("this opcode is not known") }
        guard second & 0x80 != 0 else { throw .protocolError("a client's frames are masked") }
        let isFinal = first & 0x80 != 0
        let shortLength = second & 0x7F
        if opcode.isControl {
            guard isFinal, shortLength <= 125 else { throw .protocolError("a control frame is whole and has at most 125 bytes") }
        }
        let length: UInt64
        switch shortLength {
        case 126:
            guard let value = bytes.readInteger(as: UInt16.self) else { return nil }
            guard value >= 126 else { throw .protocolError("a length is not in its shortest form") }
            length = UInt64(value)
        case 127:
            guard let value = bytes.readInteger(as: UInt64.self) else { return nil }
            guard value > UInt64(UInt16.max) else { throw .protocolError("a length is not in its shortest form") }
            length = value
        default: length = UInt64(shortLength)
        }
        try check(opcode, length)
        guard let count = Int(exactly: length) else { throw .protocolError("a length has 63 bits") }
        guard let mask = bytes.readInteger(endianness: .little, as: UInt32.self) else { return nil }
        self = bytes
        return WebSocketHeader(isFinal: isFinal, opcode: opcode, length: count, mask: mask)
    }

    /// Writes the header of a complete frame, unmasked, as a server does.
    mutating func writeWebSocketHeader(opcode: WebSocketHeader.Opcode, length: Int) {
        writeInteger(0x80 | opcode.rawValue)
        switch length {
        case ...125: writeInteger(UInt8(truncatingIfNeeded: length))
        case ...0xFFFF:
            writeInteger(UInt8(126))
            writeInteger(UInt16(truncatingIfNeeded: length))
        default:
            writeInteger(UInt8(127))
            writeInteger(UInt64(length))
        }
    }

    /// Removes a client's mask.
    mutating func unmask(_ mask: UInt32) {
        guard mask != 0 else { return }
        var payload = self
        var clear = ByteBufferAllocator().buffer(capacity: payload.readableBytes)
        clear.writeUnmasked(&payload, count: payload.readableBytes, mask: mask, offset: 0)
        self = clear
    }

    /// Moves masked bytes from the front of another buffer, and removes the mask.
    /// - Parameter offset: how many bytes of the frame's payload precede them.
    mutating func writeUnmasked(_ masked: inout ByteBuffer, count: Int, mask: UInt32, offset: Int) {
        let count = min(count, masked.readableBytes)
        // Rotates the mask so that the byte for the offset is the lowest. A word of eight bytes contains the mask twice.
        let shift = UInt32(truncatingIfNeeded: (offset & 3) * 8)
        let turned = shift == 0 ? mask : mask >> shift | mask << (32 - shift)
        let word = UInt64(turned) | UInt64(turned) << 32
        masked.readWithUnsafeReadableBytes { source in
            writeWithUnsafeMutableBytes(minimumWritableBytes: count) { target in
                var index = 0
                while index + 8 <= count {
                    let bytes = source.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                    target.storeBytes(of: bytes ^ word.littleEndian, toByteOffset: index, as: UInt64.self)
                    index += 8
                }
                while index < count {
                    target[index] = source[index] ^ UInt8(truncatingIfNeeded: word >> UInt64((index & 7) * 8))
                    index += 1
                }
                return count
            }
            return count
        }
    }
}
