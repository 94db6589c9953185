// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
package import RelayProtocol

/// Establishes an endpoint's sessions over byte streams.
package struct SessionConnector: Sendable {
    private let certificate: EndpointCertificate
    private let limits: Limits
    private let timing: SessionTiming
    private let memory: SessionMemory
    private let bulk: BulkStreams
    private let movable: MovableSessions?
    private let isDirect: Bool
    private let admit: SessionAdmitter

    /// - Parameters:
    ///   - certificate: The endpoint's certificate. It is created once for each endpoint.
    ///   - limits: This side's limits. Where the sides differ, the session uses the lower value.
    ///   - timing: The intervals of keep-alive and idle checks.
    ///   - memory: The budgets that all sessions of the endpoint share.
    ///   - bulk: The bulk streams that peers are to open.
    ///   - canMove: Whether the sessions can go on over other streams. Then their owner opens these.
    ///   - admit: Decides which service a peer may use.
    package init(
        certificate: EndpointCertificate,
        limits: Limits = Limits(),
        timing: SessionTiming = SessionTiming(),
        memory: SessionMemory,
        bulk: BulkStreams = BulkStreams(),
        canMove: Bool = false,
        admit: @escaping SessionAdmitter
    ) {
        self.init(certificate, limits, timing, memory, bulk, canMove ? MovableSessions() : nil, isDirect: false, admit)
    }

    private init(
        _ certificate: EndpointCertificate,
        _ limits: Limits,
        _ timing: SessionTiming,
        _ memory: SessionMemory,
        _ bulk: BulkStreams,
        _ movable: MovableSessions?,
        isDirect: Bool,
        _ admit: @escaping SessionAdmitter
    ) {
        self.certificate = certificate
        self.limits = limits
        self.timing = timing
        self.memory = memory
        self.bulk = bulk
        self.movable = movable
        self.isDirect = isDirect
        self.admit = admit
    }

    /// A copy for direct paths, whose sessions decide otherwise which service a peer may use.
    func direct(admitting admit: @escaping SessionAdmitter) -> SessionConnector {
        SessionConnector(certificate, limits, timing, memory, bulk, movable, isDirect: true, admit)
    }

    /// Opens a session with a peer, as the TLS client.
    /// - Parameters:
    ///   - peer: The expected endpoint; `nil` to accept any.
    ///   - timeout: The time limit of the stream, and again of the handshake.
    package func open(
        to peer: EndpointID?,
        over transport: some PeerTransport,
        timeout: Duration = .seconds(15)
    ) async throws(AppServiceError) -> PeerSession {
        guard
            case .session(let session) = try await start(.client, peer.map { .exactly($0) } ?? .anyServer, .never, transport, timeout)
        else {
            throw AppServiceError(start: .notAuthentic)
        }
        return session
    }

    /// Moves a session that this side has opened to another stream. From then on this connector's admission counts.
    /// - Parameters:
    ///   - transport: Its channel is on the event loop of the session.
    ///   - timeout: The time limit of the stream, and again of the handshake.
    package func move(
        _ session: PeerSession,
        over transport: some PeerTransport,
        timeout: Duration = .seconds(15)
    ) async throws(AppServiceError) {
        guard case .moved = try await start(.client, .exactly(session.peer), .never, transport, timeout, moving: session.link) else {
            throw AppServiceError(start: .broken)
        }
    }

    /// Opens a bulk stream that a peer expects, as the TLS client.
    /// - Parameters:
    ///   - token: The peer's name for the stream.
    ///   - timeout: The time limit of the stream, and again of the handshake.
    package func openBulk(
        _ token: BulkToken,
        to peer: EndpointID,
        over transport: some PeerTransport,
        timeout: Duration = .seconds(15)
    ) async throws(AppServiceError) -> BulkStream {
        let opened = OneShot<BulkStream>()
        _ = try await start(.client, .exactly(peer), .opening(token) { opened.settle($0) }, transport, timeout)
        guard let stream = opened.value else { throw AppServiceError(start: .notAuthentic) }
        return stream
    }

    /// Accepts a session, the move of a session, or a bulk stream that a peer opens, as the TLS server.
    /// - Parameters:
    ///   - timeout: The time limit of the stream, and again of the handshake.
    ///   - isKnown: Whether an endpoint that has proved its id belongs to the account.
    package func accept(
        over transport: some PeerTransport,
        timeout: Duration = .seconds(15),
        isKnown: @escaping @Sendable (EndpointID) async -> Bool
    ) async throws(AppServiceError) -> PeerLink {
        try await start(.server, .anyone(isKnown: isKnown), .accepting(bulk), transport, timeout)
    }

    private func start(
        _ role: SessionStateMachine.Role,
        _ trust: SessionTLS.Trust,
        _ bulk: BulkStart,
        _ transport: some PeerTransport,
        _ timeout: Duration,
        moving: SessionLink? = nil
    ) async throws(AppServiceError) -> PeerLink {
        let peer = OneShot<EndpointID>()
        let started = OneShot<Result<PeerLink, SessionStartError>>()
        let channel: any Channel
        do throws(PeerTransportError) {
            channel = try await transport.connect(timeout: timeout) {
                [certificate, limits, timing, memory, movable, isDirect, admit] channel in
                let tls = try SessionTLS.handler(certificate, trust, bulk.applicationProtocols) { peer.settle($0) }
                let stream = SessionStream(
                    SessionHandler.Environment(
                        role: role,
                        limits: limits,
                        timing: timing,
                        memory: memory,
                        admit: admit,
                        peer: { peer.value },
                        bulk: bulk,
                        startTimeout: TimeAmount(timeout),
                        movable: movable,
                        isDirect: isDirect
                    ),
                    moving: moving
                ) { started.settle($0) }
                try channel.pipeline.syncOperations.addHandlers([tls, stream])
            }
        } catch {
            throw AppServiceError(transport: error)
        }
        guard let result = await started.wait() else {
            channel.close(promise: nil)
            throw AppServiceError(.cancelled)
        }
        do throws(SessionStartError) {
            return try result.get()
        } catch {
            throw AppServiceError(start: error)
        }
    }
}

extension AppServiceError {
    fileprivate init(start error: SessionStartError) {
        switch error {
        case .notAuthentic:
            self.init(
                .authenticationError,
                message: "the other device is not the intended one, or does not know this one",
                cause: error
            )
        case .broken: self.init(.remoteSystemUnavailable, message: "the connection to the device broke off; try again", cause: error)
        case .timedOut: self.init(.timedOut, message: "the device did not answer in time; try again", cause: error)
        }
    }
}
