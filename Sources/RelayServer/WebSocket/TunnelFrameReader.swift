// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// Reads the WebSocket frames of a tunnel as a stream: the payload of binary messages is passed on as it arrives, independent of frame
/// and message boundaries. Only an incomplete header or control frame is kept.
package struct TunnelFrameReader {
    package enum Event: Hashable, Sendable {
        case ping(ByteBuffer)
        case close(code: UInt16?)
    }

    private enum State {
        case head
        case payload(WebSocketHeader, passed: Int)
        case control(WebSocketHeader)
    }

    private var state = State.head
    /// The bytes so far of an incomplete header or control frame.
    private var partial = ByteBuffer()
    private var isInMessage = false

    package init() {}

    /// Takes bytes from the front of the buffer, and appends the tunnel's bytes to `payload`.
    /// - Returns: the next control event; `nil` when the buffer is empty.
    package mutating func next(_ bytes: inout ByteBuffer, payload: inout ByteBuffer) throws(WebSocketReader.Violation) -> Event? {
        while true {
            switch state {
            case .head:
                guard let header = try readHeader(&bytes) else { return nil }
                try began(header)
            case .payload(let header, let passed):
                let count = min(header.length - passed, bytes.readableBytes)
                payload.writeUnmasked(&bytes, count: count, mask: header.mask, offset: passed)
                guard passed + count == header.length else {
                    state = .payload(header, passed: passed + count)
                    return nil
                }
                isInMessage = !header.isFinal
                state = .head
            case .control(let header):
                guard let content = readControl(header, &bytes) else { return nil }
                state = .head
                switch header.opcode {
                case .ping: return .ping(content)
                case .close: return .close(code: try WebSocketReader.closeCode(content))
                case .pong, .continuation, .text, .binary: break
                }
            }
        }
    }

    private mutating func began(_ header: WebSocketHeader) throws(WebSocketReader.Violation) {
        switch header.opcode {
        case .ping, .pong, .close: state = .control(header)
        case .text: throw WebSocketReader.Violation(code: 1003, reason: "a tunnel carries binary messages only")
        case .binary, .continuation:
            guard (header.opcode == .continuation) == isInMessage else { throw .protocolError("fragments are out of order") }
            state = .payload(header, passed: 0)
        }
    }

    /// A header is usually complete; an incomplete one is collected byte by byte.
    private mutating func readHeader(_ bytes: inout ByteBuffer) throws(WebSocketReader.Violation) -> WebSocketHeader? {
        if partial.readableBytes == 0, let header = try bytes.readWebSocketHeader() { return header }
        while let byte = bytes.readInteger(as: UInt8.self) {
            partial.writeInteger(byte)
            guard let header = try partial.readWebSocketHeader() else { continue }
            partial.clear()
            return header
        }
        return nil
    }

    private mutating func readControl(_ header: WebSocketHeader, _ bytes: inout ByteBuffer) -> ByteBuffer? {
        let count = min(header.length - partial.readableBytes, bytes.readableBytes)
        if var piece = bytes.readSlice(length: count) { partial.writeBuffer(&piece) }
        guard partial.readableBytes == header.length else { return nil }
        var content = partial
        partial = ByteBuffer()
        content.unmask(header.mask)
        return content
    }
}
