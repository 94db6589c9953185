// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
import RelayProtocol

/// Reads the frames of a WebSocket client (RFC 6455 §5). The announced length of a message is checked before its bytes are kept, so that
/// an unauthenticated connection cannot make the relay hold more than the current limit.
package struct WebSocketReader {
    package enum Event: Hashable, Sendable {
        case text(ByteBuffer)
        /// Part of a text message that has not ended.
        case fragment
        case ping(ByteBuffer)
        case pong
        /// `code` is `nil` if the client gave none.
        case close(code: UInt16?)
    }

    /// A protocol error that ends the connection.
    package struct Violation: Error, Hashable, Sendable {
        package var code: UInt16
        package var reason: String
    }

    /// The maximum size of a message, with all its fragments.
    package var maximumMessageBytes: Int
    /// The maximum number of fragments of a message. Some clients send each JSON token as one fragment, which makes four for each value
    /// that a message may have; others send one per KiB.
    package var maximumFragments: Int { 4 * JSONIndex.maximumValues + maximumMessageBytes / 1_024 }
    private var unread = ByteBuffer()
    /// The unmasked start of an incomplete frame. A long frame is unmasked as it arrives, so that its last piece costs no more than the
    /// others.
    private var partial: (header: WebSocketHeader, payload: ByteBuffer)?
    /// The fragments so far of an incomplete message.
    private var fragments: ByteBuffer?
    private var fragmentCount = 0

    package init(maximumMessageBytes: Int) { self.maximumMessageBytes = maximumMessageBytes }

    package mutating func append(_ bytes: ByteBuffer) {
        var bytes = bytes
        guard unread.readableBytes > 0 else { return unread = bytes }
        // Once per read, because a read may contain thousands of frames.
        unread.discardReadBytes()
        unread.writeBuffer(&bytes)
    }

    /// The next complete event.
    package mutating func next() throws(Violation) -> Event? {
        guard case (let header, var payload)? = try nextFrame() else { return nil }
        switch header.opcode {
        case .ping: return .ping(payload)
        case .pong: return .pong
        case .close: return .close(code: try Self.closeCode(payload))
        case .text, .binary, .continuation:
            // The buffer must have one owner, or each fragment would copy all previous ones.
            var message = fragments.take() ?? ByteBuffer()
            if message.readableBytes == 0 { message = payload } else { message.writeBuffer(&payload) }
            guard header.isFinal else {
                fragments = message
                fragmentCount += 1
                guard fragmentCount < maximumFragments else {
                    throw Violation(code: 1008, reason: "a message has at most \(maximumFragments) fragments here")
                }
                return .fragment
            }
            fragmentCount = 0
            return .text(message)
        }
    }

    private mutating func nextFrame() throws(Violation) -> (WebSocketHeader, ByteBuffer)? {
        guard partial == nil else { return restOfPartial() }
        var bytes = unread
        guard let header = try readHeader(&bytes) else { return nil }
        guard var payload = bytes.readSlice(length: header.length) else {
            guard !header.opcode.isControl else { return nil }
            unread = bytes
            partial = (header, ByteBuffer())
            return restOfPartial()
        }
        unread = bytes
        if unread.readableBytes == 0 { unread = ByteBuffer() }
        payload.unmask(header.mask)
        return (header, payload)
    }

    private mutating func restOfPartial() -> (WebSocketHeader, ByteBuffer)? {
        // The payload must have one owner, or it would be copied.
        guard case (let header, var payload)? = partial.take() else { return nil }
        let count = payload.readableBytes
        payload.writeUnmasked(&unread, count: header.length - count, mask: header.mask, offset: count)
        if unread.readableBytes == 0 { unread = ByteBuffer() }
        guard payload.readableBytes == header.length else {
            partial = (header, payload)
            return nil
        }
        return (header, payload)
    }

    private func readHeader(_ bytes: inout ByteBuffer) throws(Violation) -> WebSocketHeader? {
        let room = maximumMessageBytes - (fragments?.readableBytes ?? 0)
        return try bytes.readWebSocketHeader { opcode, length throws(Violation) in
            guard opcode != .binary else { throw Violation(code: 1003, reason: "binary messages are not understood") }
            guard !opcode.isControl else { return }
            guard (opcode == .continuation) == (fragments != nil) else { throw .protocolError("fragments are out of order") }
            guard length <= UInt64(max(0, room)) else {
                throw Violation(code: 1009, reason: "a message has at most \(maximumMessageBytes) bytes here")
            }
        }
    }

    /// The code of a close frame.
    static func closeCode(_ payload: ByteBuffer) throws(Violation) -> UInt16? {
        var payload = payload
        guard payload.readableBytes != 0 else { return nil }
        guard let code = payload.readInteger(as: UInt16.self) else { throw .protocolError("a close code has two bytes") }
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: break
        default: throw .protocolError("this close code may not be sent")
        }
        guard String(validating: payload.readableBytesView, as: UTF8.self) != nil else {
            throw Violation(code: 1007, reason: "a close reason is UTF-8")
        }
        return code
    }
}

extension WebSocketReader.Violation {
    static func protocolError(_ reason: String) -> Self { Self(code: 1002, reason: reason) }
}

extension ByteBuffer {
    /// Writes a complete frame, unmasked, as a server does.
    mutating func writeWebSocketFrame(opcode: WebSocketHeader.Opcode, payload: ByteBuffer) {
        writeWebSocketHeader(opcode: opcode, length: payload.readableBytes)
        writeImmutableBuffer(payload)
    }
}
