// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// While many connections are not authenticated, reads small pieces of one of them less and less often: a few as they come, which is all
/// that an endpoint needs until it is welcomed, then what has gathered every now and then. Each piece is a turn of the loop, however little is in
/// it, and others wait for theirs.
final class PreAuthenticationReads: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer

    /// How many pieces are read as they come: one more than TLS, a request and a `hello` are.
    static let pieces = 5
    /// How long the next is left to gather after that.
    static let rest = TimeAmount.seconds(1)

    private let unauthenticated: UnauthenticatedConnections
    private var piecesLeft = pieces
    private var timer: Scheduled<Void>?
    private var isReadWanted = false

    init(among unauthenticated: UnauthenticatedConnections) { self.unauthenticated = unauthenticated }

    /// Something complete has come, such as a request: what comes next counts anew.
    func renew() { piecesLeft = Self.pieces }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // A full read is what more of would come at once.
        if Self.unwrapInboundIn(data).readableBytes < ReadSize.small { piecesLeft = max(0, piecesLeft - 1) }
        context.fireChannelRead(data)
    }

    func read(context: ChannelHandlerContext) {
        guard timer == nil else { return isReadWanted = true }
        guard piecesLeft == 0, unauthenticated.areMany else { return context.read() }
        isReadWanted = true
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: Self.rest) {
            self.timer = nil
            self.readIfWanted(context)
        }
    }

    private func readIfWanted(_ context: ChannelHandlerContext) {
        guard isReadWanted else { return }
        isReadWanted = false
        context.read()
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        context.fireChannelInactive()
    }

    func removeHandler(context: ChannelHandlerContext, removalToken: ChannelHandlerContext.RemovalToken) {
        timer?.cancel()
        readIfWanted(context)
        context.leavePipeline(removalToken: removalToken)
    }
}
