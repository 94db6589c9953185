// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol

/// The sessions with other endpoints: the established ones, and those that are being established.
final class SessionPool {
    /// A session that is being opened, and its result.
    private typealias Dial = CurrentValue<Result<PeerSession, AppServiceError>?>

    enum Life {
        case active
        /// No session is accepted, until `start`.
        case suspended
        case ended
    }

    let endpoint: EndpointContext
    let link: ControlLink
    let peers: Peers
    private let publisher: Publisher
    let tunnels: Tunnels
    let admissions: SessionAdmissions
    let greetings: SessionGreetings
    private let sources: [any PathSource]
    /// The bulk streams that peers are to open.
    let bulk = BulkStreams()
    /// Called when an endpoint has proved itself in a direct session.
    var onDirectSession: (EndpointID) -> Void = { _ in }
    private(set) var sessions: SessionTable<PeerSession>
    /// Created with the first session.
    private var made: SessionConnector?
    /// The latest direct session with each peer's host.
    private var directSessions: [EndpointID: PeerSession] = [:]
    /// The sessions that are being moved.
    var moving: Set<ObjectIdentifier> = []
    /// The peers whose direct paths are left alone for a while, because no greeting came about there.
    var ungreeted: Set<EndpointID> = []
    /// The peers whose sessions are to be moved to a direct path later.
    var appearing: Set<EndpointID> = []
    /// At most one for each peer.
    private var dialing: [EndpointID: Dial] = [:]
    /// The peers of sessions that are being accepted, with one entry for each session.
    var accepting: [EndpointID] = []
    var knocks = KeyedLimiter<EndpointID>()
    private(set) var life = Life.active

    /// - Parameter sources: The sources of paths that are tried beside the relay's tunnels.
    init(
        _ endpoint: EndpointContext,
        link: ControlLink,
        identity: OwnIdentity,
        peers: Peers,
        publisher: Publisher,
        sources: [any PathSource] = []
    ) {
        self.endpoint = endpoint
        self.link = link
        self.peers = peers
        self.publisher = publisher
        let tunnels = Tunnels(endpoint, link: link)
        self.tunnels = tunnels
        self.sources = sources + [tunnels]
        self.sessions = SessionTable(own: endpoint.id)
        admissions = SessionAdmissions(endpoint, peers, publisher)
        greetings = SessionGreetings(endpoint, identity, peers, publisher, admissions)
        greetings.onGreeted = { [weak self] in self?.greeted($0) }
    }

    var loop: EndpointLoop { endpoint.loop }

    func connector() throws(AppServiceError) -> SessionConnector {
        if let made { return made }
        let bound = NIOLoopBound(Weak(admissions), eventLoop: loop.eventLoop)
        let loop = loop
        do {
            let connector = SessionConnector(
                certificate: try EndpointCertificate(endpoint.identityKey),
                limits: endpoint.settings.limits.all,
                timing: endpoint.settings.sessionTiming,
                memory: SessionMemory(limits: endpoint.settings.limits.all),
                bulk: bulk,
                canMove: true
            ) { peer, opening in
                await loop.run(bound) { $0.object?.admit(peer, opening) } ?? .refuse(AppServiceError(.appUnavailable))
            }
            made = connector
            return connector
        } catch {
            throw AppServiceError(.failure, message: "the endpoint's key cannot be used", cause: error)
        }
    }

    /// The room for further sessions. Sessions that are being established count too. One without a stream does not: its peer may be about to
    /// move it, and it ends soon.
    private var room: SessionRoom {
        let peers = sessions.sessions.filter(\.hasStream).map(\.peer) + dialing.keys + accepting
        return SessionRoom(peers, isKnown: self.peers.isConfirmed, most: link.limits[.sessionsPerEndpoint])
    }

    /// Why a peer may not open or move a session now.
    func rejection(of peer: EndpointID) -> SessionRoom.Rejection? {
        let present = sessions.sessions(with: peer)
        guard let rejection = room.rejection(of: peer, isKnown: peers.isConfirmed(peer)) else {
            // Those without a stream are bounded, too.
            return present.count < 2 * SessionRoom.ofKnownPeer ? nil : .knownPeer
        }
        // The peer may have lost their streams, and come to move them.
        for session in present { session.probe() }
        return rejection
    }

    static var revoked: AppServiceError { AppServiceError(.remoteSystemUnavailable, message: "the device was revoked") }

    /// Adds an established session, unless the endpoint was stopped or the peer revoked in the meantime.
    func add(_ session: PeerSession) async throws(AppServiceError) {
        guard life == .active else {
            await session.shutDown()
            throw AppServiceError(.cancelled, message: "the platform was suspended or shut down")
        }
        guard !peers.isRefused(session.peer) else {
            await session.shutDown(Self.revoked.message)
            throw Self.revoked
        }
        // An older session may belong to a lost network. Without the probe this is noticed only after a minute.
        for older in sessions.sessions(with: session.peer) { older.probe() }
        sessions.add(session, with: session.peer, isOpenedHere: session.isOpenedHere)
        loop.spawn(self) { pool in
            _ = await session.ended()
            pool.sessions.remove(session, with: session.peer)
        }
        if session.isOpenedHere { loop.spawn(self) { pool in await pool.follow(session) } }
    }

    // MARK: Start and end

    /// Permits sessions again.
    func start() { if life == .suspended { life = .active } }

    /// Permits no new sessions until `start`.
    func suspend() { if life == .active { life = .suspended } }

    /// Closes the sessions with one peer. Sessions that are being established are closed later, by `add`.
    func close(with peer: EndpointID) {
        admissions.forget(peer)
        for session in sessions.sessions(with: peer) {
            sessions.remove(session, with: peer)
            loop.spawn(self) { _ in await session.shutDown(Self.revoked.message) }
        }
    }

    func disconnected() { tunnels.disconnected() }

    /// Other networks: the sessions whose stream was lost with an earlier one notice it soon.
    func networkChanged() { for session in sessions.sessions { session.probe() } }

    /// Closes all sessions.
    func closeAll() async {
        tunnels.disconnected()
        let sessions = sessions.sessions
        await withTaskGroup { group in
            for session in sessions { group.addTask { await session.shutDown() } }
        }
    }

    /// Prevents new sessions.
    func end() { life = .ended }

    // MARK: The opener

    /// Opens a connection to an app service, over an existing session or a new one.
    func open(
        _ info: AppServiceInfo,
        on target: ResolvedTarget,
        from appID: String?,
        timeout: Duration
    ) async throws(AppServiceError) -> AppServiceConnection {
        let end = ContinuousClock.now + timeout
        let caller = publisher.callingApp(appID) ?? ""
        // If the session has just begun to end, a second attempt uses another session.
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

    private func session(
        with peer: EndpointID,
        until end: ContinuousClock.Instant
    ) async throws(AppServiceError) -> PeerSession {
        // Without a stream, a session may be of a peer that is gone. A new one finds that out.
        if let session = sessions.session(with: peer, where: { !$0.hasEnded && $0.hasStream }) { return session }
        // All callers wait for the same session with a peer. If the first caller's timeout ends it, a caller with more time tries again.
        if let dial = dialing[peer] {
            do throws(AppServiceError) {
                return try await Self.result(of: dial, until: end)
            } catch {
                // The caller that started this attempt may have had a shorter timeout.
                guard error.code == .timedOut || error.code == .remoteSystemUnavailable, ContinuousClock.now < end else { throw error }
            }
        }
        let dial: Dial = if let dial = dialing[peer] { dial } else { try beginDial(peer, until: end) }
        return try await Self.result(of: dial, until: end)
    }

    private func beginDial(_ peer: EndpointID, until end: ContinuousClock.Instant) throws(AppServiceError) -> Dial {
        guard life != .ended else { throw AppServiceError(.cancelled, message: "the platform was shut down") }
        guard !peers.isRefused(peer) else { throw Self.revoked }
        if let rejection = room.rejectionToOpen {
            throw AppServiceError(.resourceLimitsExceeded, message: "\(rejection.rawValue); wait for one to end")
        }
        let dial = Dial(nil)
        dialing[peer] = dial
        loop.spawn(self) { pool in
            let result = await pool.dial(peer, until: end)
            dial.update { $0 = result }
        }
        return dial
    }

    private static func result(
        of dial: Dial,
        until end: ContinuousClock.Instant
    ) async throws(AppServiceError) -> PeerSession {
        let patience = max(.zero, ContinuousClock.now.duration(to: end)) + Tunnels.relayGrace
        let result = await dial.first(within: patience) { $0 != nil }
        guard let result = result ?? nil else { throw AppServiceError(Task.isCancelled ? .cancelled : .timedOut) }
        return try result.get()
    }

    private func dial(
        _ peer: EndpointID,
        until end: ContinuousClock.Instant
    ) async -> Result<PeerSession, AppServiceError> {
        defer { dialing[peer] = nil }
        do throws(AppServiceError) {
            let connector = try connector()
            let link = try await race(to: peer, until: end, starting: SessionStarter(pool: self, peer: peer, connector: connector))
            guard case .session(let session) = link else { throw AppServiceError(.failure) }
            try await add(session)
            // A direct path may have been found too late for the race.
            if hasDirectWay(to: peer) { appeared(peer) }
            return .success(session)
        } catch {
            return .failure(error)
        }
    }

    /// Opens a bulk stream that a peer expects.
    func openBulk(_ token: BulkToken, to peer: EndpointID, timeout: Duration) async throws(AppServiceError) -> BulkStream {
        guard life == .active else { throw AppServiceError(.cancelled, message: "the platform was suspended or shut down") }
        guard !peers.isRefused(peer) else { throw Self.revoked }
        let connector = try connector()
        let starter = BulkStarter(peer: peer, token: token, connector: connector)
        let link = try await race(to: peer, until: ContinuousClock.now + timeout, starting: starter)
        guard case .bulk(let stream) = link else { throw AppServiceError(.failure) }
        return stream
    }

    func paths(to peer: EndpointID) -> [any PeerPath] { sources.flatMap { $0.paths(to: peer) } }

    private func race(
        to peer: EndpointID,
        until end: ContinuousClock.Instant,
        starting starter: any LinkStarter
    ) async throws(AppServiceError) -> EstablishedLink {
        try await PathRace(paths(to: peer), until: end, on: loop, starting: starter).link()
    }

    private struct SessionStarter: LinkStarter {
        let pool: SessionPool
        let peer: EndpointID
        let connector: SessionConnector

        var eventLoop: (any EventLoop)? { pool.loop.eventLoop }

        func start(
            over transport: any PeerTransport,
            on kind: PathPresences.Path,
            within timeout: Duration
        ) async throws(AppServiceError) -> EstablishedLink {
            guard kind == .nearby else { return .session(try await connector.open(to: peer, over: transport)) }
            let greeting = try pool.greetings.greeting(with: peer)
            let session = try await pool.greetings.admitting(greeting, connector).open(
                to: peer,
                over: transport,
                timeout: min(timeout, SessionPool.directPatience)
            )
            try await pool.greetings.exchange(greeting, over: session, since: session.moves)
            return .session(session)
        }
    }

    private struct BulkStarter: LinkStarter {
        let peer: EndpointID
        let token: BulkToken
        let connector: SessionConnector

        var eventLoop: (any EventLoop)? { nil }

        func start(
            over transport: any PeerTransport,
            on kind: PathPresences.Path,
            within timeout: Duration
        ) async throws(AppServiceError) -> EstablishedLink {
            guard kind == .nearby else { return .bulk(try await connector.openBulk(token, to: peer, over: transport)) }
            let patience = min(timeout, SessionPool.directPatience)
            return .bulk(try await connector.openBulk(token, to: peer, over: transport, timeout: patience))
        }
    }

    // MARK: Direct sessions

    /// The time for the handshake of a direct session.
    static let directPatience = Duration.seconds(5)
    private func greeted(_ session: PeerSession) {
        directSessions = directSessions.filter { !$0.value.hasEnded }
        // Only a session that is opened here leads to the peer's host.
        if session.isOpenedHere { directSessions[session.peer] = session }
        onDirectSession(session.peer)
    }

    /// Opens a connection to what an endpoint itself serves on direct sessions.
    func openDirectly(_ info: AppServiceInfo, to peer: EndpointID, timeout: Duration) async throws(AppServiceError) -> AppServiceConnection
    {
        let end = ContinuousClock.now + timeout
        let session = try await directSession(with: peer, until: end)
        return try await session.open(info, from: "", timeout: ContinuousClock.now.duration(to: end))
    }

    /// Opens a direct session, if there is none: both sides tell each other what they are now.
    func directSession(with peer: EndpointID, until end: ContinuousClock.Instant) async throws(AppServiceError) -> PeerSession {
        if let known = directSessions[peer], !known.hasEnded, known.isDirect { return known }
        guard life == .active else { throw AppServiceError(.cancelled, message: "the platform was suspended or shut down") }
        guard !peers.isRefused(peer) else { throw Self.revoked }
        guard room.rejectionToOpen == nil else { throw AppServiceError(.resourceLimitsExceeded) }
        let starter = SessionStarter(pool: self, peer: peer, connector: try connector())
        let paths = paths(to: peer).filter { $0.kind == .nearby }
        let link = try await PathRace(paths, until: end, on: loop, starting: starter).link()
        guard case .session(let session) = link else { throw AppServiceError(.failure) }
        try await add(session)
        return session
    }
}
