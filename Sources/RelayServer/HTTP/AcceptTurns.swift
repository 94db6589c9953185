// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Accepts and sets up a few connections at a time, and then leaves those who are there already some time: to set a connection up costs more
/// than to ask for it, and more so while many are not authenticated. The others wait in a line, and behind it in the system's queue,
/// from which one that finds no room comes again only after seconds. Who has gone from the queue is not set up at all.
final class AcceptTurns: ChannelDuplexHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel
    typealias OutboundIn = Never

    /// How many are set up in a turn.
    static let turn = 4
    /// So that it is 2,000 in a second at most.
    static let othersTurn = TimeAmount.milliseconds(2)
    /// While many are not authenticated, 1,000.
    static let longTurn = TimeAmount.milliseconds(4)
    /// How many are accepted until the next turn: more than are set up, so that the system's queue does not overflow when everyone comes at
    /// once, and not as many as can be opened and closed.
    static let accepted = 16
    /// How many wait accepted at most. The system's queue has room for `RelayService.backlog` more; who finds none there comes again only
    /// after seconds, or is reset.
    static let longestLine = 8_192

    private let unauthenticated: UnauthenticatedConnections
    private var line = CircularBuffer<any Channel>()
    private var acceptedSinceTurn = 0
    private var isOthersTurn = false
    private var isReadWanted = false

    init(among unauthenticated: UnauthenticatedConnections) { self.unauthenticated = unauthenticated }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let channel = Self.unwrapInboundIn(data)
        acceptedSinceTurn += 1
        // The system knows no address of a peer that has reset the connection.
        guard channel.remoteAddress != nil else { return channel.close(promise: nil) }
        line.append(channel)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if !isOthersTurn { takeTurn(context) }
    }

    private func takeTurn(_ context: ChannelHandlerContext) {
        guard acceptedSinceTurn > 0 || !line.isEmpty else { return }
        acceptedSinceTurn = 0
        for _ in 0..<Self.turn {
            guard let channel = line.popFirst() else { break }
            context.fireChannelRead(Self.wrapInboundOut(channel))
        }
        context.fireChannelReadComplete()
        isOthersTurn = true
        let pause = unauthenticated.areMany ? Self.longTurn : Self.othersTurn
        context.eventLoop.assumeIsolated().scheduleTask(in: pause) {
            self.isOthersTurn = false
            self.takeTurn(context)
            guard self.isReadWanted else { return }
            self.isReadWanted = false
            self.read(context: context)
        }
    }

    func read(context: ChannelHandlerContext) {
        if line.count < Self.longestLine, acceptedSinceTurn < Self.accepted { context.read() } else { isReadWanted = true }
    }

    func channelInactive(context: ChannelHandlerContext) {
        for channel in line { channel.close(promise: nil) }
        line.removeAll()
        context.fireChannelInactive()
    }
}
