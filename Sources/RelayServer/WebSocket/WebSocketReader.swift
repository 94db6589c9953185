// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
import RelayProtocol

/// Reads what a WebSocket client sends (RFC 6455 §5). A message is judged by its announced length, before its bytes are
/// kept, so that an unauthenticated connection cannot make the relay hold more than the limit of the moment.
package struct WebSocketReader {
    package enum Event: Hashable, Sendable {
        case text(ByteBuffer)
        /// Part of a text that has not ended.
        case fragment
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
    /// How many fragments one message may come in. There are clients that send each token as one, which are four for each value that a
    /// message may have, and clients that send each KiB as one.
    package var maximumFragments: Int { 4 * JSONIndex.maximumValues + maximumMessageBytes / 1_024 }
    private var unread = ByteBuffer()
    /// A message's frame that has not all come, without its mask: a long one is read as it comes, so that its end costs no more than
    /// any other piece.
    private var partial: (header: WebSocketHeader, payload: ByteBuffer)?
    /// The fragments so far of a message that has not ended.
    private var fragments: ByteBuffer?
    private var fragmentCount = 0

    package init(maximumMessageBytes: Int) { self.maximumMessageBytes = maximumMessageBytes }

    package mutating func append(_ bytes: ByteBuffer) {
        var bytes = bytes
        guard unread.readableBytes > 0 else { return unread = bytes }
        // Once for a read, not for each of the thousands of frames that may be in it.
        unread.discardReadBytes()
        unread.writeBuffer(&bytes)
    }

    /// The next thing that is complete.
    package mutating func next() throws(Violation) -> Event? {
        guard case (let header, var payload)? = try nextFrame() else { return nil }
        switch header.opcode {
        case .ping: return .ping(payload)
        case .pong: return .pong
        case .close: return .close(code: try Self.closeCode(payload))
        case .text, .binary, .continuation:
            // Nobody else may hold the fragments, or each more would copy them all.
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
        // Nobody else may hold the payload, or it would be copied.
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

    /// The code in a close frame.
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
    /// Writes a whole frame as a server does: unmasked.
    mutating func writeWebSocketFrame(opcode: WebSocketHeader.Opcode, payload: ByteBuffer) {
        writeWebSocketHeader(opcode: opcode, length: payload.readableBytes)
        writeImmutableBuffer(payload)
    }
}
