// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Accepts a few connections at a time, and then leaves those who are there already some time: to set a connection up costs more
/// than to ask for it. The others wait in the system's queue. Who has gone from there is not set up at all.
final class AcceptTurns: ChannelDuplexHandler {
    typealias InboundIn = any Channel
    typealias OutboundIn = Never

    /// With four in a turn, 2,000 in a second at most.
    private static let othersTurn = TimeAmount.milliseconds(2)

    private var isOthersTurn = false
    private var isReadWanted = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let channel = Self.unwrapInboundIn(data)
        // The system knows no address of a peer that has reset the connection.
        guard channel.remoteAddress != nil else { return channel.close(promise: nil) }
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        isOthersTurn = true
        context.eventLoop.assumeIsolated().scheduleTask(in: Self.othersTurn) {
            self.isOthersTurn = false
            guard self.isReadWanted else { return }
            self.isReadWanted = false
            context.read()
        }
        context.fireChannelReadComplete()
    }

    func read(context: ChannelHandlerContext) {
        if isOthersTurn { isReadWanted = true } else { context.read() }
    }
}
