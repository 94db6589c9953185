// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// Reads what a WebSocket client sends (RFC 6455 §5). A message is judged by its announced length, before its bytes are
/// kept, so that a stranger cannot make the relay hold more than the limit of the moment.
package struct WebSocketReader {
    package enum Event: Hashable, Sendable {
        case text(ByteBuffer)
        case ping(ByteBuffer)
        case pong
        /// `code` is `nil` where the client gave none.
        case close(code: UInt16?)
    }

    /// What ends the connection.
    package struct Violation: Error, Hashable, Sendable {
        package var code: UInt16
        package var reason: String
    }

    /// The largest message, all its fragments together.
    package var maximumMessageBytes: Int
    private var unread = ByteBuffer()
    /// The fragments so far of a message that has not ended.
    private var fragments: ByteBuffer?

    package init(maximumMessageBytes: Int) { self.maximumMessageBytes = maximumMessageBytes }

    package mutating func append(_ bytes: ByteBuffer) {
        var bytes = bytes
        if unread.readableBytes == 0 { unread = bytes } else { unread.writeBuffer(&bytes) }
    }

    /// The next thing that is complete.
    package mutating func next() throws(Violation) -> Event? {
        while let (header, payload) = try nextFrame() {
            switch header.opcode {
            case .ping: return .ping(payload)
            case .pong: return .pong
            case .close: return try Self.close(payload)
            case .text, .continuation:
                var message = fragments ?? ByteBuffer()
                var payload = payload
                if message.readableBytes == 0 { message = payload } else { message.writeBuffer(&payload) }
                guard header.isFinal else {
                    fragments = message
                    continue
                }
                fragments = nil
                return .text(message)
            }
        }
        return nil
    }

    private enum Opcode: UInt8 {
        case continuation = 0
        case text = 1
        case close = 8
        case ping = 9
        case pong = 10

        var isControl: Bool { rawValue >= 8 }
    }

    private struct Header {
        var isFinal: Bool
        var opcode: Opcode
        var length: Int
        var mask: [UInt8]
    }

    private mutating func nextFrame() throws(Violation) -> (Header, ByteBuffer)? {
        var bytes = unread
        guard let header = try readHeader(&bytes), var payload = bytes.readSlice(length: header.length) else { return nil }
        unread = bytes
        if unread.readableBytes == 0 { unread = ByteBuffer() } else { unread.discardReadBytes() }
        payload.unmask(header.mask)
        return (header, payload)
    }

    private func readHeader(_ bytes: inout ByteBuffer) throws(Violation) -> Header? {
        guard let first = bytes.readInteger(as: UInt8.self), let second = bytes.readInteger(as: UInt8.self) else { return nil }
        guard first & 0x70 == 0 else { throw .protocolError("reserved bits are set") }
        guard first & 0x0F != 2 else { throw Violation(code: 1003, reason: "binary messages are not understood") }
        guard let opcode = Opcode(rawValue: first & 0x0F) else { throw .protocolError("this opcode is not known") }
        guard second & 0x80 != 0 else { throw .protocolError("a client's frames are masked") }
        let isFinal = first & 0x80 != 0
        let shortLength = second & 0x7F
        if opcode.isControl {
            guard isFinal, shortLength <= 125 else { throw .protocolError("a control frame is whole and has at most 125 bytes") }
        } else {
            guard (opcode == .continuation) == (fragments != nil) else { throw .protocolError("fragments are out of order") }
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
        let room = opcode.isControl ? 125 : max(0, maximumMessageBytes - (fragments?.readableBytes ?? 0))
        guard let count = Int(exactly: length), count <= room else {
            throw Violation(code: 1009, reason: "a message has at most \(maximumMessageBytes) bytes here")
        }
        guard let mask = bytes.readBytes(length: 4) else { return nil }
        return Header(isFinal: isFinal, opcode: opcode, length: count, mask: mask)
    }

    private static func close(_ payload: ByteBuffer) throws(Violation) -> Event {
        var payload = payload
        guard payload.readableBytes != 0 else { return .close(code: nil) }
        guard let code = payload.readInteger(as: UInt16.self) else { throw .protocolError("a close code has two bytes") }
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: break
        default: throw .protocolError("this close code is not one to send")
        }
        guard String(validating: payload.readableBytesView, as: UTF8.self) != nil else {
            throw Violation(code: 1007, reason: "a close reason is UTF-8")
        }
        return .close(code: code)
    }
}

extension WebSocketReader.Violation {
    fileprivate static func protocolError(_ reason: String) -> Self { Self(code: 1002, reason: reason) }
}

extension ByteBuffer {
    /// Applies a client's mask.
    fileprivate mutating func unmask(_ mask: [UInt8]) {
        guard mask.contains(where: { $0 != 0 }) else { return }
        withUnsafeMutableReadableBytes { bytes in
            mask.withUnsafeBufferPointer { mask in
                for index in bytes.indices { bytes[index] ^= mask[index & 3] }
            }
        }
    }

    /// Writes a whole frame as a server does: unmasked.
    mutating func writeWebSocketFrame(opcode: UInt8, payload: ByteBuffer) {
        writeInteger(0x80 | opcode)
        switch payload.readableBytes {
        case ...125: writeInteger(UInt8(truncatingIfNeeded: payload.readableBytes))
        case ...0xFFFF:
            writeInteger(UInt8(126))
            writeInteger(UInt16(truncatingIfNeeded: payload.readableBytes))
        default:
            writeInteger(UInt8(127))
            writeInteger(UInt64(payload.readableBytes))
        }
        writeImmutableBuffer(payload)
    }
}
