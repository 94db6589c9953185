// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// Encodes frames.
package enum SessionFrameEncoder {
    /// Appends the frame.
    package static func write(_ frame: SessionFrame, to buffer: inout ByteBuffer) {
        guard var bytes = writeHead(of: frame, to: &buffer) else { return }
        buffer.writeBuffer(&bytes)
    }

    /// Appends the frame without its trailing message bytes, and returns those, so that the caller can write them as a
    /// separate buffer without a copy. `nil` if the frame is complete.
    package static func writeHead(of frame: SessionFrame, to buffer: inout ByteBuffer) -> ByteBuffer? {
        let payload = frame.payload
        switch payload {
        case .request(let message, let timeLeft):
            return writeHead(of: frame, message, SessionMessageMetadata(message, timeLeft: timeLeft), to: &buffer)
        case .response(let message):
            return writeHead(of: frame, message, SessionMessageMetadata(message, timeLeft: nil), to: &buffer)
        default: break
        }
        buffer.writeMultipleIntegers(
            UInt32(truncatingIfNeeded: payload.encodedSize),
            payload.type.rawValue,
            payload.flags.rawValue,
            frame.connection.rawValue,
            frame.number
        )
        switch payload {
        case .request, .response: break
        case .data(let bytes, of: _, isLast: _):
            return bytes
        case .settings(let settings):
            buffer.writeBytes(settings.map.encodedMetadata)
        case .open(let opening):
            let metadata = opening.map.encodedMetadata
            buffer.writeInteger(UInt16(truncatingIfNeeded: metadata.count))
            buffer.writeBytes(metadata)
        case .refused(let rejection): write(rejection, to: &buffer)
        case .error(let failure): write(failure, to: &buffer)
        case .close(let closure): write(closure, to: &buffer)
        case .window(let credit): buffer.writeInteger(credit)
        case .ping(let value), .pong(let value), .ack(let value), .moved(let value): buffer.writeInteger(value)
        case .goaway(let goaway):
            buffer.writeMultipleIntegers(goaway.lastConnection.rawValue, goaway.code)
            buffer.writeString(goaway.message)
        case .opened, .grant, .cancel: break
        }
        return nil
    }

    /// Writes the head of the most frequent frames in one write, because each separate write checks the buffer's uniqueness and capacity.
    private static func writeHead(
        of frame: SessionFrame,
        _ message: SessionFrame.Message,
        _ metadata: SessionMessageMetadata,
        to buffer: inout ByteBuffer
    ) -> ByteBuffer? {
        let metadataSize = metadata.encodedSize
        let bytes: ByteBuffer? = if case .inline(let bytes) = message { bytes } else { nil }
        buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: SessionWire.headerBytes + 2 + metadataSize) { memory in
            var writer = CBORWriter(memory: memory)
            writer.bigEndian(UInt32(truncatingIfNeeded: 2 + metadataSize + (bytes?.readableBytes ?? 0)))
            writer.byte(frame.payload.type.rawValue)
            writer.byte(frame.payload.flags.rawValue)
            writer.bigEndian(frame.connection.rawValue)
            writer.bigEndian(frame.number)
            writer.bigEndian(UInt16(truncatingIfNeeded: metadataSize))
            metadata.write(with: &writer)
            return writer.position
        }
        return bytes
    }

    private static func write<Code>(_ reason: SessionReason<Code>, to buffer: inout ByteBuffer) {
        buffer.writeInteger(reason.code.rawValue)
        buffer.writeString(reason.message)
    }
}

extension SessionFrame.Payload {
    /// The size of the body.
    var encodedSize: Int {
        switch self {
        case .request(let message, let timeLeft):
            2 + SessionMessageMetadata(message, timeLeft: timeLeft).encodedSize + message.inlineSize
        case .response(let message): 2 + SessionMessageMetadata(message, timeLeft: nil).encodedSize + message.inlineSize
        case .data(let bytes, of: _, isLast: _): bytes.readableBytes
        case .opened, .grant, .cancel: 0
        case .window: 4
        case .ping, .pong, .ack, .moved: 8
        case .refused(let rejection): rejection.encodedSize
        case .error(let failure): failure.encodedSize
        case .close(let closure): closure.encodedSize
        case .goaway(let goaway): 6 + goaway.message.utf8.count
        case .settings(let settings): settings.map.encodedMetadata.count
        case .open(let opening): 2 + opening.map.encodedMetadata.count
        }
    }
}

extension SessionFrame.Message {
    fileprivate var inlineSize: Int {
        if case .inline(let bytes) = self { bytes.readableBytes } else { 0 }
    }
}

extension ValueSet {
    /// The encoded map. Maps of text and integers always encode.
    var encodedMetadata: [UInt8] {
        (try? encodedBytes()) ?? []
    }
}
