// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
import NIOWebSocket

/// An open control channel: text frames both ways.
package final class ControlConnection: Sendable {
    package enum Event: Sendable {
        case dialFailed(DialFailure)
        case opened(ControlConnection)
        /// A message.
        case text(ByteBuffer)
        /// A sign of life.
        case bytesReceived
        /// So many bytes of messages have left.
        case written(bytes: Int)
        /// The connection is over; with the WebSocket code that one side gave, if one did. Nothing follows.
        case closed(code: UInt16?)
    }

    /// How long the relay has to answer a close.
    static let closingTime = TimeAmount.seconds(1)

    private let channel: any Channel
    private let handler: NIOLoopBound<ControlFrameHandler>

    init(channel: any Channel, handler: NIOLoopBound<ControlFrameHandler>) {
        self.channel = channel
        self.handler = handler
    }

    /// Sends a message. `written` says when the network has taken it; whoever sends more before that is who bounds it.
    package func send(_ message: ByteBuffer) { run { $0.send(message) } }

    package func ping() { run { $0.ping() } }

    /// Says why, and closes, whatever the relay does, within two seconds. `closed` still follows.
    package func close(code: UInt16, reason: String) { run { $0.close(code: code, reason: reason) } }

    /// Without a word.
    func drop() { channel.close(promise: nil) }

    private func run(_ body: @escaping @Sendable (ControlFrameHandler) -> Void) {
        let handler = handler
        if channel.eventLoop.inEventLoop { body(handler.value) } else { channel.eventLoop.execute { body(handler.value) } }
    }
}

/// Puts messages into masked frames, and messages together from frames (RFC 6455).
final class ControlFrameHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private enum State {
        case open
        case closing(Scheduled<Void>)
        case closed
    }

    private let maximumMessageBytes: Int
    private let events: @Sendable (ControlConnection.Event) -> Void
    private var context: ChannelHandlerContext?
    private var state = State.open
    /// Of a message that has not ended.
    private var fragments: ByteBuffer?
    private var closeCode: UInt16?
    private var isFlushing = false

    init(maximumMessageBytes: Int, events: @escaping @Sendable (ControlConnection.Event) -> Void) {
        self.maximumMessageBytes = maximumMessageBytes
        self.events = events
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        end()
    }

    // MARK: Outbound

    func send(_ message: ByteBuffer) {
        guard case .open = state, let context else { return }
        let (events, bytes) = (events, message.readableBytes)
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.whenSuccess { events(.written(bytes: bytes)) }
        write(.text, message, promise: promise)
    }

    func ping() {
        guard case .open = state else { return }
        write(.ping, ByteBuffer())
    }

    func close(code: UInt16, reason: String) {
        guard case .open = state, let context else { return }
        var payload = ByteBuffer()
        payload.writeInteger(code)
        // A control frame holds 125 bytes, and the reason must stay UTF-8.
        var reason = reason
        while reason.utf8.count > 123 { reason.removeLast() }
        payload.writeString(reason)
        write(.connectionClose, payload)
        closeCode = closeCode ?? code
        let channel = context.channel
        state = .closing(context.eventLoop.scheduleTask(in: ControlConnection.closingTime) { channel.close(promise: nil) })
    }

    private func write(_ opcode: WebSocketOpcode, _ payload: ByteBuffer, promise: EventLoopPromise<Void>? = nil) {
        guard let context else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        context.write(wrapOutboundOut(WebSocketFrame(fin: true, opcode: opcode, maskKey: .random(), data: payload)), promise: promise)
        guard !isFlushing else { return }
        // One flush for all that is written in this turn of the loop.
        isFlushing = true
        context.eventLoop.assumeIsolated().execute {
            self.isFlushing = false
            self.context?.flush()
        }
    }

    // MARK: Inbound

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        guard frame.maskKey == nil, !frame.rsv1, !frame.rsv2, !frame.rsv3 else { return violated(1002) }
        if case .open = state { events(.bytesReceived) }
        switch frame.opcode {
        case .text: fragments == nil ? collect(frame) : violated(1002)
        case .continuation: fragments != nil ? collect(frame) : violated(1002)
        case .ping:
            // A relay that pings but does not read gets no answers; that it pings is life enough.
            if case .open = state, context.channel.isWritable { write(.pong, frame.data) }
        case .pong: break
        case .connectionClose: peerClosed(frame.data)
        case .binary: violated(1003)
        default: violated(1002)
        }
    }

    private func collect(_ frame: WebSocketFrame) {
        guard case .open = state else { return }
        var (message, data) = (fragments ?? ByteBuffer(), frame.data)
        guard data.readableBytes <= maximumMessageBytes - message.readableBytes else { return violated(1009) }
        if message.readableBytes == 0 { message = data } else { message.writeBuffer(&data) }
        fragments = frame.fin ? nil : message
        guard frame.fin else { return }
        guard String(validating: message.readableBytesView, as: UTF8.self) != nil else { return violated(1007) }
        events(.text(message))
    }

    private func peerClosed(_ payload: ByteBuffer) {
        var payload = payload
        if case .open = state {
            closeCode = payload.readInteger()
            close(code: 1000, reason: "")
        }
        // Behind the close frame that may still be on its way.
        let context = context
        context?.eventLoop.assumeIsolated().execute { context?.close(promise: nil) }
    }

    private func violated(_ code: UInt16) {
        fragments = nil
        close(code: code, reason: "")
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? NIOWebSocketError else {
            context.close(promise: nil)
            return
        }
        violated(error == .invalidFrameLength ? 1009 : 1002)
    }

    func channelInactive(context: ChannelHandlerContext) {
        end()
        context.fireChannelInactive()
    }

    private func end() {
        if case .closing(let timer) = state { timer.cancel() }
        if case .closed = state { return }
        state = .closed
        fragments = nil
        events(.closed(code: closeCode))
    }
}
