// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOWebSocket

/// A byte stream in the binary frames of a WebSocket (RFC 6455), for the client. Frame boundaries have no meaning.
final class TunnelWebSocketClientHandler: ChannelDuplexHandler {
    typealias InboundIn = WebSocketFrame
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = WebSocketFrame

    /// The maximum size of a sent frame, because a receiver or proxy may buffer whole frames.
    static let frameBytes = 64 << 10

    private var isInMessage = false
    private var isClosing = false

    // MARK: Inbound

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        guard !isClosing else { return }
        guard frame.maskKey == nil, !frame.rsv1, !frame.rsv2, !frame.rsv3 else { return end(context, 1002) }
        switch frame.opcode {
        case .binary where !isInMessage, .continuation where isInMessage:
            isInMessage = !frame.fin
            if frame.data.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(frame.data)) }
        case .ping:
            // If the relay does not read, no pong is written, so that pongs do not fill memory.
            if context.channel.isWritable { write(context, .pong, frame.data, promise: nil) }
            context.flush()
        case .pong: break
        case .connectionClose: end(context, 1000)
        case .text: end(context, 1003)
        default: end(context, 1002)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let error = error as? NIOWebSocketError { return end(context, error == .invalidFrameLength ? 1009 : 1002) }
        context.fireErrorCaught(error)
    }

    /// Ends the stream.
    private func end(_ context: ChannelHandlerContext, _ code: UInt16) {
        writeClose(context, code)
        context.close(promise: nil)
    }

    // MARK: Outbound

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard !isClosing else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        var bytes = unwrapOutboundIn(data)
        while bytes.readableBytes > Self.frameBytes, let piece = bytes.readSlice(length: Self.frameBytes) {
            write(context, .binary, piece, promise: nil)
        }
        write(context, .binary, bytes, promise: promise)
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if mode == .all { writeClose(context, 1000) }
        context.close(mode: mode, promise: promise)
    }

    private func writeClose(_ context: ChannelHandlerContext, _ code: UInt16) {
        guard !isClosing else { return }
        isClosing = true
        write(context, .connectionClose, ByteBuffer(integer: code), promise: nil)
        context.flush()
    }

    private func write(_ context: ChannelHandlerContext, _ opcode: WebSocketOpcode, _ data: ByteBuffer, promise: EventLoopPromise<Void>?) {
        context.write(wrapOutboundOut(WebSocketFrame(fin: true, opcode: opcode, maskKey: .random(), data: data)), promise: promise)
    }
}
