// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// While many connections are not authenticated, delays the small reads of each: a few come at once, which is all that an endpoint needs
/// until it is welcomed, then one in a second with what has gathered. Each read is a turn of the loop, however little it brings, and others
/// wait for theirs.
final class PreAuthReadThrottle: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer

    private let unauthenticated: UnauthenticatedConnections
    private var policy: AdmissionPolicy { unauthenticated.policy }
    private var readsLeft: Int
    private var timer: Scheduled<Void>?
    private var isReadWanted = false

    init(among unauthenticated: UnauthenticatedConnections) {
        self.unauthenticated = unauthenticated
        self.readsLeft = unauthenticated.policy.readsWithoutDelay
    }

    /// Something complete has come, such as a request: what comes next counts anew.
    func renew() { readsLeft = policy.readsWithoutDelay }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // A full read is what more of would come at once.
        if Self.unwrapInboundIn(data).readableBytes < policy.smallRead { readsLeft = max(0, readsLeft - 1) }
        context.fireChannelRead(data)
    }

    func read(context: ChannelHandlerContext) {
        guard timer == nil else { return isReadWanted = true }
        guard readsLeft == 0, unauthenticated.areMany else { return context.read() }
        isReadWanted = true
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: policy.readDelay) {
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
