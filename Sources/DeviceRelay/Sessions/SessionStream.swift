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
    private let moving: SessionLink?
    /// Called once, with what is established or the error.
    private var started: (@Sendable (Result<PeerLink, SessionStartError>) -> Void)?
    var start = Start.handshaking
    private var startTimer: Scheduled<Void>?
    private(set) var context: ChannelHandlerContext?
    /// The session that uses this stream, or is to use it.
    private var session: SessionHandler?
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

    // MARK: The start

    private func handshakeCompleted(_ name: String?, _ context: ChannelHandlerContext) {
        guard case .handshaking = start, let peer = environment.peer() else { return failStart(.notAuthentic) }
        if name == BulkWire.applicationProtocol { return startBulk(with: peer, context) }
        guard name == SessionWire.applicationProtocol else { return failStart(.notAuthentic) }
        start = .greeting
        if let moving {
            // A session ends while a way to its peer is looked for, or another stream is faster.
            guard moving.eventLoop === context.eventLoop, moving.handler.peer == peer, let settings = moving.handler.beginMove(on: self)
            else { return failStart(.broken) }
            session = moving.handler
            write(SessionFrame(.settings(settings)))
            flush()
        } else if environment.role == .client {
            begin(with: peer, context).settle()
        }
    }

    /// Begins a session on this stream.
    private func begin(with peer: EndpointID, _ context: ChannelHandlerContext) -> SessionHandler {
        let session = SessionHandler(environment, with: peer, on: self, context.channel.eventLoop)
        self.session = session
        session.change { $0.start(at: $1, into: &$2) }
        return session
    }

    /// Handles the first frame of the peer: its settings for a new session, the request to move one here, or the answer to such a request.
    private func takeFirstFrame() {
        guard let context, let peer = environment.peer() else { return }
        guard moving != nil || session == nil else { return takeSettings() }
        let frame: SessionFrame
        do throws(SessionError) {
            guard let next = try decoder.next() else { return }
            frame = next
        } catch {
            guard moving == nil else { return failStart(.broken) }
            // The session reads the error again, and tells the peer.
            _ = begin(with: peer, context)
            return takeSettings()
        }
        if moving != nil {
            guard let session, session.takeAnswer(frame, on: self) else { return failStart(.broken) }
            finishStart(session.session.map { .success(.moved($0)) } ?? .failure(.broken))
        } else if case .settings(let settings) = frame.payload, settings.move != nil {
            return accept(settings, of: peer, context)
        } else {
            let session = begin(with: peer, context)
            session.change { $0.receive(frame, at: $1, into: &$2) }
            if session.machine.end == nil { succeedStart(session) }
        }
        session?.received(on: self)
    }

    private func takeSettings() {
        guard let session, session.receive(on: self, maximumFrames: 1) > 0, session.machine.end == nil else { return }
        succeedStart(session)
        session.received(on: self)
    }

    /// Moves a session of the peer here, if it is there.
    private func accept(_ settings: SessionSettings, of peer: EndpointID, _ context: ChannelHandlerContext) {
        var refusal = SessionError.invalidMove
        if let id = settings.session, let link = environment.movable?.session(id, of: peer), link.eventLoop === context.eventLoop {
            do throws(SessionError) {
                session = link.handler
                try link.handler.move(settings, to: self)
                finishStart(link.handler.session.map { .success(.moved($0)) } ?? .failure(.broken))
                return link.handler.received(on: self)
            } catch {
                refusal = error
                session = nil
            }
        }
        write(SessionFrame(.goaway(SessionGoAway(refusal))))
        flush()
        failStart(.broken)
    }

    private func succeedStart(_ session: SessionHandler) {
        finishStart(session.established().map { .success(.session($0)) } ?? .failure(.broken))
    }

    /// Fails the start. It has no effect after something is established.
    func failStart(_ error: SessionStartError) {
        if case .done = start { return }
        finishStart(.failure(error))
        close()
    }

    func finishStart(_ result: Result<PeerLink, SessionStartError>) {
        start = .done
        startTimer?.cancel()
        // Released here: from now on the waiting callers keep the session alive.
        let started = started
        self.started = nil
        started?(result)
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
