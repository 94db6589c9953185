// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import HTTPTypes
import NIOCore
import RelayProtocol

/// Carries a tunnel's bytes in binary WebSocket frames. A close frame ends its sender's bytes, as a FIN does on plain TCP.
final class TunnelWebSocketHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Frames up to this size are copied into one buffer rather than sent in pieces.
    private static let smallFrame = 1 << 10

    private var reader = TunnelFrameReader()
    private var isInputDone = false
    private var isCloseSent = false
    private var isCloseWritten = false
    private var isClosing = false
    /// Read buffers, used in rotation: when one is used again, its content has mostly been written and its memory is free.
    private var payloads = Array(repeating: ByteBuffer(), count: 4)
    private var payloadIndex = 0
    /// One frame for everything written before a flush.
    private var frame: [ByteBuffer] = []
    private var frameBytes = 0
    private var framePromise: EventLoopPromise<Void>?
    private var pongs = PongQueue()

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isInputDone else { return }
        var bytes = Self.unwrapInboundIn(data)
        payloadIndex = (payloadIndex + 1) % payloads.count
        payloads[payloadIndex].clear(minimumCapacity: bytes.readableBytes)
        do throws(WebSocketReader.Violation) {
            while let event = try reader.next(&bytes, payload: &payloads[payloadIndex]) {
                switch event {
                case .ping(let content): pong(pongs.received(content), context: context)
                case .close: isInputDone = true
                }
                if isInputDone { break }
            }
        } catch {
            isInputDone = true
            return fail(error, context: context)
        }
        if payloads[payloadIndex].readableBytes > 0 { context.fireChannelRead(Self.wrapInboundOut(payloads[payloadIndex])) }
        if isInputDone {
            context.fireChannelReadComplete()
            context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case ChannelEvent.inputClosed = event else { return context.fireUserInboundEventTriggered(event) }
        // Without a preceding close frame, the connection broke.
        if !isInputDone { context.close(promise: nil) }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard !isCloseSent else { return promise?.fail(ChannelError.outputClosed) ?? () }
        let buffer = Self.unwrapOutboundIn(data)
        frame.append(buffer)
        frameBytes += buffer.readableBytes
        guard let promise else { return }
        if let framePromise { promise.futureResult.cascade(to: framePromise) }
        framePromise = promise
    }

    func flush(context: ChannelHandlerContext) {
        writeFrame(context: context)
        context.flush()
    }

    private func writeFrame(context: ChannelHandlerContext) {
        guard frameBytes > 0 else { return }
        let isSmall = frameBytes <= Self.smallFrame
        var head = context.channel.allocator.buffer(capacity: isSmall ? frameBytes + 4 : WebSocketHeader.maximumByteCount)
        head.writeWebSocketHeader(opcode: .binary, length: frameBytes)
        if isSmall {
            for buffer in frame { head.writeImmutableBuffer(buffer) }
            context.write(Self.wrapOutboundOut(head), promise: framePromise)
        } else {
            context.write(Self.wrapOutboundOut(head), promise: nil)
            for (index, buffer) in frame.enumerated() {
                context.write(Self.wrapOutboundOut(buffer), promise: index == frame.count - 1 ? framePromise : nil)
            }
        }
        frame.removeAll(keepingCapacity: true)
        frameBytes = 0
        framePromise = nil
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        switch mode {
        case .output:
            sendClose(code: 1000, context: context)
            promise?.succeed()
        case .all where isInputDone && isCloseSent && !isCloseWritten:
            // Both directions have ended; only the last frame must still be sent.
            isClosing = true
            context.closeSoon()
            promise?.succeed()
        case .all, .input:
            context.close(mode: mode, promise: promise)
        }
    }

    private func sendClose(code: UInt16, context: ChannelHandlerContext) {
        guard !isCloseSent else { return }
        isCloseSent = true
        writeFrame(context: context)
        var bytes = ByteBuffer()
        bytes.writeWebSocketFrame(opcode: .close, payload: ByteBuffer(integer: code))
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenSuccess {
            self.isCloseWritten = true
            if self.isClosing { context.close(promise: nil) }
        }
        context.writeAndFlush(Self.wrapOutboundOut(bytes), promise: written)
    }

    private func fail(_ violation: WebSocketReader.Violation, context: ChannelHandlerContext) {
        sendClose(code: violation.code, context: context)
        context.closeSoon()
    }

    private func pong(_ content: ByteBuffer?, context: ChannelHandlerContext) {
        guard let content, !isCloseSent else { return }
        var bytes = ByteBuffer()
        bytes.writeWebSocketFrame(opcode: .pong, payload: content)
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenSuccess {
            self.pong(self.pongs.sent(), context: context)
        }
        context.writeAndFlush(Self.wrapOutboundOut(bytes), promise: written)
    }
}

extension TunnelHandler.Greeting {
    /// A WebSocket client learns the result from the response to its upgrade request.
    init(_ upgrade: TunnelUpgrade, paired: @escaping () -> Void) {
        self.init(
            transport: .webSocket,
            accept: { handler in
                paired()
                try upgrade.accept([TunnelWebSocketHandler(), handler])
            },
            refuse: { status in
                let problem: ProblemDetails =
                    switch status {
                    case .timedOut: ProblemDetails(.gatewayTimeout, "The other side did not connect in time.")
                    case .closed: ProblemDetails(.gone, "The tunnel was cancelled or declined, or the relay stops.")
                    case .replaced: ProblemDetails(.conflict, "A newer connection of this side replaced this one.")
                    case .refused, .paired: .noTunnel
                    }
                upgrade.refuse(problem)
            }
        )
    }
}
