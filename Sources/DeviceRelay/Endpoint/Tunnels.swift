// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import RelayProtocol
import RelayTracing

/// Opens tunnels for sessions, and receives the relay's messages about them.
final class Tunnels {
    /// A tunnel that this side opens, until the relay reports it as ready.
    private final class Opening {
        private enum State {
            case requested
            case waiting(TunnelID)
            /// Nobody waits for it any more.
            case givenUp
        }

        let peer: EndpointID
        private var state = State.requested
        let result = CurrentValue<Result<TunnelEntrance, AppServiceError>?>(nil)

        init(to peer: EndpointID) { self.peer = peer }

        /// - Returns: Whether somebody still waits for the tunnel.
        func named(_ tunnel: TunnelID) -> Bool {
            if case .givenUp = state { return false }
            state = .waiting(tunnel)
            return true
        }

        /// - Returns: The tunnel, if the relay has named it.
        func giveUp() -> TunnelID? {
            defer { state = .givenUp }
            if case .waiting(let tunnel) = state { return tunnel }
            return nil
        }

        func settle(_ result: Result<TunnelEntrance, AppServiceError>) { self.result.update { $0 = $0 ?? result } }
    }

    private let endpoint: EndpointContext
    private let link: ControlLink
    private var waiting: [TunnelID: Opening] = [:]
    /// The relay's errors about tunnels that this side is entering.
    private var failures: [TunnelID: CurrentValue<AppServiceError?>] = [:]
    /// Called when this endpoint is a side of a tunnel with a peer, and the peer has heard of it.
    var onBegin: (TunnelID, EndpointID) -> Void = { _, _ in }
    /// Called when a tunnel is not used any more, perhaps more than once.
    var onEnd: (TunnelID) -> Void = { _ in }

    init(_ endpoint: EndpointContext, link: ControlLink) {
        self.endpoint = endpoint
        self.link = link
    }

    /// How long to wait for the relay's error after a tunnel has ended. The error arrives on another connection, the control channel.
    private static let failureGrace = Duration.seconds(1)

    /// Creates the transport for this side of a tunnel.
    /// - Parameter group: Its event loops. The sessions of an endpoint are on its own loop, so that they can move to other streams.
    func transport(_ entrance: TunnelEntrance, on group: any EventLoopGroup) -> any PeerTransport {
        let hosts = RelayHosts(dialled: [link.dialled, endpoint.address], named: link.relayURLs)
        let transport = TunnelTransport(entrance, relay: link.dialled, hosts: hosts, trust: endpoint.trust, group: group)
        let (bound, loop) = (NIOLoopBound(Weak(self), eventLoop: endpoint.loop.eventLoop), endpoint.loop.eventLoop)
        return WatchedTransport(transport: transport) { loop.execute { bound.value.object?.onEnd(entrance.tunnel) } }
    }

    /// Creates the transport for this side of a tunnel that a peer has opened.
    func transport(_ entrance: TunnelEntrance, on group: any EventLoopGroup, openedBy peer: EndpointID) -> any PeerTransport {
        onBegin(entrance.tunnel, peer)
        return transport(entrance, on: group)
    }

    /// The time that the wait continues after the timeout, because the relay's error is more precise than `timedOut`.
    static let relayGrace = Duration.seconds(5)

    /// Requests a tunnel to a peer, and waits until the relay reports it as ready.
    /// - Throws: `cancelled`, and `timedOut` also if the relay says nothing. Then the relay is told that the tunnel is not wanted.
    func open(to peer: EndpointID, _ timeout: Duration) async throws(AppServiceError) -> TunnelEntrance {
        let (patience, trace) = (Milliseconds(clamping: timeout.milliseconds), Trace.current)
        let opening = Opening(to: peer)
        link.request {
            .tunnelOpen(.init(ref: $0, target: peer, timeout: patience, trace: trace))
        } answer: { [self] answer in
            switch answer {
            case .ok(let result):
                guard let tunnel = result?.tunnel else { return opening.settle(.failure(AppServiceError(.webServiceUnavailable))) }
                guard opening.named(tunnel) else { return decline(tunnel) }
                let other = waiting.updateValue(opening, forKey: tunnel)
                // Only a faulty relay names a tunnel twice.
                other?.settle(.failure(AppServiceError(.webServiceUnavailable)))
            case .failure(let failure):
                opening.settle(.failure(AppServiceError(relay: failure.code, message: failure.message, retryAfter: failure.retryAfter)))
            case .settled, .connectionLost:
                let state = endpoint.status.value.state
                opening.settle(.failure(AppServiceError(.networkNotAvailable, message: "\(state)", cause: state.problem)))
            }
        }
        let result = await opening.result.first(within: timeout + Self.relayGrace) { $0 != nil } ?? nil
        if let result, !Task.isCancelled { return try result.get() }
        // Another path was faster, the caller has ended, or the relay is silent.
        if case .success(let entrance)? = result {
            failures[entrance.tunnel] = nil
            decline(entrance.tunnel)
        } else if result == nil, let tunnel = opening.giveUp() {
            if waiting[tunnel] === opening { waiting[tunnel] = nil }
            decline(tunnel)
        }
        guard !Task.isCancelled else { throw AppServiceError(.cancelled) }
        throw AppServiceError(.timedOut, message: "the relay did not open the tunnel in time; try again")
    }

    private func decline(_ tunnel: TunnelID) {
        link.say(.tunnelDecline(.init(tunnel: tunnel)))
        onEnd(tunnel)
    }

    /// Enters a tunnel. If the relay closes it, the error in the relay's message replaces the transport's error, because it states the
    /// reason.
    func enter<Session: Sendable>(
        _ entrance: TunnelEntrance,
        on group: any EventLoopGroup,
        _ body: (any PeerTransport) async throws(AppServiceError) -> Session
    ) async throws(AppServiceError) -> Session {
        let failure = failures[entrance.tunnel] ?? CurrentValue(nil)
        defer { failures[entrance.tunnel] = nil }
        do throws(AppServiceError) {
            return try await body(transport(entrance, on: group))
        } catch {
            onEnd(entrance.tunnel)
            guard case .refused? = error.cause as? PeerTransportError else { throw error }
            guard let reason = await failure.first(within: Self.failureGrace, where: { $0 != nil }), let reason else { throw error }
            throw reason
        }
    }

    func ready(_ message: RelayMessage.TunnelReady) {
        let tunnel = message.entrance.tunnel
        guard let opening = waiting.removeValue(forKey: tunnel) else { return }
        // Registered now, because `tunnel.failed` may arrive before the opener continues.
        failures[tunnel] = CurrentValue(nil)
        opening.settle(.success(message.entrance))
        onBegin(tunnel, opening.peer)
    }

    func failed(_ message: RelayMessage.TunnelFailed) {
        let error = AppServiceError(relay: message.code, message: message.message, retryAfter: message.retryAfter)
        waiting.removeValue(forKey: message.tunnel)?.settle(.failure(error))
        failures[message.tunnel]?.update { $0 = error }
        onEnd(message.tunnel)
    }

    /// Fails all waiting opens: `tunnel.ready` cannot arrive on a lost connection.
    func disconnected() {
        let lost = waiting.values
        waiting = [:]
        for opening in lost {
            opening.settle(.failure(AppServiceError(.networkNotAvailable, message: "the connection to the relay was lost")))
        }
    }
}

extension Tunnels: PathSource {
    private struct Path: PeerPath {
        let tunnels: Tunnels
        let peer: EndpointID
        var kind: PathPresences.Path { .relay }
        var headStart: Int64 { 0 }

        func connect(within timeout: Duration, starting starter: any LinkStarter) async throws(AppServiceError) -> EstablishedLink {
            let entrance = try await tunnels.open(to: peer, timeout)
            return try await tunnels.enter(entrance, on: starter.eventLoop ?? MultiThreadedEventLoopGroup.singleton) {
                (transport) throws(AppServiceError) in
                try await starter.start(over: transport, on: kind, within: timeout)
            }
        }
    }

    /// The tunnel through the relay, to any peer.
    func paths(to peer: EndpointID) -> [any PeerPath] { [Path(tunnels: self, peer: peer)] }
}
