// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import NIOCore
import NIOPosix
import Testing

@testable import DeviceRelay
@testable import RelayProtocol

/// The sessions of an endpoint, through a relay's control channel and tunnels.
@Suite(.timeLimit(.minutes(5))) struct SessionPoolTests {
    /// A pool with the parts that it needs, at a relay that the test controls.
    private actor World {
        nonisolated let endpoint: EndpointContext
        nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }
        nonisolated let relay: ScriptedRelay
        nonisolated let tunnels: TestTunnelRelay
        /// Of all sessions of peers.
        nonisolated let peerLoop = MultiThreadedEventLoopGroup.singleton.next()
        /// The tunnels that the pool has requested.
        nonisolated let requests = CurrentValue<[TunnelID]>([])
        /// The tunnels that the pool no longer wants.
        nonisolated let declined = CurrentValue<[TunnelID]>([])
        /// The tunnels of which the endpoint is a side now.
        nonisolated let used = CurrentValue<Set<TunnelID>>([])
        /// The number of paths without the relay that were tried.
        nonisolated let connects = CurrentValue(0)
        /// The number of opens that have begun.
        nonisolated let opens = CurrentValue(0)
        private let link: ControlLink
        private let peers: Peers
        private let pool: SessionPool
        private let direct = DirectPaths()

        /// - Parameter limits: The limits that the relay states.
        init(_ directory: TemporaryDirectory, limits: Limits = Limits()) async throws {
            relay = try await ScriptedRelay()
            tunnels = try await TestTunnelRelay()
            endpoint = try .sample(directory, relay: relay.url, id: relay.id) {
                // Only a new session causes a ping.
                $0.sessionTiming.quietInterval = .seconds(3_600)
            }
            let own = JournalTransaction.OwnEndpoint(account: "account", record: nil, hasEnumerated: false)
            let (id, account) = (endpoint.id, endpoint.account.id)
            let clock = RelayClock(endpoint.loop, endpoint.journal, offset: 0)
            let storage = StorageGuard(endpoint.loop, endpoint.journal, endpoint.logger)
            let identity = OwnIdentity(endpoint, stored: own, invitationProof: nil)
            let book = try endpoint.journal.read { try PeerBook(own: id, directoryName: account, stored: own, $0) }
            link = ControlLink(endpoint, clock: clock, storage: storage, identity: identity, relayURLs: [])
            peers = Peers(endpoint, link: link, clock: clock, book: book, directories: CurrentValue([:]))
            let publisher = Publisher(endpoint, link: link, identity: identity)
            pool = SessionPool(
                endpoint,
                link: link,
                identity: identity,
                peers: peers,
                publisher: publisher,
                sources: [direct]
            )
            pool.tunnels.onBegin = { [used] tunnel, _ in used.update { $0.insert(tunnel) } }
            pool.tunnels.onEnd = { [used] tunnel in used.update { $0.remove(tunnel) } }
            let (requests, declined) = (requests, declined)
            relay.script.withLock {
                $0.answers = { message in
                    switch message {
                    case .hello: return [.welcome(.init(limits: limits, intervals: .init(), urls: [], features: []))]
                    case .tunnelOpen(let open):
                        var random = SystemRandomNumberGenerator()
                        let tunnel = TunnelID(using: &random)
                        requests.update { $0.append(tunnel) }
                        return [.ok(.init(ref: open.ref, result: .init(tunnel: tunnel)))]
                    case .tunnelDecline(let decline):
                        declined.update { $0.append(decline.tunnel) }
                        return nil
                    default: return nil
                    }
                }
            }
        }

        /// Connects, and lists these endpoints.
        func connect(_ members: Member...) async {
            link.onEvent = { [weak self] event in self?.assumeIsolated { $0.take(event) } }
            link.start()
            _ = await endpoint.status.first { $0.state.isConnected }
            for member in members { peers.take(.added(member.added())) }
            peers.take(.enumerated)
        }

        private func take(_ event: ControlLink.Event) {
            switch event {
            case .message(.tunnelReady(let message)): pool.tunnels.ready(message)
            case .message(.tunnelFailed(let message)): pool.tunnels.failed(message)
            case .message(.tunnelOffer(let message)): pool.offered(message)
            case .disconnected: pool.disconnected()
            case .connected, .message: break
            }
        }

        func open(_ peer: Member) async throws(AppServiceError) -> AppServiceConnection {
            opens.update { $0 += 1 }
            let target = ResolvedTarget(endpoint: peer.id, appID: SessionWorld.info.appID)
            return try await pool.open(SessionWorld.info, on: target, from: "com.example.remote", timeout: .seconds(60))
        }

        func openBulk(_ peer: Member) async throws(AppServiceError) -> BulkStream {
            try await pool.openBulk(BulkToken(), to: peer.id, timeout: .seconds(60))
        }

        /// The peer enters the requested tunnel with this index, and the relay reports it as ready.
        nonisolated func admit(_ side: SessionSide, _ index: Int = 0) async throws -> PeerSession {
            guard case .session(let session) = try await enter(side, index) else { throw AppServiceError(.failure) }
            return session
        }

        /// The same, for a session or the move of one.
        nonisolated func enter(_ side: SessionSide, _ index: Int) async throws -> PeerLink {
            let all = await requests.first { $0.count > index }
            let tunnel = try #require(all?[index])
            async let link = side.connector.accept(over: tunnels.transport(tunnel, [.socket], on: peerLoop)) { _ in true }
            relay.send(.tunnelReady(.init(entrance: tunnels.entrance(tunnel))))
            return try await link
        }

        /// The relay offers a tunnel of a peer.
        nonisolated func offer(_ peer: Member) -> TunnelTransport {
            var random = SystemRandomNumberGenerator()
            let tunnel = TunnelID(using: &random)
            relay.send(.tunnelOffer(.init(entrance: tunnels.entrance(tunnel), opener: peer.introduction())))
            return tunnels.transport(tunnel, [.socket])
        }

        /// There is a path to a peer without the relay from now on.
        /// - Returns: The peer's side.
        func addPath(to peer: Member, _ kind: PathPresences.Path = .relay) -> TunnelTransport {
            var random = SystemRandomNumberGenerator()
            let tunnel = TunnelID(using: &random)
            direct.paths[peer.id] = .init(transport: tunnels.transport(tunnel, [.socket]), kind: kind, connects: connects)
            return tunnels.transport(tunnel, [.socket], on: peerLoop)
        }

        /// There is a path to a peer that fails.
        func addBrokenPath(to peer: Member) { direct.paths[peer.id] = .init(transport: nil, connects: connects) }

        /// Waits until the pool has this many sessions.
        func has(_ count: Int) async { while pool.sessions.count != count { await Task.yield() } }

        /// The session for new connections to a peer.
        func preferred(_ peer: Member) -> PeerSession? { pool.sessions.session(with: peer.id) }

        /// The peer can perhaps be reached directly.
        func appeared(_ peer: Member) { pool.appeared(peer.id) }

        func revoke(_ peer: Member) { pool.close(with: peer.id) }

        func serve(_ service: AppService) { pool.admissions.ownService = { service } }

        func suspend() { pool.suspend() }
        func resume() { pool.start() }

        func end() async {
            link.leave(.suspended)
            await link.closed()
            await pool.closeAll()
            link.end()
            pool.end()
            await endpoint.loop.end()
            endpoint.journal.close()
            await relay.stop()
            await tunnels.stop()
        }
    }

    /// Paths that need no relay.
    private final class DirectPaths: PathSource {
        struct Path: PeerPath {
            /// `nil` if it fails.
            let transport: TunnelTransport?
            // Both sides of a way that is not nearby need no greeting.
            var kind = PathPresences.Path.relay
            let connects: CurrentValue<Int>
            var headStart: Int64 { 150 }

            func connect(within timeout: Duration, starting starter: any LinkStarter) async throws(AppServiceError) -> EstablishedLink {
                connects.update { $0 += 1 }
                guard let transport else { throw AppServiceError(.notSupported) }
                return try await starter.start(over: transport, on: kind, within: timeout)
            }
        }

        var paths: [EndpointID: Path] = [:]

        func paths(to peer: EndpointID) -> [any PeerPath] { paths[peer].map { [$0] } ?? [] }
    }

    /// Another endpoint, with an echo service.
    private struct Peer {
        let member: Member
        let side: SessionSide

        init() throws {
            member = try Member("Peer")
            side = try SessionSide(key: member.key, canMove: true, services: [.echo()])
        }

        /// A peer whose id is smaller or larger than another one.
        init(isSmaller: Bool, than other: EndpointID) throws {
            var peer = try Peer()
            while (peer.member.id < other) != isSmaller { peer = try Peer() }
            self = peer
        }
    }

    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test func callersThatWaitAtOnceShareOneSession() async throws {
        let (world, peer) = (try await World(directory), try Peer())
        await world.connect(peer.member)
        let answers = try await withThrowingTaskGroup { group in
            for _ in 0..<8 { group.addTask { try await world.open(peer.member).send(["a": 1]) } }
            // All callers wait before the session exists.
            _ = await world.opens.first { $0 == 8 }
            await world.has(0)
            _ = try await world.admit(peer.side)
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(answers == Array(repeating: ["a": 1], count: 8))
        // A later caller uses it too.
        #expect(try await world.open(peer.member).send(["b": 2]) == ["b": 2])
        #expect(world.requests.value.count == 1)
        await world.has(1)
        await world.end()
    }

    @Test func failedTunnelFailsAllItsCallers() async throws {
        let (world, peer) = (try await World(directory), try Peer())
        await world.connect(peer.member)
        async let first = code { () async throws(AppServiceError) in try await world.open(peer.member) }
        async let second = code { () async throws(AppServiceError) in try await world.open(peer.member) }
        _ = await world.opens.first { $0 == 2 }
        let tunnel = try #require(await world.requests.first { !$0.isEmpty }?.first)
        world.relay.send(.tunnelFailed(.init(tunnel: tunnel, code: .declined, message: "no")))
        let codes = await [first, second]
        #expect(codes[0] != nil && codes[0] == codes[1])
        await world.has(0)
        // The next caller tries again.
        async let connection = world.open(peer.member).send([:])
        _ = try await world.admit(peer.side, 1)
        let answer = try await connection
        #expect(answer == [:])
        await world.end()
    }

    @Test func tunnelsAreKnownWhileTheyAreUsed() async throws {
        let (world, peer) = (try await World(directory), try Peer())
        await world.connect(peer.member)
        // Opened here.
        async let connection = world.open(peer.member).send([:])
        let session = try await world.admit(peer.side)
        _ = try await connection
        #expect(world.used.value == Set(world.requests.value))
        // Opened there.
        let other = try await peer.side.connector.open(to: world.endpoint.id, over: world.offer(peer.member))
        #expect(await world.used.first { $0.count == 2 } != nil)
        await other.shutDown()
        #expect(await world.used.first { $0.count == 1 } == Set(world.requests.value))
        await session.shutDown()
        #expect(await world.used.first { $0.isEmpty } != nil)
        // One that fails.
        async let failed = code { () async throws(AppServiceError) in try await world.open(peer.member) }
        let tunnel = try #require(await world.requests.first { $0.count == 2 }?.last)
        world.relay.send(.tunnelReady(.init(entrance: world.tunnels.entrance(tunnel))))
        #expect(await world.used.first { $0.contains(tunnel) } != nil)
        world.relay.send(.tunnelFailed(.init(tunnel: tunnel, code: .cancelled, message: "no")))
        #expect(await world.used.first { $0.isEmpty } != nil)
        await world.end()
        _ = await failed
    }

    @Test func silentRelayKeepsNobodyWaiting() async throws {
        let (world, peer) = (try await World(directory), try Peer())
        await world.connect(peer.member)
        let stream = Task { await code { () async throws(AppServiceError) in try await world.openBulk(peer.member) } }
        let tunnel = try #require(await world.requests.first { !$0.isEmpty }?.first)
        stream.cancel()
        #expect(await stream.value == .cancelled)
        #expect(await world.declined.first { !$0.isEmpty } == [tunnel])
        // What the relay says later changes nothing.
        world.relay.send(.tunnelReady(.init(entrance: world.tunnels.entrance(tunnel))))
        async let connection = world.open(peer.member).send([:])
        _ = try await world.admit(peer.side, 1)
        let answer = try await connection
        #expect(answer == [:])
        await world.end()
    }

    @Test func pathWithoutTheRelayIsUsed() async throws {
        let (world, peer) = (try await World(directory), try Peer())
        let side = await world.addPath(to: peer.member)
        async let accepted = peer.side.connector.acceptSession(over: side) { _ in true }
        #expect(try await world.open(peer.member).send(["a": 1]) == ["a": 1])
        _ = try await accepted
        await world.has(1)
        await world.end()
    }

    @Test func tunnelFollowsAPathThatFails() async throws {
        let (world, peer) = (try await World(directory), try Peer())
        await world.connect(peer.member)
        await world.addBrokenPath(to: peer.member)
        async let failed = code { () async throws(AppServiceError) in try await world.open(peer.member) }
        let tunnel = try #require(await world.requests.first { !$0.isEmpty }?.first)
        world.relay.send(.tunnelFailed(.init(tunnel: tunnel, code: .declined, message: "no")))
        // The tunnel's error, not that of the other path.
        let reported = await failed
        #expect(reported != nil && reported != .notSupported)
        async let connection = world.open(peer.member).send([:])
        _ = try await world.admit(peer.side, 1)
        let answer = try await connection
        #expect(answer == [:])
        await world.end()
    }

    @Test func sessionGoesOnOverAnotherTunnel() async throws {
        let (world, peer) = (try await World(directory), try Peer())
        await world.connect(peer.member)
        async let opened = world.open(peer.member)
        let session = try await world.admit(peer.side)
        let connection = try await opened
        for index in 1...3 {
            try await world.tunnels.breakOff()
            async let answer = connection.send(["a": 1])
            guard case .moved(let moved) = try await world.enter(peer.side, index) else {
                Issue.record("the session has not moved")
                return
            }
            #expect(moved === session)
            let answered = try await answer
            #expect(answered == ["a": 1])
        }
        await world.has(1)
        // A peer that is revoked meanwhile is not followed.
        await world.revoke(peer.member)
        await world.has(0)
        #expect(await code { () async throws(AppServiceError) in try await connection.send([:]) } != nil)
        #expect(world.requests.value.count == 4)
    }

    /// The peer takes the greeting, and says nothing.
    @Test func sessionLeavesADirectPathWithoutAGreeting() async throws {
        let (world, peer) = (try await World(directory), try Peer())
        await world.connect(peer.member)
        async let opened = world.open(peer.member)
        let session = try await world.admit(peer.side)
        let connection = try await opened
        let own = try #require(await world.preferred(peer.member))
        let silent = AppService("peer") { _, _ in try await Task.sleep(for: .seconds(3_600)) }
        let connector = peer.side.connector.direct { [admit = peer.side.admit] other, opening in
            guard opening.appID == Greeting.info.appID else { return await admit(other, opening) }
            let caller = AppServiceCaller(
                accountID: "me",
                deviceName: "device",
                systemID: RemoteSystem.ID(SystemID(digest: other.digest)),
                endpoint: other,
                appID: nil,
                isNew: false
            )
            return .serve(silent, Greeting.info, caller)
        }
        // A busy machine may need more time than an attempt has.
        var moved: PeerSession?
        while moved == nil {
            let side = await world.addPath(to: peer.member, .nearby)
            async let accepted = connector.accept(over: side) { _ in true }
            await world.appeared(peer.member)
            if case .moved(let session) = try? await accepted { moved = session }
        }
        #expect(moved === session)
        let connects = world.connects.value
        // What was open before goes on there.
        #expect(try await connection.send(["a": 1]) == ["a": 1])
        guard case .moved(let back) = try await world.enter(peer.side, 1) else {
            Issue.record("the session has not moved back")
            return
        }
        #expect(back === session)
        #expect(try await connection.send(["b": 2]) == ["b": 2])
        #expect(!own.isDirect && !own.hasEnded)
        // For a while the direct path is left alone.
        await world.appeared(peer.member)
        #expect(try await connection.send(["c": 3]) == ["c": 3])
        #expect(world.connects.value == connects && world.requests.value.count == 2)
        await session.shutDown()
        await world.has(0)
        await world.end()
    }

    @Test func ownServiceIsForConfirmedEndpoints() async throws {
        let (world, known, new) = (try await World(directory), try Peer(), try Peer())
        await world.connect(known.member)
        func open(_ peer: Peer) async throws(AppServiceError) -> AppServiceConnection {
            let session = try await peer.side.connector.open(to: world.endpoint.id, over: world.offer(peer.member))
            return try await session.open(DoctorMessages.info, timeout: .seconds(60))
        }
        // Devices of an older version answer in this way.
        #expect(await code { () async throws(AppServiceError) in try await open(known) } == .appNotInstalled)
        await world.serve(.echo(DoctorMessages.info.name))
        #expect(try await open(known).send(["a": 1]) == ["a": 1])
        #expect(await code { () async throws(AppServiceError) in try await open(new) } == .notAuthorized)
        await world.end()
    }

    @Test func suspendedPoolTakesNoSession() async throws {
        let (world, peer) = (try await World(directory), try Peer())
        await world.suspend()
        let side = await world.addPath(to: peer.member)
        async let accepted = peer.side.connector.acceptSession(over: side) { _ in true }
        #expect(await code { () async throws(AppServiceError) in try await world.open(peer.member) } == .cancelled)
        _ = try? await accepted
        await world.has(0)
        await world.resume()
        let next = await world.addPath(to: peer.member)
        async let other = peer.side.connector.acceptSession(over: next) { _ in true }
        #expect(try await world.open(peer.member).send([:]) == [:])
        _ = try await other
        await world.end()
    }

    @Test func endedSessionLeavesThePool() async throws {
        var limits = Limits()
        limits[.sessionsPerEndpoint] = 1
        let world = try await World(directory, limits: limits)
        let (first, second) = (try Peer(), try Peer())
        await world.connect(first.member, second.member)
        async let connection = world.open(first.member)
        let session = try await world.admit(first.side)
        _ = try await connection
        #expect(await code { () async throws(AppServiceError) in try await world.open(second.member) } == .resourceLimitsExceeded)
        await session.shutDown()
        await world.has(0)
        async let other = world.open(second.member).send([:])
        _ = try await world.admit(second.side, 1)
        let answer = try await other
        #expect(answer == [:])
        await world.end()
    }

    @Test func sessionOpenedByTheSmallerIDIsPreferred() async throws {
        let world = try await World(directory)
        for (index, isPeerSmaller) in [false, true].enumerated() {
            let peer = try Peer(isSmaller: isPeerSmaller, than: world.endpoint.id)
            await world.connect(peer.member)
            async let connection = world.open(peer.member)
            let accepted = try await world.admit(peer.side, index)
            _ = try await connection
            await world.has(1)
            let own = try #require(await world.preferred(peer.member))
            #expect(own.isOpenedHere)
            let opened = try await peer.side.connector.open(to: world.endpoint.id, over: world.offer(peer.member))
            await world.has(2)
            let preferred = try #require(await world.preferred(peer.member))
            #expect((preferred === own) == !isPeerSmaller)
            #expect(preferred.isOpenedHere == !isPeerSmaller)
            // The other one is used when the preferred one has ended.
            await (isPeerSmaller ? opened : accepted).shutDown()
            await world.has(1)
            #expect(await world.preferred(peer.member)?.isOpenedHere == isPeerSmaller)
            await (isPeerSmaller ? accepted : opened).shutDown()
            await world.has(0)
        }
        await world.end()
    }

    @Test func olderSessionThatDoesNotAnswerAProbeEnds() async throws {
        let world = try await World(directory)
        let certificate = try TestCertificate()
        let member = try Member("Peer", key: P256SigningKey(rawRepresentation: Array(certificate.key.rawRepresentation)))
        await world.connect(member)
        let frames = CurrentValue<[SessionFrame]>([])
        let older = try await ScriptedPeer.enter(world.offer(member), as: certificate) { frame in
            frames.update { $0.append(frame) }
            return []
        }
        await world.has(1)
        #expect(!frames.value.contains { $0.isPing })
        let newer = try await ScriptedPeer.enter(world.offer(member), as: certificate) { frame in
            if case .ping(let value) = frame.payload { [SessionFrame(.pong(value))] } else { [] }
        }
        await world.has(2)
        let preferred = await world.preferred(member)
        #expect(await frames.first { frames in frames.contains { $0.isPing } } != nil)
        await world.has(1)
        #expect(await world.preferred(member) === preferred)
        #expect(preferred?.hasEnded == false)
        try? await older.close()
        try? await newer.close()
        await world.end()
    }
}

extension SessionFrame {
    fileprivate var isPing: Bool { if case .ping = payload { true } else { false } }
}
