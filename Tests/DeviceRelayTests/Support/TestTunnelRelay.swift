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
    /// What it does with who comes.
    enum Behaviour: Sendable {
        case pair
        /// Answers with this status.
        case refuse(UInt8)
        /// Takes the connection and says nothing.
        case silent
        case hangUp
    }

    struct State {
        var waiting: [TunnelID: Side] = [:]
        var open: [ObjectIdentifier: any Channel] = [:]
        var accepted = 0
        var socket = Behaviour.pair
        var webSocket = Behaviour.pair
        /// Splices whose bytes are held back.
        var splices: [SpliceHandler] = []
    }

    struct Side {
        let channel: any Channel
        let handler: SpliceHandler
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
                    Self.arrived(Side(channel: channel, handler: handler), tunnel, state.value.socket, state)
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
    func tunnel(_ kinds: (opener: [Way], target: [Way]) = ([.socket], [.socket])) -> (opener: TunnelTransport, target: TunnelTransport) {
        var random = SystemRandomNumberGenerator()
        let id = TunnelID(using: &random)
        return (transport(id, kinds.opener), transport(id, kinds.target))
    }

    enum Way: Hashable, Sendable {
        case socket, webSocket
        case other(String)
    }

    func transport(_ id: TunnelID, _ ways: [Way]) -> TunnelTransport {
        let urls = ways.map { way in
            switch way {
            case .socket: "tcp://:\(socketPort)"
            case .webSocket: "/v1/tunnels/\(id)"
            case .other(let url): url
            }
        }
        let token = Secret(Blob<BlobKinds.TunnelToken>(Array(repeating: 7, count: 32)))
        return TunnelTransport(
            TunnelEntrance(tunnel: id, token: token, urls: urls),
            relay: address,
            trust: RelayTrust(relay: nil),
            patience: .milliseconds(50)
        )
    }

    // MARK: Trouble

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

    /// Bytes that were read and not written yet.
    var heldBytes: Int {
        get async throws { try await loop.submit { [state] in state.value.splices.reduce(0) { $0 + $1.pendingBytes } }.get() }
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
        case .refuse(let status):
            // It is for the other side to close.
            side.handler.send(ByteBuffer(integer: status))
        case .pair:
            guard let other = state.value.waiting.removeValue(forKey: tunnel), other.channel.isActive else {
                state.value.waiting[tunnel] = side
                return
            }
            side.handler.pair(with: other.handler)
            state.value.splices += [side.handler, other.handler]
        }
    }

    private static func addWebSocket(to channel: any Channel, _ state: NIOLoopBoundBox<State>) throws {
        let upgrader = NIOWebSocketServerUpgrader(
            maxFrameSize: 64 << 10,
            shouldUpgrade: { channel, head in
                guard head.uri.hasPrefix("/v1/tunnels/"), head.headers["Authorization"] == ["Tunnel " + token],
                    head.headers["Sec-WebSocket-Protocol"] == ["device-relay.tunnel.v1"]
                else { return channel.eventLoop.makeSucceededFuture(nil) }
                return channel.eventLoop.makeSucceededFuture(["Sec-WebSocket-Protocol": "device-relay.tunnel.v1"])
            },
            upgradePipelineHandler: { channel, head in
                channel.eventLoop.makeCompletedFuture {
                    guard let tunnel = TunnelID(String(head.uri.dropFirst("/v1/tunnels/".count))) else { return }
                    let handler = SpliceHandler()
                    try channel.pipeline.syncOperations.addHandlers([ServerFrames(), handler])
                    arrived(Side(channel: channel, handler: handler), tunnel, state.value.webSocket, state)
                }
            }
        )
        try channel.pipeline.syncOperations.configureHTTPServerPipeline(
            withServerUpgrade: (upgraders: [upgrader], completionHandler: { _ in })
        )
    }

    /// What `transport` shows, as base64url.
    private static let token = Base64URL.encode(Array(repeating: UInt8(7), count: 32))
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
    private(set) var pendingBytes = 0
    var isHeld = false {
        didSet { if !isHeld { goOn() } }
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        partner = nil
    }

    func pair(with other: SpliceHandler) {
        (partner, other.partner) = (other, self)
        for side in [self, other] {
            side.send(ByteBuffer(integer: 0 as UInt8))
        }
        for side in [self, other] { side.goOn() }
    }

    private func goOn() {
        let early = early
        self.early = []
        for bytes in early { receive(bytes) }
        readIfWanted()
    }

    func send(_ bytes: ByteBuffer) {
        let count = bytes.readableBytes
        pendingBytes += count
        let promise = context?.eventLoop.makePromise(of: Void.self)
        promise?.futureResult.assumeIsolated().whenComplete { _ in self.pendingBytes -= count }
        context?.writeAndFlush(wrapOutboundOut(bytes), promise: promise)
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
