// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

// Sessions with other endpoints, through the relay's tunnels.
extension LocalEndpoint {
    /// Made when the first session is.
    private func connector() throws(AppServiceError) -> SessionConnector {
        if let sessionConnector { return sessionConnector }
        do {
            let connector = SessionConnector(
                certificate: try EndpointCertificate(identityKey),
                timing: settings.sessionTiming,
                memory: SessionMemory()
            ) { [weak self] peer, opening in
                await self?.admit(peer, opening) ?? .refuse(AppServiceError(.appUnavailable))
            }
            sessionConnector = connector
            return connector
        } catch {
            throw AppServiceError(.failure, message: "the endpoint's key cannot be used", cause: error)
        }
    }

    /// The room for sessions, those included that are just being made.
    private var room: SessionRoom {
        let peers = sessions.sessions.map(\.peer) + dialing.keys + accepting
        return SessionRoom(peers, isKnown: self.peers.isConfirmed, most: channel.limits[.sessionsPerEndpoint])
    }

    /// Keeps a session that has come about, if it is still wanted.
    private func add(_ session: PeerSession) async throws(AppServiceError) {
        guard isActive else {
            await session.shutDown()
            throw AppServiceError(.cancelled, message: "the platform was suspended or shut down")
        }
        guard !peers.isRefused(session.peer) else {
            await session.shutDown()
            throw Self.revoked
        }
        // One of another network may be dead, and nothing says so for a minute.
        for older in sessions.sessions(with: session.peer) { older.probe() }
        sessions.add(session, with: session.peer, isOpenedHere: session.isOpenedHere)
        spawn { endpoint in
            _ = await session.ended()
            endpoint.sessions.remove(session, with: session.peer)
        }
    }

    /// Whether it is to have sessions: not while it is suspended.
    private var isActive: Bool {
        if case .stopped = channel.status { false } else { !isShutDown }
    }

    private static var revoked: AppServiceError { AppServiceError(.remoteSystemUnavailable, message: "the device was revoked") }

    /// Closes the sessions with one peer; those that are coming about are not kept.
    func closeSessions(with peer: EndpointID) {
        introduced[peer] = nil
        for session in sessions.sessions(with: peer) {
            sessions.remove(session, with: peer)
            spawn { _ in await session.shutDown() }
        }
    }

    /// Closes all sessions.
    func endSessions() async {
        loseTunnels()
        await withTaskGroup { group in
            for session in sessions.sessions { group.addTask { await session.shutDown() } }
        }
    }

    // MARK: The opener

    /// Opens a connection to an app service, over the session there is, or over a new one.
    func open(
        _ info: AppServiceInfo,
        on target: ResolvedTarget,
        from appID: String?,
        timeout: Duration
    ) async throws(AppServiceError) -> AppServiceConnection {
        let end = ContinuousClock.now + timeout
        let caller = callingApp(appID) ?? ""
        // A session that has just begun to end asks for another one.
        for isLast in [false, true] {
            let session = try await session(with: target.endpoint, until: end)
            do throws(AppServiceError) {
                return try await session.open(info, from: caller, timeout: ContinuousClock.now.duration(to: end))
            } catch {
                guard error.cause is SessionEnding, !isLast else { throw error }
                sessions.remove(session, with: session.peer)
            }
        }
        throw AppServiceError(.remoteSystemUnavailable)
    }

    private func session(with peer: EndpointID, until end: ContinuousClock.Instant) async throws(AppServiceError) -> PeerSession {
        if let session = sessions.session(with: peer), !session.hasEnded { return session }
        // Whoever wants the same peer meanwhile waits for the same session; so it does not end with the first one's patience.
        if let dial = dialing[peer] {
            do throws(AppServiceError) {
                return try await Self.result(of: dial, until: end)
            } catch {
                // Whoever asked for that one may have had less time.
                guard error.code == .timedOut || error.code == .remoteSystemUnavailable, ContinuousClock.now < end else { throw error }
            }
        }
        let dial: Dial = if let dial = dialing[peer] { dial } else { try beginDial(peer, until: end) }
        return try await Self.result(of: dial, until: end)
    }

    private func beginDial(_ peer: EndpointID, until end: ContinuousClock.Instant) throws(AppServiceError) -> Dial {
        guard !isShutDown else { throw AppServiceError(.cancelled, message: "the platform was shut down") }
        guard !peers.isRefused(peer) else { throw Self.revoked }
        if let refusal = room.refusalToOpen {
            throw AppServiceError(.resourceLimitsExceeded, message: "\(refusal.rawValue); wait for one to end")
        }
        let dial = Dial(nil)
        dialing[peer] = dial
        spawn { endpoint in
            let result = await endpoint.dial(peer, ContinuousClock.now.duration(to: end))
            dial.update { $0 = result }
        }
        return dial
    }

    /// How much longer than the caller wanted the relay has for its word, which says more than that the time is over.
    private static let relayGrace = Duration.seconds(5)

    private static func result(of dial: Dial, until end: ContinuousClock.Instant) async throws(AppServiceError) -> PeerSession {
        let patience = max(.zero, ContinuousClock.now.duration(to: end)) + relayGrace
        let result = await dial.first(within: patience) { $0 != nil }
        guard let result = result ?? nil else {
            throw AppServiceError(Task.isCancelled ? .cancelled : .timedOut)
        }
        return try result.get()
    }

    private func dial(_ peer: EndpointID, _ timeout: Duration) async -> Result<PeerSession, AppServiceError> {
        defer { dialing[peer] = nil }
        do throws(AppServiceError) {
            let entrance = try await openTunnel(to: peer, timeout).get()
            let session = try await open(entrance, to: peer)
            try await add(session)
            return .success(session)
        } catch {
            return .failure(error)
        }
    }

    /// How long the relay's word on a tunnel may come after the tunnel's end: it comes by another connection.
    private static let tunnelWordGrace = Duration.seconds(1)

    private func open(_ entrance: TunnelEntrance, to peer: EndpointID) async throws(AppServiceError) -> PeerSession {
        let told = tunnelFailures[entrance.tunnel] ?? Observed(nil)
        defer { tunnelFailures[entrance.tunnel] = nil }
        do throws(AppServiceError) {
            return try await connector().open(to: peer, over: transport(entrance))
        } catch {
            // That the tunnel ended does not say why; the relay does.
            guard case .refused? = error.cause as? PeerTransportError else { throw error }
            guard let reason = await told.first(within: Self.tunnelWordGrace, where: { $0 != nil }), let reason else { throw error }
            throw reason
        }
    }

    private func transport(_ entrance: TunnelEntrance) -> TunnelTransport {
        TunnelTransport(entrance, relay: dialled, hosts: RelayHosts(dialled: [dialled, address], named: relayURLs), trust: trust)
    }

    private func openTunnel(to peer: EndpointID, _ timeout: Duration) async -> Result<TunnelEntrance, AppServiceError> {
        let patience = Milliseconds(clamping: timeout.milliseconds)
        return await withCheckedContinuation { continuation in
            request {
                .tunnelOpen(.init(ref: $0, target: peer, timeout: patience))
            } answer: { endpoint, answer in
                switch answer {
                case .ok(let result):
                    guard let tunnel = result?.tunnel else {
                        return continuation.resume(returning: .failure(AppServiceError(.webServiceUnavailable)))
                    }
                    endpoint.waitingTunnels[tunnel] = continuation
                case .failure(let failure):
                    let error = AppServiceError(relay: failure.code, message: failure.message, retryAfter: failure.retryAfter)
                    continuation.resume(returning: .failure(error))
                case .settled, .connectionLost:
                    let state = endpoint.link.value.state
                    continuation.resume(
                        returning: .failure(AppServiceError(.networkNotAvailable, message: "\(state)", cause: state.problem))
                    )
                }
            }
        }
    }

    func ready(_ message: RelayMessage.TunnelReady) {
        let tunnel = message.entrance.tunnel
        guard let continuation = waitingTunnels.removeValue(forKey: tunnel) else { return }
        // The relay may say that it failed before the opener goes on.
        tunnelFailures[tunnel] = Observed(nil)
        continuation.resume(returning: .success(message.entrance))
    }

    func failed(_ message: RelayMessage.TunnelFailed) {
        let error = AppServiceError(relay: message.code, message: message.message, retryAfter: message.retryAfter)
        waitingTunnels.removeValue(forKey: message.tunnel)?.resume(returning: .failure(error))
        tunnelFailures[message.tunnel]?.update { $0 = error }
    }

    /// No `tunnel.ready` comes over a connection that is gone.
    func loseTunnels() {
        let waiting = waitingTunnels.values
        waitingTunnels = [:]
        for continuation in waiting {
            continuation.resume(returning: .failure(AppServiceError(.networkNotAvailable, message: "the connection to the relay was lost")))
        }
    }

    // MARK: The target

    /// Another endpoint wants to talk to this one.
    func offered(_ offer: RelayMessage.TunnelOffer) {
        let decline = EndpointMessage.tunnelDecline(.init(tunnel: offer.entrance.tunnel))
        guard isActive, let connector = try? connector(),
            let opener = try? Signed<EndpointRecord>(verifying: offer.opener.record.bytes).payload.endpointID,
            let peer = try? introduce(offer.opener, as: opener), opener != id
        else { return say(decline) }
        for action in peer.actions { perform(action) }
        if let refusal = room.refusal(of: opener, isKnown: peers.isConfirmed(opener)) {
            logger.info("a session was declined", metadata: ["peer": "\(opener.label)", "reason": "\(refusal.rawValue)"])
            return say(decline)
        }
        introduced[opener] = peer.record
        accepting.append(opener)
        let transport = transport(offer.entrance)
        let logger = logger
        spawn { endpoint in
            do throws(AppServiceError) {
                // Who it is, its key proves; the relay's word only says whom to expect.
                let session = try await connector.accept(over: transport) { $0 == opener }
                try await endpoint.add(session)
            } catch {
                logger.info("a session did not come about", metadata: ["peer": "\(opener.label)", "code": "\(error.code)"])
            }
            endpoint.acceptEnded(opener)
        }
    }

    private func acceptEnded(_ peer: EndpointID) {
        if let index = accepting.firstIndex(of: peer) { accepting.remove(at: index) }
        // Only those that talk are remembered beside the directory.
        let peers = Set(sessions.sessions.map(\.peer) + accepting)
        introduced = introduced.filter { peers.contains($0.key) }
    }

    /// Which service a peer gets.
    private func admit(_ peer: EndpointID, _ opening: SessionOpening) -> SessionAdmission {
        guard !peers.isRefused(peer), let record = peers.record(of: peer) ?? introduced[peer] else {
            return .refuse(AppServiceError(.notAuthorized))
        }
        let caller = AppServiceCaller(
            accountID: account.id,
            deviceName: record.name,
            systemID: record.systemID,
            endpoint: peer,
            appID: opening.callerAppID.isEmpty ? nil : opening.callerAppID,
            isNew: !peers.isConfirmed(peer)
        )
        guard !caller.isNew else {
            return .refuse(AppServiceError(.notAuthorized, message: "this device is new there; approve it on the other one"))
        }
        return SessionAdmission(apps[opening.packageID]?.registration.services, for: opening, from: caller)
    }
}
