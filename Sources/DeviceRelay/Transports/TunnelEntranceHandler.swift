// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Sends the preface to a tunnel's TCP port, waits for the relay's status byte, and then removes itself from the pipeline.
final class TunnelEntranceHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let preface: TunnelPreface
    private let attempt: TunnelAttempt
    private let install: @Sendable (any Channel) throws -> Void
    private var isDone = false

    init(preface: TunnelPreface, attempt: TunnelAttempt, install: @escaping @Sendable (any Channel) throws -> Void) {
        self.preface = preface
        self.attempt = attempt
        self.install = install
    }

    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: preface.bytes)), promise: nil)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        if !isDone {
            guard let byte: UInt8 = bytes.readInteger() else { return }
            isDone = true
            guard let status = TunnelStatus(rawValue: byte) else {
                return fail(.unreachable(.protocolError("no tunnel's answer")), context)
            }
            guard status == .paired else { return fail(.refused(status), context) }
            // The handlers that this call adds come after this handler, so they receive the remaining bytes.
            attempt.win(context.channel, install: install)
        }
        if bytes.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(bytes)) }
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    private func fail(_ error: PeerTransportError, _ context: ChannelHandlerContext) {
        attempt.fail(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        attempt.fail(.closed)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard !isDone else { return context.fireErrorCaught(error) }
        fail(error is IOError ? .closed : .unreachable(DialFailure(onChannel: error)), context)
    }
}
