// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket
import RelayProtocol

/// Dials one way into a tunnel.
struct TunnelDialer: Sendable {
    static let subprotocol = "device-relay.tunnel.v1"
    /// A frame is held until it is whole.
    static let maximumFrameBytes = 1 << 20

    private let entrance: TunnelEntrance
    private let trust: RelayTrust
    let loop: any EventLoop
    private let install: @Sendable (any Channel) throws -> Void

    init(
        _ entrance: TunnelEntrance,
        trust: RelayTrust,
        loop: any EventLoop,
        install: @escaping @Sendable (any Channel) throws -> Void
    ) {
        self.entrance = entrance
        self.trust = trust
        self.loop = loop
        self.install = install
    }

    func dial(_ candidate: TunnelCandidate, _ attempt: TunnelAttempt) {
        switch candidate {
        case .socket(let host, let port):
            connect(host, port, attempt) { channel in
                try channel.pipeline.syncOperations.addHandler(
                    TunnelEntranceHandler(preface: preface, attempt: attempt, install: install)
                )
            }
        case .webSocket(let address, let path):
            connect(address.host, address.port, attempt) { channel in
                if address.isEncrypted {
                    try RelayTLS.add(to: channel, host: address.host, trust) { attempt.fail(.unreachable(.untrusted($0))) }
                }
                try addHTTP(to: channel, address, path, attempt)
            }
        }
    }

    private func connect(
        _ host: String,
        _ port: Int,
        _ attempt: TunnelAttempt,
        _ initialize: @escaping @Sendable (any Channel) throws -> Void
    ) {
        ClientBootstrap(group: loop)
            .connectTimeout(.seconds(15))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard attempt.add(channel) else { throw ChannelError.alreadyClosed }
                    try initialize(channel)
                }
            }
            .connect(host: host, port: port)
            .whenFailure { attempt.fail(.unreachable(DialFailure(connecting: $0))) }
    }

    private var preface: ByteBuffer {
        var preface = ByteBuffer(string: "DRT1")
        preface.writeBytes(entrance.tunnel.bytes)
        preface.writeBytes(entrance.token.exposed.bytes)
        return preface
    }

    private func addHTTP(to channel: any Channel, _ address: RelayAddress, _ path: String, _ attempt: TunnelAttempt) throws {
        let upgrader = NIOWebSocketClientUpgrader(maxFrameSize: Self.maximumFrameBytes, automaticErrorHandling: false) { channel, head in
            channel.eventLoop.makeCompletedFuture {
                guard head.headers[canonicalForm: "Sec-WebSocket-Protocol"].map(String.init) == [Self.subprotocol],
                    head.headers["Sec-WebSocket-Extensions"].isEmpty
                else {
                    return attempt.fail(.unreachable(.notARelay(status: 101, retryAfter: nil)))
                }
                try channel.pipeline.syncOperations.addHandlers([
                    TunnelWebSocketHandler(), TunnelEntranceHandler(preface: nil, attempt: attempt, install: install),
                ])
            }
        }
        let request = UpgradeRequestHandler(
            address,
            path: path,
            subprotocol: Self.subprotocol,
            authorization: "Tunnel " + Base64URL.encode(entrance.token.exposed.bytes)
        ) { attempt.fail(.unreachable($0)) }
        let bound = NIOLoopBound(request, eventLoop: channel.eventLoop)
        try channel.pipeline.syncOperations.addHTTPClientHandlers(
            leftOverBytesStrategy: .forwardBytes,
            withClientUpgrade: (
                upgraders: [upgrader],
                completionHandler: { context in context.pipeline.syncOperations.removeHandler(bound.value, promise: nil) }
            )
        )
        try channel.pipeline.syncOperations.addHandler(request)
    }
}

/// Presents this side at a tunnel, waits for the relay's word, and makes room for the stream.
final class TunnelEntranceHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let preface: ByteBuffer?
    private let attempt: TunnelAttempt
    private let install: @Sendable (any Channel) throws -> Void
    private var isDone = false

    /// - Parameter preface: What to say; `nil` where the relay knows already.
    init(preface: ByteBuffer?, attempt: TunnelAttempt, install: @escaping @Sendable (any Channel) throws -> Void) {
        self.preface = preface
        self.attempt = attempt
        self.install = install
    }

    func channelActive(context: ChannelHandlerContext) {
        if let preface { context.writeAndFlush(wrapOutboundOut(preface), promise: nil) }
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        if !isDone {
            guard let status: UInt8 = bytes.readInteger() else { return }
            isDone = true
            guard status == 0 else {
                attempt.fail(.refused(TunnelRefusal(rawValue: status)))
                context.close(promise: nil)
                return
            }
            // The handlers that this adds stand behind this one, and get what follows.
            attempt.win(context.channel, install: install)
        }
        if bytes.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(bytes)) }
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        attempt.fail(.closed)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard !isDone else { return context.fireErrorCaught(error) }
        attempt.fail(error is IOError ? .closed : .unreachable(DialFailure(speaking: error)))
        context.close(promise: nil)
    }
}
