// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol

/// The sessions that this endpoint has opened stay on a path to their peer: on another one when theirs is lost, and on a direct one when it
/// appears. The peer follows.
extension SessionPool {
    /// The pauses after failed attempts.
    private static let pauses = (first: Duration.milliseconds(250), most: Duration.seconds(4))
    /// The pause after a direct path that could not be used, in milliseconds.
    private static let directPause: Int64 = 60_000
    /// The time for one attempt over all paths. The session waits longer.
    private static let patience = Duration.seconds(10)

    /// Finds another stream for a session whenever it has none, until it ends.
    func follow(_ session: PeerSession) async {
        while await session.needsStream() {
            var pause = Self.pauses.first
            while await session.waitsForStream(within: .zero), !peers.isRefused(session.peer) {
                if await moveAfterLoss(session) { break }
                // A refused session has ended.
                guard await session.waitsForStream(within: pause) else { break }
                pause = min(pause * 2, Self.pauses.most)
            }
            guard !peers.isRefused(session.peer) else { return await session.shutDown(Self.revoked.message) }
            // A direct path may have been found too late.
            if !session.isDirect, hasDirectWay(to: session.peer) { appeared(session.peer) }
        }
    }

    /// Moves a session that has no stream. A direct path without a greeting is the last choice for a while.
    private func moveAfterLoss(_ session: PeerSession) async -> Bool {
        let paths = paths(to: session.peer)
        if ungreeted.contains(session.peer), await move(session, over: paths.filter({ $0.kind != .nearby })) { return true }
        return await move(session, over: paths)
    }

    /// A peer can perhaps be reached directly.
    func appeared(_ peer: EndpointID) {
        guard !ungreeted.contains(peer) else { return }
        for session in sessions.sessions(with: peer) where session.isOpenedHere && !session.isDirect && !session.hasEnded {
            loop.spawn(self) { pool in
                let hasMoved = await pool.move(session, over: pool.paths(to: peer).filter { $0.kind == .nearby })
                if !hasMoved { pool.tryAgain(peer, \.appearing) }
            }
        }
    }

    /// Tries a direct path again while there is one: the peer may have been busy.
    /// - Parameter peers: Those that are tried later for this reason.
    private func tryAgain(_ peer: EndpointID, _ peers: ReferenceWritableKeyPath<SessionPool, Set<EndpointID>>) {
        guard self[keyPath: peers].insert(peer).inserted else { return }
        loop.after(Self.directPause) { [weak self] in
            guard let self, self[keyPath: peers].remove(peer) != nil, hasDirectWay(to: peer) else { return }
            appeared(peer)
        }
    }

    /// Whether the peer may be dialled directly now.
    func hasDirectWay(to peer: EndpointID) -> Bool { paths(to: peer).contains { $0.kind == .nearby && $0.headStart > 0 } }

    /// - Returns: Whether the session has moved.
    private func move(_ session: PeerSession, over paths: [any PeerPath]) async -> Bool {
        guard !paths.isEmpty, !peers.isRefused(session.peer), let connector = try? connector(),
            moving.insert(ObjectIdentifier(session)).inserted
        else { return false }
        defer { moving.remove(ObjectIdentifier(session)) }
        let starter = MoveStarter(pool: self, session: session, connector: connector)
        do throws(AppServiceError) {
            _ = try await PathRace(paths, until: ContinuousClock.now + Self.patience, on: loop, starting: starter).link()
            return true
        } catch {
            endpoint.logger.debug("a session could not be moved", metadata: ["peer": "\(session.peer.label)", "code": "\(error.code)"])
            return false
        }
    }

    private struct MoveStarter: LinkStarter {
        let pool: SessionPool
        let session: PeerSession
        let connector: SessionConnector

        var eventLoop: (any EventLoop)? { session.eventLoop }

        func start(
            over transport: any PeerTransport,
            on kind: PathPresences.Path,
            within timeout: Duration
        ) async throws(AppServiceError) -> EstablishedLink {
            if kind == .nearby {
                try await pool.moveDirectly(session, over: transport, within: timeout, by: connector)
            } else {
                try await connector.move(session, over: transport)
            }
            return .moved
        }
    }

    /// Moves a session to a direct path, and greets its peer there.
    private func moveDirectly(
        _ session: PeerSession,
        over transport: any PeerTransport,
        within timeout: Duration,
        by connector: SessionConnector
    ) async throws(AppServiceError) {
        let greeting = try greetings.greeting(with: session.peer)
        try await greetings.admitting(greeting, connector).move(session, over: transport, timeout: min(timeout, Self.directPatience))
        // The path may be lost again before the greeting is done, so nothing waits for it but what the peer asks for.
        loop.spawn(self) { pool in await pool.greet(greeting, overMoved: session) }
    }

    /// Greets the peer of a session that has moved to a direct path. The session leaves the path if no greeting comes about in time.
    func greet(_ greeting: Greeting, overMoved session: PeerSession) async {
        let moves = session.moves
        do throws(AppServiceError) {
            try await greetings.exchange(greeting, over: session, since: moves)
        } catch {
            endpoint.logger.debug("no greeting on a direct path", metadata: ["peer": "\(session.peer.label)", "code": "\(error.code)"])
            guard error.code == .timedOut else { return }
            tryAgain(session.peer, \.ungreeted)
            session.leaveStream(unlessMovedSince: moves)
        }
    }
}
