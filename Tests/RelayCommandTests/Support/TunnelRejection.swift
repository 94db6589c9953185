// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import RelayTesting

/// A proxy between a device and its relay that forwards everything to the relay's port except tunnels.
final class TunnelRejection: Sendable {
    private let listener: any Channel

    /// - Parameter address: One of the relay's `networks`.
    init(_ address: String, to relay: RelaydProcess) async throws {
        let port = relay.port
        listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Door(port: port)) }
            }
            .bind(host: address, port: port).get()
    }

    func stop() async throws { try await listener.close() }

    /// Inspects the first request.
    private final class Door: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let port: Int
        private var waiting = ByteBuffer()
        private var isOpening = false
        private var relay: (any Channel)?

        init(port: Int) { self.port = port }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var bytes = unwrapInboundIn(data)
            if let relay { return relay.writeAndFlush(bytes, promise: nil) }
            waiting.writeBuffer(&bytes)
            guard !isOpening, let line = waiting.readableBytesView.firstIndex(of: UInt8(ascii: "\n")) else { return }
            isOpening = true
            let first = String(decoding: waiting.readableBytesView[..<line], as: UTF8.self)
            guard !first.hasPrefix("GET /v1/tunnels/") else {
                let answer = ByteBuffer(string: "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                context.writeAndFlush(wrapOutboundOut(answer)).whenComplete { [channel = context.channel] _ in channel.close(promise: nil) }
                return
            }
            let door = NIOLoopBound(self, eventLoop: context.eventLoop)
            let device = context.channel
            ClientBootstrap(group: context.eventLoop)
                .channelInitializer { relay in
                    relay.eventLoop.makeCompletedFuture { try relay.pipeline.syncOperations.addHandler(Way(to: device)) }
                }
                .connect(host: "127.0.0.1", port: port)
                .whenComplete { result in
                    guard case .success(let relay) = result else { return device.close(promise: nil) }
                    door.value.relay = relay
                    relay.writeAndFlush(door.value.waiting, promise: nil)
                }
        }

        func channelInactive(context: ChannelHandlerContext) { relay?.close(promise: nil) }
        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }

    /// Forwards the relay's bytes to the device.
    private final class Way: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let device: any Channel

        init(to device: any Channel) { self.device = device }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { device.writeAndFlush(unwrapInboundIn(data), promise: nil) }
        func channelInactive(context: ChannelHandlerContext) { device.close(promise: nil) }
        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
