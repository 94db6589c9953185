// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Sets up a few accepted connections per batch, and then lets the loop serve the established ones. Setting up a connection costs more
/// than requesting one, especially while many are unauthenticated. The other connections wait in `line`, and then in the system's
/// backlog; a client that finds the backlog full retries only after seconds. A connection that was reset meanwhile is not set up.
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
        // The system reports no address for a connection that was reset.
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
