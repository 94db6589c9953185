// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOSSL
import NIOTLS
import RelayProtocol

/// The channel handler of a byte stream between two endpoints, behind TLS. It begins a session, moves an existing one here, or gives the
/// channel to a bulk stream. Then it carries the frames of the session, which may later go on over another stream.
final class SessionStream: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundOut = ByteBuffer

    enum Start {
        case handshaking
        /// The peer's first frame is to come.
        case greeting
        /// The stream is a bulk stream. These are the first bytes of its token.
        case token(ByteBuffer)
        case done
        /// A bulk stream has taken over the channel.
        case replaced
    }

    let environment: SessionHandler.Environment
    /// The session that this side moves here.
    let moving: SessionLink?
    /// Called once, with what is established or the error.
    var started: (@Sendable (Result<PeerLink, SessionStartError>) -> Void)?
    var start = Start.handshaking
    var startTimer: Scheduled<Void>?
    private(set) var context: ChannelHandlerContext?
    /// The session that uses this stream, or is to use it.
    var session: SessionHandler?
    var decoder = SessionFrameDecoder()
    private var outgoing = ByteBuffer()
    private(set) var needsFlush = false

    /// - Parameter moving: The session to move here; `nil` for a new one.
    init(
        _ environment: SessionHandler.Environment,
        moving: SessionLink? = nil,
        started: @escaping @Sendable (Result<PeerLink, SessionStartError>) -> Void
    ) {
        (self.environment, self.moving, self.started) = (environment, moving, started)
    }

    // MARK: The channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        let isolated = context.eventLoop.assumeIsolated()
        startTimer = isolated.scheduleTask(in: environment.startTimeout) { self.failStart(.timedOut) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        if case .replaced = start {} else { ended() }
        self.context = nil
    }

    func channelInactive(context: ChannelHandlerContext) {
        ended()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch start {
        case .handshaking: return
        case .token(let before): return receiveToken(unwrapInboundIn(data), after: before, context)
        case .replaced: return context.fireChannelRead(data)
        case .greeting:
            decoder.append(unwrapInboundIn(data))
            takeFirstFrame()
        case .done:
            guard let session, session.machine.end == nil else { return }
            decoder.append(unwrapInboundIn(data))
            session.received(on: self)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        session?.settle()
        context.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { session?.becameWritable(self) }
        context.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case TLSUserEvent.handshakeCompleted(negotiatedProtocol: let name): handshakeCompleted(name, context)
        case ChannelEvent.inputClosed: context.close(promise: nil)
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case NIOSSLError.uncleanShutdown: failStart(.broken)
        case NIOSSLError.handshakeFailed(.sslError(let stack)) where stack == [.eofDuringHandshake]: failStart(.broken)
        // This includes the TLS alert by which the peer rejects this side's certificate.
        case is NIOSSLError, is BoringSSLError, is NIOSSLExtraError: failStart(.notAuthentic)
        default: failStart(.broken)
        }
        context.close(promise: nil)
    }

    // MARK: Writing

    var isWritable: Bool { context?.channel.isWritable ?? false }

    func write(_ frame: SessionFrame) {
        guard context != nil else { return }
        if outgoing.capacity == 0 { outgoing.reserveCapacity(1 << 10) }
        if var message = SessionFrameEncoder.writeHead(of: frame, to: &outgoing) {
            if message.readableBytes < SessionHandler.copiedBytes {
                outgoing.writeBuffer(&message)
            } else {
                writeOutgoing()
                context?.write(wrapOutboundOut(message), promise: nil)
            }
        }
        needsFlush = true
        if outgoing.readableBytes >= SessionHandler.outgoingBytes { writeOutgoing() }
    }

    private func writeOutgoing(promise: EventLoopPromise<Void>? = nil) {
        guard outgoing.readableBytes > 0 || promise != nil else { return }
        guard let context else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        context.write(wrapOutboundOut(outgoing), promise: promise)
        // A new buffer, because the channel now holds the old one.
        outgoing = ByteBuffer()
    }

    /// - Parameter promise: Succeeds when everything was written.
    func flush(_ promise: EventLoopPromise<Void>? = nil) {
        needsFlush = false
        writeOutgoing(promise: promise)
        context?.flush()
    }

    // MARK: The end

    /// Holds what arrives, or no longer.
    func holdReading(_ isHeld: Bool) {
        try? context?.channel.syncOptions?.setOption(.autoRead, value: !isHeld)
    }

    /// Closes the channel at once. Unsent data is lost.
    func close() { context?.close(promise: nil) }

    /// Closes the channel after all data is written.
    func closeWhenWritten() {
        guard let context else { return }
        let channel = context.channel
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.whenComplete { _ in channel.close(promise: nil) }
        flush(promise)
    }

    /// The session goes on over another stream.
    func leave() {
        session = nil
        close()
    }

    private func ended() {
        startTimer?.cancel()
        let session = session
        self.session = nil
        session?.streamEnded(self)
        failStart(.broken)
    }
}
