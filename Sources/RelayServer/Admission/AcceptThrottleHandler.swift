// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Sets up a few accepted connections at a time, and then serves the established ones for a while: to set a connection up costs more than to
/// ask for it, and more so while many are not authenticated. The others wait in a line, and behind it in the system's queue, from which one
/// that finds no room comes again only after seconds. One that has gone from the queue is not set up at all.
final class AcceptThrottleHandler: ChannelDuplexHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel
    typealias OutboundIn = Never

    private let unauthenticated: UnauthenticatedConnections
    private var policy: AdmissionPolicy { unauthenticated.policy }
    private var line = CircularBuffer<any Channel>()
    private var acceptedSincePause = 0
    private var isPausing = false
    private var isReadWanted = false

    init(among unauthenticated: UnauthenticatedConnections) { self.unauthenticated = unauthenticated }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let channel = Self.unwrapInboundIn(data)
        acceptedSincePause += 1
        // The system knows no address of a peer that has reset the connection.
        guard channel.remoteAddress != nil else { return channel.close(promise: nil) }
        line.append(channel)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if !isPausing { setUpNext(context) }
    }

    private func setUpNext(_ context: ChannelHandlerContext) {
        guard acceptedSincePause > 0 || !line.isEmpty else { return }
        acceptedSincePause = 0
        for _ in 0..<policy.setUpAtOnce {
            guard let channel = line.popFirst() else { break }
            context.fireChannelRead(Self.wrapInboundOut(channel))
        }
        context.fireChannelReadComplete()
        isPausing = true
        let pause = unauthenticated.areMany ? policy.longAcceptPause : policy.acceptPause
        context.eventLoop.assumeIsolated().scheduleTask(in: pause) {
            self.isPausing = false
            self.setUpNext(context)
            guard self.isReadWanted else { return }
            self.isReadWanted = false
            self.read(context: context)
        }
    }

    func read(context: ChannelHandlerContext) {
        if line.count < policy.maximumAcceptLine, acceptedSincePause < policy.acceptedAtOnce {
            context.read()
        } else {
            isReadWanted = true
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        for channel in line { channel.close(promise: nil) }
        line.removeAll()
        context.fireChannelInactive()
    }
}
