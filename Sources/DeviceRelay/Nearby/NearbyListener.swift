// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import RelayProtocol

/// Accepts direct connections: of known endpoints, or of those that want to be paired. It is used on one event loop.
final class NearbyListener {
    /// How long a connection may take to knock.
    static let patience = TimeAmount.seconds(3)

    private let loop: EndpointLoop
    private let own: EndpointID
    /// Decides which addresses may connect, and how they are counted.
    private let source: (IPAddress) -> KnockGate.Source?
    private let keys: () -> [EndpointID: PairKeys]
    /// Called with a connection whose knock is right.
    private let knocked: (EndpointID, KnockedTransport) -> Void
    /// Called with a connection to pair, which has proved nothing; `nil` if none is accepted.
    private let pairing: ((KnockedTransport) -> Void)?
    private var gate = KnockGate()
    private var waiting: [KnockGate.ID: any Channel] = [:]
    private var server: (any Channel)?
    private var opened: (Result<UInt16, any Error>) -> Void = { _ in }
    private var isClosed = false
    private var random = SystemRandomNumberGenerator()

    init(
        _ loop: EndpointLoop,
        own: EndpointID,
        source: @escaping (IPAddress) -> KnockGate.Source?,
        keys: @escaping () -> [EndpointID: PairKeys],
        knocked: @escaping (EndpointID, KnockedTransport) -> Void = { $1.channel.close(promise: nil) },
        pairing: ((KnockedTransport) -> Void)? = nil
    ) {
        (self.loop, self.own, self.source, self.keys, self.knocked, self.pairing) = (loop, own, source, keys, knocked, pairing)
    }

    /// Listens at a port of the system's choice.
    /// - Parameter opened: Called once with the port, unless it is closed before.
    func open(_ opened: @escaping (Result<UInt16, any Error>) -> Void) {
        self.opened = opened
        let bound = NIOLoopBound(self, eventLoop: loop.eventLoop)
        let group = loop.eventLoop
        let listen: @Sendable (String) -> EventLoopFuture<any Channel> = { host in
            ServerBootstrap(group: group)
                .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                .childChannelInitializer { channel in channel.eventLoop.makeCompletedFuture { try bound.value.take(channel) } }
                .bind(host: host, port: 0)
        }
        // Some machines have no IPv6.
        listen("::").flatMapError { _ in listen("0.0.0.0") }.whenComplete { bound.value.bound($0) }
    }

    private func bound(_ result: Result<any Channel, any Error>) {
        guard !isClosed else {
            if case .success(let channel) = result { channel.close(promise: nil) }
            return
        }
        opened(
            result.flatMap { channel in
                server = channel
                let port = channel.localAddress?.port.flatMap(UInt16.init(exactly:))
                return port.map(Result.success) ?? .failure(ChannelError.unknownLocalAddress)
            }
        )
    }

    /// Ends it. Connections that were accepted stay.
    func close() {
        isClosed = true
        server?.close(promise: nil)
        server = nil
        for channel in waiting.values { channel.close(promise: nil) }
        waiting = [:]
    }

    private var now: Milliseconds { Milliseconds(clamping: loop.now) }

    private func take(_ channel: any Channel) throws {
        guard !isClosed, let address = IPAddress(channel.remoteAddress), let source = source(address),
            case .admitted(let id, let closing) = gate.admit(source, at: now, using: &random)
        else { return channel.close(promise: nil) }
        if let closing { waiting.removeValue(forKey: closing)?.close(promise: nil) }
        waiting[id] = channel
        let machine = KnockExchange.Listener(own: own, using: &random)
        try channel.pipeline.syncOperations.addHandler(
            KnockHandler(machine, keys: keys, admitsPairing: pairing != nil) { [weak self] in self?.ended(id, $0) }
        )
    }

    private func ended(_ id: KnockGate.ID, _ end: KnockHandler.End) {
        waiting[id] = nil
        switch end {
        case .wrong: gate.knockedWrongly(id, at: now)
        case .closed: gate.leave(id)
        case .known(let peer, let transport):
            gate.leave(id)
            knocked(peer, transport)
        case .pairing(let transport):
            // Not a guess, but there may be too many of them.
            gate.knockedWrongly(id, at: now)
            pairing?(transport)
        }
    }
}

/// The listener's side of a knock.
private final class KnockHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    enum End {
        case known(EndpointID, KnockedTransport)
        case pairing(KnockedTransport)
        case wrong
        case closed
    }

    private var machine: KnockExchange.Listener
    private let keys: () -> [EndpointID: PairKeys]
    private let admitsPairing: Bool
    private var ended: ((End) -> Void)?
    private var timer: Scheduled<Void>?

    init(
        _ machine: KnockExchange.Listener,
        keys: @escaping () -> [EndpointID: PairKeys],
        admitsPairing: Bool,
        ended: @escaping (End) -> Void
    ) {
        (self.machine, self.keys, self.admitsPairing, self.ended) = (machine, keys, admitsPairing, ended)
    }

    private func end(_ end: End) {
        timer?.cancel()
        ended?(end)
        ended = nil
    }

    func channelActive(context: ChannelHandlerContext) {
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: NearbyListener.patience) { context.close(promise: nil) }
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: machine.greeting)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch machine.receive(unwrapInboundIn(data).readableBytesView, keys()) {
        case .more: break
        case .known(let peer): end(.known(peer, handOver(context)))
        case .pairing where admitsPairing: end(.pairing(handOver(context)))
        case .pairing, .refused:
            end(.wrong)
            context.close(promise: nil)
        }
    }

    private func handOver(_ context: ChannelHandlerContext) -> KnockedTransport {
        // Nothing is read until the handlers of the session are there.
        try? context.channel.syncOptions?.setOption(.autoRead, value: false)
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
        return KnockedTransport(channel: context.channel)
    }

    func channelInactive(context: ChannelHandlerContext) {
        end(.closed)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
