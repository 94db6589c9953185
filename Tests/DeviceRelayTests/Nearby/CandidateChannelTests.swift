// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import DeviceRelay
@testable import RelayProtocol

/// What an endpoint says about where it listens, and what it makes of what its peers say. The relay and the network are the test.
@Suite(.timeLimit(.minutes(5))) struct CandidateChannelTests {
    private actor World {
        nonisolated let endpoint: EndpointContext
        nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }
        nonisolated let sent = CurrentValue<[EndpointMessage]>([])
        nonisolated let told = CurrentValue<[EndpointID]>([])
        nonisolated let peer: EndpointID
        private let peerKey = P256LinkKey()
        private let link = TestLink()
        private let network = ScriptedNetwork()
        private let known = Mutexed()
        private let nearby: NearbyNetwork
        private let channel: CandidateChannel

        /// The keys that the endpoint knows.
        private final class Mutexed {
            var keys: [EndpointID: AgreementPublicKey] = [:]
        }

        init(_ directory: TemporaryDirectory, peer: EndpointID = EndpointID(P256SigningKey().publicKey)) throws {
            self.peer = peer
            endpoint = try .sample(directory) { $0.nearby.mode = .known }
            known.keys = [peer: peerKey.publicKey]
            let known = known
            let clock = RelayClock(endpoint.loop, endpoint.journal, offset: 0)
            nearby = NearbyNetwork(endpoint, clock: clock, service: network) { known.keys }
            channel = CandidateChannel(own: endpoint.id, control: link, nearby: nearby)
            link.sentMessages = sent
        }

        func start(isHost: Bool, features: [String] = ["candidates"]) throws {
            link.isConnected = true
            nearby.onListening = { [channel] in channel.moved() }
            nearby.onTold = { [told] peer in told.update { $0.append(peer) } }
            channel.connected(.init(limits: Limits(), intervals: .init(), urls: [], features: features))
            nearby.start(isHost: isHost)
        }

        func attach(_ address: String) throws { try network.attach([2: address]) }
        func connect(_ features: [String]) {
            channel.connected(.init(limits: Limits(), intervals: .init(), urls: [], features: features))
        }
        func disconnect() { channel.disconnected() }
        func begin(_ tunnel: TunnelID) { channel.began(tunnel, with: peer) }
        func end(_ tunnel: TunnelID) { channel.ended(tunnel) }

        /// The peer is revoked.
        func refuse() {
            known.keys = [:]
            nearby.peersChanged()
        }

        /// The peer says that it listens somewhere.
        func hear(_ addresses: String..., port: UInt16 = 4_711, in tunnel: TunnelID) throws {
            channel.received(TunnelCandidates(tunnel: tunnel, candidates: try sealed(addresses, port, in: tunnel).blob))
        }

        private func sealed(_ addresses: [String], _ port: UInt16, in tunnel: TunnelID) throws -> SealedCandidates {
            let addresses = addresses.compactMap { IPAddress(parsing: $0.utf8) }
            let candidates = try #require(HostCandidates(port: port, addresses: addresses))
            return try SealedCandidates(candidates, for: tunnel, from: peer, with: try peerKeys())
        }

        private func peerKeys() throws -> PairKeys {
            try PairKeys(peerKey, of: peer, with: try endpoint.storage.linkKey().publicKey, of: endpoint.id)
        }

        /// What the peer reads in a statement.
        func open(_ message: EndpointMessage?) throws -> HostCandidates? {
            guard case .tunnelCandidates(let text)? = message else { return nil }
            return SealedCandidates(text.candidates).open(for: text.tunnel, from: endpoint.id, with: try peerKeys())
        }

        /// Where the peer would be dialled.
        func dialled() -> [String] { nearby.candidates(for: peer).map { "\($0.address):\($0.port)" } }
        func isSeen() -> Bool { nearby.isSeen(peer) }

        /// A session with the peer goes to the first of its addresses.
        func meet() throws { nearby.worked(try #require(nearby.candidates(for: peer).first), peer) }

        func pin() async throws {
            let pin = JournalTransaction.Pin(endpoint: peer, record: [1], pinned: 1)
            try await endpoint.journal.write { try $0.store(pin) }
        }

        func finish() async {
            await nearby.stop()
            await endpoint.loop.end()
            endpoint.journal.close()
        }
    }

    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func tunnel() -> TunnelID {
        var random = SystemRandomNumberGenerator()
        return TunnelID(using: &random)
    }

    @Test func hostSaysWhereItListens() async throws {
        let (world, tunnel) = (try World(directory), tunnel())
        try await world.start(isHost: true)
        // It does not listen yet.
        await world.begin(tunnel)
        #expect(world.sent.value.isEmpty)
        try await world.attach("10.0.0.1")
        let first = try await world.open(world.sent.first { $0.count == 1 }?.last)
        #expect(first?.addresses.map(\.description) == ["10.0.0.1"])
        // Each tunnel hears it once, and again from another network.
        let second = self.tunnel()
        await world.begin(second)
        #expect(try await world.open(world.sent.first { $0.count == 2 }?.last) == first)
        try await world.attach("10.0.7.1")
        let moved = try await world.open(world.sent.first { $0.count == 4 }?.last)
        #expect(moved?.addresses.map(\.description) == ["10.0.7.1"])
        // Not in a tunnel that has ended.
        await world.end(tunnel)
        await world.end(second)
        try await world.attach("10.0.8.1")
        let third = self.tunnel()
        await world.begin(third)
        let last = await world.sent.first { $0.count > 4 }?.last
        guard case .tunnelCandidates(let text)? = last else {
            Issue.record("nothing is said")
            return
        }
        #expect(text.tunnel == third)
        await world.finish()
    }

    @Test func clientProcessSaysNothing() async throws {
        let (world, tunnel) = (try World(directory), tunnel())
        try await world.start(isHost: false)
        try await world.attach("10.0.0.1")
        await world.begin(tunnel)
        // But it hears.
        try await world.hear("10.0.0.9", in: tunnel)
        #expect(await world.dialled() == ["10.0.0.9:4711"])
        #expect(world.sent.value.isEmpty)
        await world.finish()
    }

    @Test func olderRelayIsToldNothing() async throws {
        let (world, tunnel) = (try World(directory), tunnel())
        try await world.start(isHost: true, features: [])
        try await world.attach("10.0.0.1")
        await world.begin(tunnel)
        try await world.hear("10.0.0.9", in: tunnel)
        #expect(await world.dialled().isEmpty)
        // It is replaced by a newer one.
        await world.disconnect()
        await world.connect(["other", "candidates"])
        try await world.hear("10.0.0.9", in: tunnel)
        #expect(await world.dialled() == ["10.0.0.9:4711"])
        await world.finish()
    }

    @Test func refusedPeerIsNeitherToldNorBelieved() async throws {
        let (world, tunnel) = (try World(directory), tunnel())
        try await world.start(isHost: true)
        try await world.attach("10.0.0.1")
        await world.begin(tunnel)
        _ = await world.sent.first { $0.count == 1 }
        try await world.hear("10.0.0.9", in: tunnel)
        #expect(await world.isSeen())
        await world.refuse()
        #expect(await world.isSeen() == false)
        await world.begin(self.tunnel())
        try await world.hear("10.0.0.8", in: tunnel)
        #expect(await world.isSeen() == false)
        #expect(world.sent.value.count == 1)
        #expect(world.told.value == [world.peer])
        await world.finish()
    }

    /// What is said counts on this network only, and of it what a listener would admit.
    @Test func onlyAddressesThatMayBeHereAreDialled() async throws {
        let (world, tunnel) = (try World(directory), tunnel())
        try await world.start(isHost: false)
        try await world.attach("203.0.113.1")
        await world.begin(tunnel)
        try await world.hear(
            "127.0.0.1",
            "224.0.0.251",
            "169.254.1.1",
            "fe80::1",
            "198.51.100.7",
            "203.0.113.1",
            "203.0.113.9",
            "192.168.7.7",
            in: tunnel
        )
        #expect(await world.dialled() == ["203.0.113.9:4711", "192.168.7.7:4711"])
        try await world.attach("203.0.114.1")
        #expect(await world.dialled().isEmpty)
        // In the same tunnel, from the new network.
        try await world.hear("192.168.7.7", in: tunnel)
        #expect(await world.dialled() == ["192.168.7.7:4711"])
        await world.finish()
    }

    /// The next process dials the address that worked last, from its network.
    @Test func addressThatWorkedIsRemembered() async throws {
        let (world, tunnel) = (try World(directory), tunnel())
        try await world.pin()
        try await world.start(isHost: false)
        try await world.attach("10.0.0.1")
        await world.begin(tunnel)
        try await world.hear("10.0.0.9", in: tunnel)
        try await world.meet()
        try await world.endpoint.journal.write { _ in }
        await world.finish()
        let next = try World(directory, peer: world.peer)
        try await next.start(isHost: false)
        #expect(await next.dialled().isEmpty)
        try await next.attach("10.0.0.77")
        #expect(await next.dialled() == ["10.0.0.9:4711"])
        #expect(await next.isSeen())
        try await next.attach("10.0.1.1")
        #expect(await next.dialled().isEmpty)
        await next.finish()
    }
}
