// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import RelayProtocol

/// A direct connection to a known endpoint on the local network, which this side dials.
struct DirectTransport: PeerTransport {
    /// The time for the connection, and for the knock.
    static let patience = TimeAmount.seconds(3)

    let address: SocketAddress
    let knock: KnockExchange.Dialer
    let loop: any EventLoop
    var patience = Self.patience
    /// Told why no connection is established, before `connect` throws `notReached`.
    var onFailure: @Sendable (any Error) -> Void = { _ in }

    func connect(
        timeout: Duration,
        install: @escaping @Sendable (any Channel) throws -> Void
    ) async throws(PeerTransportError) -> any Channel {
        let outcome = OneShot<Result<any Channel, PeerTransportError>>()
        let patience = min(TimeAmount(timeout), patience)
        let (knock, onFailure) = (knock, onFailure)
        let dial = ClientBootstrap(group: loop)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .connectTimeout(patience)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(KnockDialHandler(knock, patience, install) { outcome.settle($0) })
                }
            }
            .connect(to: address)
        dial.whenFailure { error in
            onFailure(error)
            outcome.settle(.failure(.notReached))
        }
        guard let result = await outcome.wait() else {
            dial.whenSuccess { $0.close(promise: nil) }
            throw .cancelled
        }
        return try result.get()
    }
}

/// The dialer's side of a knock. It gives the channel away once the listener accepts.
private final class KnockDialHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var machine: KnockExchange.Dialer
    private let patience: TimeAmount
    private let install: @Sendable (any Channel) throws -> Void
    private let settle: @Sendable (Result<any Channel, PeerTransportError>) -> Void
    private var timer: Scheduled<Void>?

    init(
        _ machine: KnockExchange.Dialer,
        _ patience: TimeAmount,
        _ install: @escaping @Sendable (any Channel) throws -> Void,
        settle: @escaping @Sendable (Result<any Channel, PeerTransportError>) -> Void
    ) {
        (self.machine, self.patience, self.install, self.settle) = (machine, patience, install, settle)
    }

    func channelActive(context: ChannelHandlerContext) {
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: patience) { [settle] in
            settle(.failure(.timedOut))
            context.close(promise: nil)
        }
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch machine.receive(unwrapInboundIn(data).readableBytesView) {
        case .more: break
        case .send(let bytes): context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
        case .refused:
            settle(.failure(.notProved))
            context.close(promise: nil)
        case .accepted:
            timer?.cancel()
            do {
                try install(context.channel)
                settle(.success(context.channel))
                context.pipeline.syncOperations.removeHandler(self, promise: nil)
            } catch {
                context.close(promise: nil)
            }
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        // The endpoint may be busy, or not know this one yet.
        settle(.failure(.closedEarly))
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

/// A direct connection that a known endpoint has dialled. Its knock is right, and the channel waits.
struct KnockedTransport: PeerTransport {
    let channel: any Channel

    func connect(
        timeout: Duration,
        install: @escaping @Sendable (any Channel) throws -> Void
    ) async throws(PeerTransportError) -> any Channel {
        let channel = channel
        do {
            try await channel.eventLoop.submit {
                // The handshake begins after this byte. The handlers come behind it, because they would encrypt it.
                channel.writeAndFlush(ByteBuffer(bytes: [KnockExchange.accepted]), promise: nil)
                try install(channel)
                try channel.syncOptions?.setOption(.autoRead, value: true)
            }.get()
            return channel
        } catch {
            channel.close(promise: nil)
            throw .notReached
        }
    }
}
