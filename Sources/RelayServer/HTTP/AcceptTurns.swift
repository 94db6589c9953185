// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Accepts a few connections at a time, and then leaves those who are there already some time: to set a connection up costs more
/// than to ask for it, and more so while there are many strangers already. The others wait in the system's queue. Who has gone from there
/// is not set up at all.
final class AcceptTurns: ChannelDuplexHandler {
    typealias InboundIn = any Channel
    typealias OutboundIn = Never

    /// With four in a turn, 2,000 in a second at most.
    private static let othersTurn = TimeAmount.milliseconds(2)
    /// While there are many strangers, 1,000.
    private static let longTurn = TimeAmount.milliseconds(4)

    private let strangers: StrangerCount
    private var isOthersTurn = false
    private var isReadWanted = false

    init(among strangers: StrangerCount) { self.strangers = strangers }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let channel = Self.unwrapInboundIn(data)
        // The system knows no address of a peer that has reset the connection.
        guard channel.remoteAddress != nil else { return channel.close(promise: nil) }
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        isOthersTurn = true
        context.eventLoop.assumeIsolated().scheduleTask(in: strangers.areMany ? Self.longTurn : Self.othersTurn) {
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
