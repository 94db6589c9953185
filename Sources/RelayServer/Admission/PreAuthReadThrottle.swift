// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// While many connections are unauthenticated, delays the small reads of each. The first few are immediate, which is all that an endpoint
/// needs until `welcome`; then there is one read per second with the bytes that have arrived. Every read costs an iteration of the loop,
/// however few bytes it returns.
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

    /// A complete unit, such as a request, has arrived: the count starts again.
    func renew() { readsLeft = policy.readsWithoutDelay }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // A full read means that more bytes are waiting, so it does not count as small.
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
