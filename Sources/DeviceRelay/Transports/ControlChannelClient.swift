// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOWebSocket
import RelayProtocol
import Synchronization

/// Dials a relay's control channel: TCP, TLS, and the upgrade to a WebSocket.
package struct ControlChannelClient: Sendable {
    static let subprotocol = "device-relay.v1"

    private let group: any EventLoopGroup
    private let maximumFrameBytes: Int

    package init(
        group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        maximumFrameBytes: Int = ControlChannelStateMachine.largestFrame
    ) {
        self.group = group
        self.maximumFrameBytes = maximumFrameBytes
    }

    var loop: any EventLoop { group.next() }

    /// Dials. Events come in order, on one thread: `opened` and whatever follows it up to `closed`; or `dialFailed` alone.
    /// - Parameter timeout: For everything up to `opened`, in milliseconds. A TCP connection has 15 s of it.
    /// - Returns: What gives the attempt up.
    @discardableResult
    package func dial(
        _ address: RelayAddress,
        trust: RelayTrust,
        timeout: Int64 = ControlChannelStateMachine.dialingTime,
        events: @escaping @Sendable (ControlConnection.Event) -> Void
    ) -> ControlDial {
        let loop = loop
        let dial = ControlDial(loop: loop, events: events)
        let tls: NIOSSLContext?
        do throws(DialFailure) {
            tls = try RelayTLS.context(for: address)
        } catch {
            dial.fail(error)
            return dial
        }
        let timer = loop.scheduleTask(in: .milliseconds(timeout)) { dial.fail(.timedOut) }
        dial.whenEnded { timer.cancel() }
        let bootstrap = ClientBootstrap(group: loop)
            .connectTimeout(.milliseconds(min(timeout, 15_000)))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard dial.add(channel) else { throw ChannelError.alreadyClosed }
                    if let tls {
                        let handler = try RelayTLS.handler(tls, address, trust) { dial.fail(.untrusted($0)) }
                        try channel.pipeline.syncOperations.addHandler(handler)
                    }
                    try addHTTP(to: channel, address, dial)
                }
            }
        bootstrap.connect(toHost: address.host, port: address.port).whenFailure { dial.fail(DialFailure(connecting: $0)) }
        return dial
    }

    private func addHTTP(to channel: any Channel, _ address: RelayAddress, _ dial: ControlDial) throws {
        let upgrader = NIOWebSocketClientUpgrader(maxFrameSize: maximumFrameBytes, automaticErrorHandling: false) { channel, head in
            channel.eventLoop.makeCompletedFuture {
                guard head.headers[canonicalForm: "Sec-WebSocket-Protocol"].map(String.init) == [Self.subprotocol],
                    head.headers["Sec-WebSocket-Extensions"].isEmpty
                else {
                    return dial.fail(.notARelay(status: 101, retryAfter: nil))
                }
                let handler = ControlFrameHandler(maximumMessageBytes: maximumFrameBytes, events: dial.events)
                dial.open(ControlConnection(channel: channel, handler: NIOLoopBound(handler, eventLoop: channel.eventLoop)))
                try channel.pipeline.syncOperations.addHandler(handler)
            }
        }
        let request = UpgradeRequestHandler(address, path: address.path, subprotocol: Self.subprotocol) { dial.fail($0) }
        let bound = NIOLoopBound(request, eventLoop: channel.eventLoop)
        try channel.pipeline.syncOperations.addHTTPClientHandlers(
            leftOverBytesStrategy: .forwardBytes,
            withClientUpgrade: (
                upgraders: [upgrader],
                completionHandler: { context in context.pipeline.syncOperations.removeHandler(bound.value, promise: nil) }
            )
        )
        try channel.pipeline.syncOperations.addHandler(request)
    }
}

/// An attempt to dial, which ends once: open, failed or given up.
package final class ControlDial: Sendable {
    private enum State {
        case dialing([any Channel], onEnd: [@Sendable () -> Void])
        case ended
    }

    let events: @Sendable (ControlConnection.Event) -> Void
    private let loop: any EventLoop
    private let state = Mutex(State.dialing([], onEnd: []))

    init(loop: any EventLoop, events: @escaping @Sendable (ControlConnection.Event) -> Void) {
        self.loop = loop
        self.events = events
    }

    /// Gives the attempt up. Without effect once it is open; no event follows.
    package func cancel() { _ = end(closing: true) }

    func fail(_ failure: DialFailure) {
        guard end(closing: true) else { return }
        loop.execute { self.events(.dialFailed(failure)) }
    }

    func open(_ connection: ControlConnection) {
        guard end(closing: false) else { return connection.drop() }
        events(.opened(connection))
    }

    /// False if the attempt is over.
    func add(_ channel: any Channel) -> Bool {
        state.withLock { state in
            guard case .dialing(let channels, let onEnd) = state else { return false }
            state = .dialing(channels + [channel], onEnd: onEnd)
            return true
        }
    }

    func whenEnded(_ body: @escaping @Sendable () -> Void) {
        let isOver = state.withLock { state in
            guard case .dialing(let channels, let onEnd) = state else { return true }
            state = .dialing(channels, onEnd: onEnd + [body])
            return false
        }
        if isOver { body() }
    }

    private func end(closing: Bool) -> Bool {
        let ended: (channels: [any Channel], onEnd: [@Sendable () -> Void])? = state.withLock { state in
            guard case .dialing(let channels, let onEnd) = state else { return nil }
            state = .ended
            return (channels, onEnd)
        }
        guard let ended else { return false }
        for body in ended.onEnd { body() }
        guard closing else { return true }
        for channel in ended.channels { RelayTLS.hangUp(channel) }
        return true
    }
}
