// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket
import RelayProtocol
import Testing

/// The tunnels of a relay, as far as endpoints see them: two sockets, plain or WebSocket, that are put together by their tunnel's id.
final class TestTunnelRelay: Sendable {
    /// How it handles a new connection.
    enum Behaviour: Sendable {
        case pair
        /// Answers with this status; a WebSocket's as that of HTTP.
        case refuse(Int)
        /// Accepts the connection and sends nothing.
        case silent
        case hangUp
    }

    struct State {
        var waiting: [TunnelID: Side] = [:]
        var open: [ObjectIdentifier: any Channel] = [:]
        var accepted = 0
        var socket = Behaviour.pair
        var webSocket = Behaviour.pair
        /// Those of WebSockets that are not open yet.
        var upgrading: [ObjectIdentifier: SpliceHandler] = [:]
        /// All that were put together.
        var splices: [SpliceHandler] = []
    }

    struct Side {
        let channel: any Channel
        let handler: SpliceHandler
        /// Sends that the other side is connected, or another status.
        let answer: (Int) -> Void
    }

    /// Everything happens on this loop.
    private let loop: any EventLoop
    private let state: NIOLoopBoundBox<State>
    private let listeners: [any Channel]
    let socketPort: Int
    private let address: RelayAddress

    init(socket: Behaviour = .pair, webSocket: Behaviour = .pair) async throws {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        self.loop = loop
        let state = NIOLoopBoundBox.makeBoxSendingValue(State(socket: socket, webSocket: webSocket), as: State.self, eventLoop: loop)
        self.state = state
        func listen(_ add: @escaping @Sendable (any Channel) throws -> Void) async throws -> any Channel {
            try await ServerBootstrap(group: loop)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                .childChannelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let id = ObjectIdentifier(channel)
                        state.value.open[id] = channel
                        state.value.accepted += 1
                        channel.closeFuture.whenComplete { _ in state.value.open[id] = nil }
                        try add(channel)
                    }
                }
                .bind(host: "127.0.0.1", port: 0).get()
        }
        let sockets = try await listen { channel in
            try channel.pipeline.syncOperations.addHandler(
                PrefaceReader { channel, tunnel, rest in
                    let handler = SpliceHandler()
                    try? channel.pipeline.syncOperations.addHandler(handler)
                    let side = Side(channel: channel, handler: handler) { handler.send(ByteBuffer(integer: UInt8($0))) }
                    Self.arrived(side, tunnel, state.value.socket, state)
                    if rest.readableBytes > 0 { handler.receive(rest) }
                }
            )
        }
        let webSockets = try await listen { channel in try Self.addWebSocket(to: channel, state) }
        listeners = [sockets, webSockets]
        socketPort = sockets.localAddress?.port ?? 0
        let url = try #require(URL(string: "http://127.0.0.1:\(webSockets.localAddress?.port ?? 0)"))
        address = try RelayAddress(url)
    }

    /// The entrances of both sides.
    /// - Parameter loop: The event loop of both sides; `nil` for any.
    func tunnel(
        _ kinds: (opener: [Way], target: [Way]) = ([.socket], [.socket]),
        on loop: (any EventLoop)? = nil
    ) -> (opener: TunnelTransport, target: TunnelTransport) {
        var random = SystemRandomNumberGenerator()
        let id = TunnelID(using: &random)
        return (transport(id, kinds.opener, on: loop), transport(id, kinds.target, on: loop))
    }

    enum Way: Hashable, Sendable {
        case socket, webSocket
        case other(String)
    }

    func transport(_ id: TunnelID, _ ways: [Way], on loop: (any EventLoop)? = nil) -> TunnelTransport {
        var patience = TunnelTransport.Timeouts()
        patience.answering = .milliseconds(50)
        return TunnelTransport(
            entrance(id, ways),
            relay: address,
            trust: RelayTrust(relay: nil),
            patience: patience,
            group: loop ?? MultiThreadedEventLoopGroup.singleton
        )
    }

    /// One side of a tunnel, as the relay states it to an endpoint.
    func entrance(_ id: TunnelID, _ ways: [Way] = [.socket]) -> TunnelEntrance {
        let urls = ways.map { way in
            switch way {
            case .socket: "tcp://:\(socketPort)"
            case .webSocket: "/v1/tunnels/\(id)"
            case .other(let url): url
            }
        }
        let token = Secret(Blob<BlobKinds.TunnelToken>(Array(repeating: 7, count: 32)))
        return TunnelEntrance(tunnel: id, token: token, urls: urls)
    }

    // MARK: Faults

    /// Connections that are open, and that there were.
    var counts: (open: Int, accepted: Int) {
        get async throws { try await loop.submit { [state] in (state.value.open.count, state.value.accepted) }.get() }
    }

    /// Breaks everything off.
    func breakOff() async throws {
        try await loop.submit { [state] in for channel in state.value.open.values { channel.close(promise: nil) } }.get()
    }

    /// From now on nothing is read on either side, or all is again.
    func hold(_ isHeld: Bool) async throws {
        try await loop.submit { [state] in for splice in state.value.splices { splice.isHeld = isHeld } }.get()
    }

    /// Returns when all connections are closed.
    func whenAllClosed() async throws {
        let futures = try await loop.submit { [state] in state.value.open.values.map(\.closeFuture) }.get()
        for future in futures { try? await future.get() }
    }

    func stop() async {
        for listener in listeners { try? await listener.close() }
        try? await breakOff()
        try? await whenAllClosed()
    }

    // MARK: Pairing

    private static func arrived(_ side: Side, _ tunnel: TunnelID, _ behaviour: Behaviour, _ state: NIOLoopBoundBox<State>) {
        switch behaviour {
        case .silent: break
        case .hangUp: side.channel.close(promise: nil)
        case .refuse(let status): side.answer(status)
        case .pair:
            guard let other = state.value.waiting.removeValue(forKey: tunnel), other.channel.isActive else {
                state.value.waiting[tunnel] = side
                return
            }
            for side in [side, other] { side.answer(0) }
            side.handler.pair(with: other.handler)
            state.value.splices += [side.handler, other.handler]
        }
    }

    /// A WebSocket's client gets its answer when the other side is there.
    private static func addWebSocket(to channel: any Channel, _ state: NIOLoopBoundBox<State>) throws {
        let upgrader = NIOWebSocketServerUpgrader(
            maxFrameSize: 64 << 10,
            shouldUpgrade: { channel, head in
                let decision = channel.eventLoop.makePromise(of: HTTPHeaders?.self)
                guard let tunnel = TunnelID(String(head.uri.dropFirst("/v1/tunnels/".count))),
                    head.headers["Authorization"] == ["Tunnel " + token],
                    head.headers["Sec-WebSocket-Protocol"] == ["device-relay.tunnel.v1"]
                else {
                    channel.close(promise: nil)
                    return channel.eventLoop.makeSucceededFuture(nil)
                }
                let handler = SpliceHandler()
                state.value.upgrading[ObjectIdentifier(channel)] = handler
                let side = Side(channel: channel, handler: handler) { status in
                    guard status > 0 else { return decision.succeed(["Sec-WebSocket-Protocol": "device-relay.tunnel.v1"]) }
                    let head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: status), headers: ["Content-Length": "0"])
                    channel.write(HTTPServerResponsePart.head(head), promise: nil)
                    channel.writeAndFlush(HTTPServerResponsePart.end(nil), promise: nil)
                }
                channel.closeFuture.whenComplete { _ in
                    state.value.upgrading[ObjectIdentifier(channel)] = nil
                    decision.succeed(nil)
                }
                arrived(side, tunnel, state.value.webSocket, state)
                return decision.futureResult
            },
            upgradePipelineHandler: { channel, head in
                channel.eventLoop.makeCompletedFuture {
                    guard let handler = state.value.upgrading.removeValue(forKey: ObjectIdentifier(channel)) else { return }
                    try channel.pipeline.syncOperations.addHandlers([ServerFrames(), handler])
                }
            }
        )
        try channel.pipeline.syncOperations.configureHTTPServerPipeline(
            withServerUpgrade: (upgraders: [upgrader], completionHandler: { _ in })
        )
    }

    /// What `transport` shows, as base64url.
    private static let token = Base64.url.encode(Array(repeating: UInt8(7), count: 32))
}

/// Takes `DRT1`, 16 bytes of id and 32 of token.
private final class PrefaceReader: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    private var bytes = ByteBuffer()
    private let onPreface: @Sendable (any Channel, TunnelID, ByteBuffer) -> Void

    init(_ onPreface: @escaping @Sendable (any Channel, TunnelID, ByteBuffer) -> Void) { self.onPreface = onPreface }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var more = unwrapInboundIn(data)
        bytes.writeBuffer(&more)
        guard bytes.readableBytes >= 52 else { return }
        guard bytes.readString(length: 4) == "DRT1", let id = bytes.readBytes(length: 16).flatMap({ TunnelID(bytes: $0) }),
            bytes.readBytes(length: 32) == Array(repeating: 7, count: 32)
        else { return context.close(promise: nil) }
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
        onPreface(context.channel, id, bytes)
    }
}

/// One side of a tunnel: what comes goes to the other, which holds it up while it is not writable.
final class SpliceHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var context: ChannelHandlerContext?
    private var partner: SpliceHandler?
    private var isReadWanted = false
    private var early: [ByteBuffer] = []
    var isHeld = false {
        didSet { if !isHeld { goOn() } }
    }

    private var unsent: [ByteBuffer] = []

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        let unsent = unsent
        self.unsent = []
        for bytes in unsent { send(bytes) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        partner = nil
    }

    func pair(with other: SpliceHandler) {
        (partner, other.partner) = (other, self)
        for side in [self, other] { side.goOn() }
    }

    private func goOn() {
        let early = early
        self.early = []
        for bytes in early { receive(bytes) }
        readIfWanted()
    }

    func send(_ bytes: ByteBuffer) {
        guard let context else { return unsent.append(bytes) }
        context.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
    }

    func receive(_ bytes: ByteBuffer) {
        if let partner, !isHeld { partner.send(bytes) } else { early.append(bytes) }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { receive(unwrapInboundIn(data)) }

    func read(context: ChannelHandlerContext) {
        isReadWanted = true
        readIfWanted()
    }

    private func readIfWanted() {
        guard isReadWanted, !isHeld, let context, partner?.context?.channel.isWritable ?? true else { return }
        isReadWanted = false
        context.read()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { partner?.readIfWanted() }
    }

    func channelInactive(context: ChannelHandlerContext) { partner?.context?.close(promise: nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

/// Bytes in and out of a server's WebSocket frames.
private final class ServerFrames: ChannelDuplexHandler {
    typealias InboundIn = WebSocketFrame
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = WebSocketFrame

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        switch frame.opcode {
        case .binary, .continuation: context.fireChannelRead(wrapInboundOut(frame.unmaskedData))
        case .connectionClose: context.close(promise: nil)
        default: break
        }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let frame = WebSocketFrame(fin: true, opcode: .binary, data: unwrapOutboundIn(data))
        context.write(wrapOutboundOut(frame), promise: promise)
    }
}
