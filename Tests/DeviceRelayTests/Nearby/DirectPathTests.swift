// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import Testing

@testable import DeviceRelay
@testable import RelayProtocol

/// The way to a peer that says where it listens, by real connections to an address of this machine. The endpoint is told that it is another
/// machine of that network.
@Suite(.timeLimit(.minutes(5)), .enabled(if: IPAddress.ofThisMachine != nil, "this machine has no network")) struct DirectPathTests {
    private actor World {
        nonisolated let endpoint: EndpointContext
        nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }
        nonisolated let peer = EndpointID(P256SigningKey().publicKey)
        /// The number of connections to a place where nobody answers.
        nonisolated let ignored = CurrentValue(0)
        nonisolated let knocks = CurrentValue(0)
        private let peerKey = P256LinkKey()
        private let network = ScriptedNetwork()
        private let nearby: NearbyNetwork
        private var listener: NearbyListener?

        init(_ directory: TemporaryDirectory) throws {
            endpoint = try .sample(directory) { $0.nearby.mode = .known }
            let known = [peer: peerKey.publicKey]
            let clock = RelayClock(endpoint.loop, endpoint.journal, offset: 0)
            nearby = NearbyNetwork(endpoint, clock: clock, service: network) { known }
        }

        /// - Returns: The address at which the peer may listen.
        func start() async throws -> IPAddress {
            let pin = JournalTransaction.Pin(endpoint: peer, record: [1], pinned: 1)
            try await endpoint.journal.write { try $0.store(pin) }
            let address = try #require(IPAddress.ofThisMachine)
            let neighbour = address.bytes.dropLast() + [address.bytes[3] == 77 ? 78 : 77]
            nearby.start(isHost: false)
            nearby.isToldAddresses = true
            try network.attach([2: try #require(IPAddress(bytes: Array(neighbour))).description])
            return address
        }

        /// The peer listens.
        func listen() async throws -> UInt16 {
            let port = CurrentValue<UInt16?>(nil)
            let keys = try PairKeys(peerKey, of: peer, with: try endpoint.storage.linkKey().publicKey, of: endpoint.id)
            let (own, loop, knocks) = (endpoint.id, endpoint.loop, knocks)
            let listener = NearbyListener(
                loop,
                own: peer,
                source: { KnockGate.Source($0, isOnLink: true) },
                keys: { [own: keys] },
                knocked: { _, transport in
                    knocks.update { $0 += 1 }
                    loop.spawn(0) { _ in _ = try? await transport.connect(timeout: .seconds(60)) { _ in } }
                }
            )
            self.listener = listener
            listener.open { result in port.update { $0 = try? result.get() } }
            return try #require(await port.first { $0 != nil } ?? nil)
        }

        /// Something at the address takes connections and says nothing.
        nonisolated func ignore() async throws -> (any Channel, UInt16) {
            let ignored = ignored
            let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .childChannelInitializer { channel in
                    ignored.update { $0 += 1 }
                    return channel.eventLoop.makeSucceededVoidFuture()
                }
                .bind(host: "0.0.0.0", port: 0).get()
            return (server, UInt16(try #require(server.localAddress?.port)))
        }

        func told(_ address: IPAddress, _ port: UInt16) throws {
            nearby.told(try #require(HostCandidates(port: port, addresses: [address])), by: peer)
        }

        func dial() async throws(AppServiceError) {
            guard let path = nearby.paths(to: peer).first else { throw AppServiceError(.remoteSystemUnavailable) }
            _ = try await path.connect(within: .seconds(60), starting: Starter())
        }

        func stored() throws -> [AddressHints.Place] { try endpoint.journal.read { try $0.peerAddresses(since: 0) }.map(\.place) }
        func candidates() -> [NearbyPeers.Candidate] { nearby.candidates(for: peer) }

        func end() async throws {
            listener?.close()
            await nearby.stop()
            await endpoint.loop.end()
            endpoint.journal.close()
        }
    }

    /// Starts nothing: the knock is enough.
    private struct Starter: LinkStarter {
        var eventLoop: (any EventLoop)? { nil }

        func start(
            over transport: any PeerTransport,
            on kind: PathPresences.Path,
            within timeout: Duration
        ) async throws(AppServiceError) -> EstablishedLink {
            do throws(PeerTransportError) {
                try await transport.connect(timeout: timeout) { _ in }.close(promise: nil)
                return .moved
            } catch {
                throw AppServiceError(transport: error)
            }
        }
    }

    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    /// The candidates come while the tunnel is being opened.
    @Test func attemptTakesCandidatesThatComeLater() async throws {
        let world = try World(directory)
        let address = try await world.start()
        let port = try await world.listen()
        async let dialled: Void = world.dial()
        try await world.told(address, port)
        try await dialled
        #expect(world.knocks.value == 1)
        try await world.endpoint.journal.write { _ in }
        #expect(try await world.stored() == [.init(address: address, port: port)])
        try await world.end()
    }

    /// An old address, where something else is now, does not hold up the new one.
    @Test func attemptDoesNotWaitForAnOldAddress() async throws {
        let world = try World(directory)
        let address = try await world.start()
        let port = try await world.listen()
        let (server, old) = try await world.ignore()
        try await world.told(address, old)
        async let dialled: Void = world.dial()
        _ = await world.ignored.first { $0 > 0 }
        try await world.told(address, port)
        try await dialled
        #expect(world.knocks.value == 1)
        try await server.close()
        try await world.end()
    }

    @Test func placeThatFailedRests() async throws {
        let world = try World(directory)
        let address = try await world.start()
        let (server, closed) = try await world.ignore()
        try await server.close()
        try await world.told(address, closed)
        #expect(await world.candidates().count == 1)
        #expect(await code { () async throws(AppServiceError) in try await world.dial() } == .remoteSystemUnavailable)
        #expect(await world.candidates().isEmpty)
        // Naming it again changes nothing.
        try await world.told(address, closed)
        #expect(await world.candidates().isEmpty)
        #expect(try await world.stored().isEmpty)
        try await world.end()
    }
}

extension IPAddress {
    /// An IPv4 address of this machine that others can reach; `nil` if there is none.
    fileprivate static let ofThisMachine = (try? System.enumerateDevices())?.lazy.compactMap { IPAddress($0.address) }
        .first { $0.bytes.count == 4 && !$0.isLoopback && !$0.isLinkLocal }
}
