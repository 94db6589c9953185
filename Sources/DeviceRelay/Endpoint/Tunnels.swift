// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTracing

/// Opens tunnels for sessions, and receives the relay's messages about them.
final class Tunnels {
    private typealias Waiting = CheckedContinuation<Result<TunnelEntrance, AppServiceError>, Never>

    private let endpoint: EndpointContext
    private let link: ControlLink
    private var waiting: [TunnelID: Waiting] = [:]
    /// The relay's errors about tunnels that this side is entering.
    private var failures: [TunnelID: CurrentValue<AppServiceError?>] = [:]

    init(_ endpoint: EndpointContext, link: ControlLink) {
        self.endpoint = endpoint
        self.link = link
    }

    /// How long to wait for the relay's error after a tunnel has ended. The error arrives on another connection, the control channel.
    private static let failureGrace = Duration.seconds(1)

    /// Creates the transport for this side of a tunnel.
    func transport(_ entrance: TunnelEntrance) -> TunnelTransport {
        let hosts = RelayHosts(dialled: [link.dialled, endpoint.address], named: link.relayURLs)
        return TunnelTransport(entrance, relay: link.dialled, hosts: hosts, trust: endpoint.trust)
    }

    /// Requests a tunnel to a peer, and waits until the relay reports it as ready.
    func open(to peer: EndpointID, _ timeout: Duration) async throws(AppServiceError) -> TunnelEntrance {
        let (patience, trace) = (Milliseconds(clamping: timeout.milliseconds), Trace.current)
        let result = await withCheckedContinuation { (continuation: Waiting) in
            link.request {
                .tunnelOpen(.init(ref: $0, target: peer, timeout: patience, trace: trace))
            } answer: { [self] answer in
                switch answer {
                case .ok(let result):
                    guard let tunnel = result?.tunnel else {
                        return continuation.resume(returning: .failure(AppServiceError(.webServiceUnavailable)))
                    }
                    let other = waiting.updateValue(continuation, forKey: tunnel)
                    // Only a faulty relay names a tunnel twice.
                    other?.resume(returning: .failure(AppServiceError(.webServiceUnavailable)))
                case .failure(let failure):
                    let error = AppServiceError(relay: failure.code, message: failure.message, retryAfter: failure.retryAfter)
                    continuation.resume(returning: .failure(error))
                case .settled, .connectionLost:
                    let state = endpoint.status.value.state
                    let error = AppServiceError(.networkNotAvailable, message: "\(state)", cause: state.problem)
                    continuation.resume(returning: .failure(error))
                }
            }
        }
        return try result.get()
    }

    /// Enters a tunnel. If the relay closes it, the error in the relay's message replaces the transport's error, because it states the
    /// reason.
    func enter<Session: Sendable>(
        _ entrance: TunnelEntrance,
        _ body: (TunnelTransport) async throws(AppServiceError) -> Session
    ) async throws(AppServiceError) -> Session {
        let failure = failures[entrance.tunnel] ?? CurrentValue(nil)
        defer { failures[entrance.tunnel] = nil }
        do throws(AppServiceError) {
            return try await body(transport(entrance))
        } catch {
            guard case .refused? = error.cause as? PeerTransportError else { throw error }
            guard let reason = await failure.first(within: Self.failureGrace, where: { $0 != nil }), let reason else { throw error }
            throw reason
        }
    }

    func ready(_ message: RelayMessage.TunnelReady) {
        let tunnel = message.entrance.tunnel
        guard let continuation = waiting.removeValue(forKey: tunnel) else { return }
        // Registered now, because `tunnel.failed` may arrive before the opener continues.
        failures[tunnel] = CurrentValue(nil)
        continuation.resume(returning: .success(message.entrance))
    }

    func failed(_ message: RelayMessage.TunnelFailed) {
        let error = AppServiceError(relay: message.code, message: message.message, retryAfter: message.retryAfter)
        waiting.removeValue(forKey: message.tunnel)?.resume(returning: .failure(error))
        failures[message.tunnel]?.update { $0 = error }
    }

    /// Fails all waiting opens: `tunnel.ready` cannot arrive on a lost connection.
    func disconnected() {
        let lost = waiting.values
        waiting = [:]
        for continuation in lost {
            continuation.resume(returning: .failure(AppServiceError(.networkNotAvailable, message: "the connection to the relay was lost")))
        }
    }
}

extension Tunnels: PathSource {
    private struct Path: SessionPath {
        let tunnels: Tunnels
        let peer: EndpointID
        /// Direct paths get a start.
        var delay: Int64 { 150 }

        func open(
            by connector: SessionConnector,
            within timeout: Duration
        ) async throws(AppServiceError) -> PeerSession {
            let entrance = try await tunnels.open(to: peer, timeout)
            guard !Task.isCancelled else {
                // Another path was faster.
                tunnels.link.say(.tunnelDecline(.init(tunnel: entrance.tunnel)))
                throw AppServiceError(.cancelled)
            }
            return try await tunnels.enter(entrance) { (transport) throws(AppServiceError) in
                try await connector.open(to: peer, over: transport)
            }
        }
    }

    /// The tunnel through the relay, to any peer.
    func paths(to peer: EndpointID) -> [any SessionPath] { [Path(tunnels: self, peer: peer)] }
}
