// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

// The relay reads WebSockets itself, on the control channel by messages and in tunnels as a stream. NIOWebSocket would not keep its bounds:
// its decoder has one largest frame for a connection's life, while a client may send more once it is known; its aggregator keeps an object for
// each fragment, so that empty ones hold megabytes, or refuses short fragments, which clients do send; it does not tell a length in a longer
// form than is needed; and it hands on all frames of a read at once, while the relay stops between two messages to give others their turn.

/// The head of a frame that a client sends (RFC 6455 §5.2).
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
    /// Its first byte is the lowest.
    package var mask: UInt32

    /// The longest head.
    static let maximumByteCount = 14
}

extension ByteBuffer {
    /// Reads a head off the front, if it is complete.
    /// - Parameter check: judges by opcode and length, before anything else has to arrive.
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

    /// Writes the head of a whole frame as a server does: unmasked.
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

    /// Applies a client's mask.
    mutating func unmask(_ mask: UInt32) {
        guard mask != 0 else { return }
        var payload = self
        var clear = ByteBufferAllocator().buffer(capacity: payload.readableBytes)
        clear.writeUnmasked(&payload, count: payload.readableBytes, mask: mask, offset: 0)
        self = clear
    }

    /// Moves bytes that a client has masked from the front of another buffer, without their mask.
    /// - Parameter offset: how many bytes of the frame's payload came before these.
    mutating func writeUnmasked(_ masked: inout ByteBuffer, count: Int, mask: UInt32, offset: Int) {
        let count = min(count, masked.readableBytes)
        // The byte at the offset is the lowest now, and the eight bytes of a word take the mask twice.
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
