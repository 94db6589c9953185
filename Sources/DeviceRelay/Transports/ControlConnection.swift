// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
import NIOWebSocket

/// An open control channel: text frames in both directions.
package final class ControlConnection: Sendable {
    package enum Event: Sendable {
        case dialFailed(DialFailure)
        case opened(ControlConnection)
        /// A message.
        case text(ByteBuffer)
        /// The relay has sent a frame.
        case bytesReceived
        /// The network has accepted this number of message bytes.
        case written(bytes: Int)
        /// The connection has ended; with the WebSocket code that one side sent, if any. No event follows.
        case closed(code: UInt16?)
    }

    /// The relay's time limit to answer a close frame.
    static let closingTime = TimeAmount.seconds(1)

    let channel: any Channel
    private let handler: NIOLoopBound<ControlFrameHandler>

    init(channel: any Channel, handler: NIOLoopBound<ControlFrameHandler>) {
        self.channel = channel
        self.handler = handler
    }

    /// Sends a message. The event `written` reports when the network has accepted it. The caller bounds the bytes in between.
    package func send(_ message: ByteBuffer) { run { $0.send(message) } }

    package func ping() { run { $0.ping() } }

    /// Sends a close frame with the reason, and closes within two seconds, even if the relay does not answer. `closed` follows.
    package func close(code: UInt16, reason: String) { run { $0.close(code: code, reason: reason) } }

    /// Reads what the relay sends, or leaves it to the network. The bytes of one read may still follow.
    package func setReading(_ isReading: Bool) { run { $0.setReading(isReading) } }

    /// Closes without a close frame.
    func drop() { channel.close(promise: nil) }

    private func run(_ body: @escaping @Sendable (ControlFrameHandler) -> Void) {
        let handler = handler
        if channel.eventLoop.inEventLoop { body(handler.value) } else { channel.eventLoop.execute { body(handler.value) } }
    }
}

/// Writes messages as masked frames, and assembles messages from received frames (RFC 6455).
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
    /// The received fragments of an incomplete message.
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

    func setReading(_ isReading: Bool) { try? context?.channel.syncOptions?.setOption(.autoRead, value: isReading) }

    func close(code: UInt16, reason: String) {
        guard case .open = state, let context else { return }
        var payload = ByteBuffer()
        payload.writeInteger(code)
        // The end of the connection is read, also while messages are not.
        setReading(true)
        // A control frame holds 125 bytes, and the shortened reason must be valid UTF-8.
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
        // One flush for all frames that are written in this iteration of the event loop.
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
            // If the relay does not read, no pong is written, so that pongs do not fill memory.
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
        // Closes after the close frame is written.
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
