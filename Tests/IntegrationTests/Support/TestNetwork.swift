// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import RelayTesting
import Synchronization

/// The network of one device: a local address that forwards to the relay's two ports. A test can cut, record and corrupt its traffic.
final class TestNetwork: Sendable {
    enum Port: Hashable, Sendable { case http, tunnel }

    enum Direction: Hashable, Sendable, CaseIterable { case toRelay, fromRelay }

    enum Damage: Hashable, Sendable, CaseIterable { case alter, drop, double }

    /// The behaviour of the tunnel port.
    enum TunnelPort: Hashable, Sendable {
        case open
        /// Connections are refused.
        case refused
        /// Connection attempts get no answer.
        case blackHole
        /// Connections are accepted, but no bytes pass.
        case silent
    }

    private struct State {
        var cut: Set<Direction> = []
        /// Cuts these directions after the given number of bytes in a direction of the tunnel port.
        var fuse: (direction: Direction, bytes: Int, cuts: Set<Direction>)?
        /// Corrupts one byte at the given position.
        var damage: (kind: Damage, direction: Direction, bytes: Int)?
        var ends: [ObjectIdentifier: End] = [:]
        var tunnels = 0
        var heard: [Direction: [UInt8]] = [:]
    }

    let origin: String
    private let loop: any EventLoop
    private let state: NIOLoopBoundBox<State>
    private let listeners: [any Channel]
    private let queue: FullQueue?

    /// - Parameters:
    ///   - address: One of the relay's `networks`.
    ///   - watches: Whether to record the traffic of the HTTP port.
    init(_ address: String, to relay: RelaydProcess, tunnelPort: TunnelPort = .open, watches: Bool = false) async throws {
        origin = "http://\(address):\(relay.port)"
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        self.loop = loop
        let state = NIOLoopBoundBox.makeBoxSendingValue(State(), as: State.self, eventLoop: loop)
        self.state = state
        func listen(_ kind: Port, _ port: Int) async throws -> any Channel {
            try await ServerBootstrap(group: loop)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                .childChannelOption(.autoRead, value: false)
                .childChannelInitializer { device in
                    device.eventLoop.makeCompletedFuture {
                        if kind == .tunnel { state.value.tunnels += 1 }
                        let end = End(kind, .toRelay, state, watches: watches)
                        try device.pipeline.syncOperations.addHandler(end)
                        if kind == .tunnel, tunnelPort == .silent { return }
                        End.connect(end, on: device, to: port)
                    }
                }
                .bind(host: address, port: port).get()
        }
        var listeners = [try await listen(.http, relay.port)]
        if tunnelPort == .open || tunnelPort == .silent { listeners.append(try await listen(.tunnel, relay.tunnelPort)) }
        self.listeners = listeners
        queue = tunnelPort == .blackHole ? try await FullQueue(address, relay.tunnelPort) : nil
    }

    /// Stops all traffic in these directions, including the end of connections.
    func cut(_ directions: Set<Direction>) async throws {
        try await loop.submit { [state] in state.value.cut = directions }.get()
    }

    /// Stops the traffic after the given number of further bytes through the tunnel port.
    func cut(_ directions: Set<Direction>, after bytes: Int, _ direction: Direction) async throws {
        try await loop.submit { [state] in state.value.fuse = (direction, bytes, directions) }.get()
    }

    /// Corrupts the byte after the given number of further bytes through the tunnel port.
    func damage(_ kind: Damage, after bytes: Int, _ direction: Direction) async throws {
        try await loop.submit { [state] in state.value.damage = (kind, direction, bytes) }.get()
    }

    /// Whether the byte to corrupt has not passed yet.
    var isDamagePending: Bool {
        get async throws { try await loop.submit { [state] in state.value.damage != nil }.get() }
    }

    /// Restores the network. Earlier connections are closed.
    func mend() async throws {
        try await loop.submit { [state] in
            state.value.cut = []
            state.value.fuse = nil
            for end in state.value.ends.values { end.close() }
        }.get()
    }

    /// The number of connections to the tunnel port.
    var tunnels: Int {
        get async throws { try await loop.submit { [state] in state.value.tunnels }.get() }
    }

    /// The recorded traffic of the HTTP port.
    func heard(_ direction: Direction) async throws -> String {
        try await loop.submit { [state] in String(decoding: state.value.heard[direction] ?? [], as: UTF8.self) }.get()
    }

    func stop() async throws {
        for listener in listeners { try await listener.close() }
        try await queue?.close()
        try await mend()
    }

    /// One end of a connection. It forwards its input to the other end.
    private final class End: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let port: Port
        /// The direction of its input.
        private let direction: Direction
        private let state: NIOLoopBoundBox<State>
        private let watches: Bool
        private var context: ChannelHandlerContext?
        private var partner: End?

        init(_ port: Port, _ direction: Direction, _ state: NIOLoopBoundBox<State>, watches: Bool) {
            (self.port, self.direction, self.state, self.watches) = (port, direction, state, watches)
        }

        static func connect(_ end: End, on device: any Channel, to port: Int) {
            let bound = NIOLoopBound(end, eventLoop: device.eventLoop)
            ClientBootstrap(group: device.eventLoop)
                .channelOption(.tcpOption(.tcp_nodelay), value: 1)
                .channelOption(.autoRead, value: false)
                .channelInitializer { relay in
                    relay.eventLoop.makeCompletedFuture {
                        let end = bound.value
                        let other = End(end.port, .fromRelay, end.state, watches: end.watches)
                        (end.partner, other.partner) = (other, end)
                        try relay.pipeline.syncOperations.addHandler(other)
                    }
                }
                .connect(host: "127.0.0.1", port: port)
                .whenComplete { result in
                    switch result {
                    case .success(let relay):
                        for channel in [device, relay] { try? channel.syncOptions?.setOption(.autoRead, value: true) }
                    case .failure: device.close(promise: nil)
                    }
                }
        }

        func handlerAdded(context: ChannelHandlerContext) {
            self.context = context
            state.value.ends[ObjectIdentifier(self)] = self
        }

        func handlerRemoved(context: ChannelHandlerContext) {
            self.context = nil
            state.value.ends[ObjectIdentifier(self)] = nil
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var bytes = unwrapInboundIn(data)
            if watches, port == .http { state.value.heard[direction, default: []] += bytes.readableBytesView }
            if port == .tunnel { spoil(&bytes) }
            if let piece = pass(&bytes), piece.readableBytes > 0 { partner?.write(piece) }
        }

        /// The part of the bytes that passes.
        private func pass(_ bytes: inout ByteBuffer) -> ByteBuffer? {
            guard !state.value.cut.contains(direction) else { return nil }
            guard port == .tunnel, let fuse = state.value.fuse, fuse.direction == direction else { return bytes }
            guard bytes.readableBytes >= fuse.bytes else {
                state.value.fuse?.bytes -= bytes.readableBytes
                return bytes
            }
            state.value.fuse = nil
            state.value.cut = fuse.cuts
            return fuse.cuts.contains(direction) ? bytes.readSlice(length: fuse.bytes) : bytes
        }

        private func spoil(_ bytes: inout ByteBuffer) {
            guard let damage = state.value.damage, damage.direction == direction else { return }
            guard bytes.readableBytes > damage.bytes else {
                state.value.damage?.bytes -= bytes.readableBytes
                return
            }
            state.value.damage = nil
            var all = Array(bytes.readableBytesView)
            switch damage.kind {
            case .alter: all[damage.bytes] ^= 0x10
            case .drop: all.remove(at: damage.bytes)
            case .double: all.insert(all[damage.bytes], at: damage.bytes)
            }
            bytes = ByteBuffer(bytes: all)
        }

        private func write(_ bytes: ByteBuffer) { context?.writeAndFlush(wrapOutboundOut(bytes), promise: nil) }

        func close() { context?.close(promise: nil) }

        func channelInactive(context: ChannelHandlerContext) {
            if !state.value.cut.contains(direction) { partner?.close() }
            partner = nil
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}

/// A port that never completes a connection: its accept queue is full.
private final class FullQueue: Sendable {
    private let listener: any Channel
    private let first: any Channel

    init(_ address: String, _ port: Int) async throws {
        let group = MultiThreadedEventLoopGroup.singleton
        listener = try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 0)
            .serverChannelOption(.autoRead, value: false)
            .bind(host: address, port: port).get()
        first = try await ClientBootstrap(group: group).connect(host: address, port: port).get()
    }

    func close() async throws {
        try await first.close()
        try await listener.close()
    }
}
