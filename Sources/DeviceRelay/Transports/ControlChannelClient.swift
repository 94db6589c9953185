// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
import NIOPosix
import RelayProtocol
import Synchronization

/// Dials a relay's control channel: TCP, TLS, and the upgrade to a WebSocket.
package struct ControlChannelClient: Sendable {
    static let subprotocol = "device-relay.v1"

    private let group: any EventLoopGroup
    private let maximumFrameBytes: Int

    package init(
        group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        maximumFrameBytes: Int = Limits.largestControlFrame
    ) {
        self.group = group
        self.maximumFrameBytes = maximumFrameBytes
    }

    var loop: any EventLoop { group.next() }

    /// Starts to dial. Events are delivered in order, on one event loop: `opened` and all later events up to `closed`, or `dialFailed`
    /// alone.
    /// - Parameter timeout: The time limit until `opened`, in milliseconds. The TCP connection has at most 15 s of it.
    /// - Returns: A handle to cancel the attempt.
    @discardableResult
    package func dial(
        _ address: RelayAddress,
        trust: RelayTrust,
        timeout: Int64 = EndpointChannelStateMachine.dialingTime,
        events: @escaping @Sendable (ControlConnection.Event) -> Void
    ) -> ControlDial {
        let loop = loop
        let dial = ControlDial(loop: loop, events: events)
        let timer = loop.scheduleTask(in: .milliseconds(timeout)) { dial.fail(.timedOut) }
        dial.whenEnded { timer.cancel() }
        let webSocket = WebSocketDial(
            address: address,
            path: address.path,
            subprotocol: Self.subprotocol,
            maximumFrameBytes: maximumFrameBytes,
            trust: trust
        )
        let bootstrap = ClientBootstrap.toRelay(on: loop, timeout: .milliseconds(min(timeout, 15_000))) { channel in
            guard dial.add(channel) else { throw ChannelError.alreadyClosed }
            try webSocket.install(on: channel, opened: { opened($0, dial) }, failed: { dial.fail($0) })
        }
        bootstrap.connect(toHost: address.host, port: address.port).whenFailure { dial.fail(DialFailure(connecting: $0)) }
        return dial
    }

    private func opened(_ channel: any Channel, _ dial: ControlDial) {
        let handler = ControlFrameHandler(maximumMessageBytes: maximumFrameBytes, events: dial.events)
        let connection = ControlConnection(channel: channel, handler: NIOLoopBound(handler, eventLoop: channel.eventLoop))
        dial.open(connection) { try channel.pipeline.syncOperations.addHandler(handler) }
    }
}

/// An attempt to dial. It ends once: opened, failed or cancelled.
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

    /// Cancels the attempt; no event follows. It has no effect after `opened`.
    package func cancel() { _ = end(closing: true) }

    func fail(_ failure: DialFailure) {
        guard end(closing: true) else { return }
        loop.execute { self.events(.dialFailed(failure)) }
    }

    /// - Parameter install: Makes the connection usable. It comes before the event, because its receiver may close the connection at once.
    func open(_ connection: ControlConnection, install: () throws -> Void) {
        guard end(closing: false) else { return connection.drop() }
        do {
            try install()
            events(.opened(connection))
        } catch {
            connection.drop()
            events(.dialFailed(DialFailure(onChannel: error)))
        }
    }

    /// Returns false if the attempt has ended.
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
