// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayTesting
import Synchronization
import Testing

@testable import DeviceRelay
@testable import RelayProtocol

/// When an endpoint advertises itself, and what it still knows of its network after a change. The network is the test.
@Suite(.timeLimit(.minutes(5))) struct NearbyNetworkTests {
    /// A network that the test controls.
    private final class Network: NearbyService {
        var onInstances: ([MulticastBrowser.Instance], Int) -> Void = { _, _ in }
        var onInterfaces: ([LinkInterface]) -> Void = { _ in }
        var kept: (Int) -> Set<DNSName> = { _ in [] }
        var onQuestion: ((DNSName) -> Void)?
        var hearsItself: Bool? { nil }
        var isOpen: Bool { isRunning }
        private(set) var isRunning = false
        private(set) var isWanted = false
        /// The text of each advertisement, and `nil` for none.
        let advertised: CurrentValue<[[[UInt8]]?]>

        init(_ advertised: CurrentValue<[[[UInt8]]?]>) { self.advertised = advertised }

        func start() { isRunning = true }
        func advertise(_ advertisement: (port: UInt16, text: () -> [[UInt8]])?) {
            let text = advertisement?.text()
            advertised.update { $0.append(text) }
        }
        func want(_ isWanted: Bool) { self.isWanted = isWanted }
        func askAgain() {}
        func ask(_ question: DNSMessage) {}
        func stop() async { isRunning = false }
    }

    private actor World {
        nonisolated let endpoint: EndpointContext
        nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }
        nonisolated let advertised = CurrentValue<[[[UInt8]]?]>([])
        nonisolated let time: Mutexed
        let peer = (id: EndpointID(P256SigningKey().publicKey), key: P256LinkKey())
        private let network: Network
        private let nearby: NearbyNetwork
        private(set) var presences: [EndpointID: Presence] = [:]

        /// The wall clock, in milliseconds.
        final class Mutexed: Sendable {
            let value = Mutex<Int64>(1_793_000_000_000)
        }

        init(_ directory: TemporaryDirectory) throws {
            let time = Mutexed()
            self.time = time
            endpoint = try .sample(directory) {
                $0.nearby.mode = .known
                $0.clock.wall = { time.value.withLock { $0 } }
            }
            network = Network(advertised)
            let keys = [peer.id: peer.key.publicKey]
            let clock = RelayClock(endpoint.loop, endpoint.journal, offset: 0)
            nearby = NearbyNetwork(endpoint, clock: clock, service: network) { keys }
        }

        func start(isHost: Bool) {
            nearby.onPresence = { [weak self] peer, presence in self?.assumeIsolated { $0.presences[peer] = presence } }
            nearby.start(isHost: isHost)
        }

        func attach(_ interfaces: [Int: String]) throws {
            network.onInterfaces(
                try interfaces.sorted { $0.key < $1.key }.map { index, address in
                    let address = try #require(IPAddress(parsing: address.utf8))
                    return LinkInterface(index: index, name: "eth\(index)", addresses: [.init(address, prefixLength: 24)])
                }
            )
        }

        /// The peer advertises itself on an interface.
        func show(on interface: Int) throws {
            var random = SystemRandomNumberGenerator()
            let own = try endpoint.storage.linkKey()
            let keys = try PairKeys(peer.key, of: peer.id, with: own.publicKey, of: endpoint.id)
            let hour = UInt32(clamping: endpoint.loop.wallTime / 3_600_000)
            let text = Advertisement(of: peer.id, hour: hour, for: [keys], using: &random).strings
            let name = DNSName.local(["peer", "_device-relay", "_tcp"])
            network.onInstances(
                [.init(name: name, port: 9, text: text, addresses: [try #require(IPAddress(bytes: [10, 0, 0, 9]))])],
                interface
            )
        }

        var isWanted: Bool { network.isWanted }
        func check() { nearby.tick() }
        func paths() -> Int64? { nearby.paths(to: peer.id).first?.headStart }

        func stop() async { await nearby.stop() }

        func end() async {
            await nearby.stop()
            await endpoint.loop.end()
            endpoint.journal.close()
        }
    }

    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test func processThatPublishesLaterAdvertisesThen() async throws {
        let world = try World(directory)
        await world.start(isHost: false)
        try await world.attach([2: "10.0.0.1"])
        #expect(world.advertised.value.allSatisfy { $0 == nil })
        await world.start(isHost: true)
        _ = await world.advertised.first { $0.last != .some(nil) && !$0.isEmpty }
        await world.end()
        #expect(world.advertised.value.last == .some(nil))
    }

    @Test func otherInterfaceChangesNothingHere() async throws {
        let world = try World(directory)
        await world.start(isHost: true)
        try await world.attach([2: "10.0.0.1"])
        try await world.show(on: 2)
        #expect(await world.presences[world.peer.id]?.reason == .nearby)
        #expect(await world.paths() == 150)
        let first = await world.advertised.first { $0.contains { $0 != nil } }
        // A container comes: nobody may link its network with this one, and the peer is still here.
        try await world.attach([2: "10.0.0.1", 7: "172.17.0.1"])
        #expect(await world.presences[world.peer.id]?.reason == .nearby)
        #expect(await world.paths() == 150)
        #expect(await world.isWanted)
        let second = await world.advertised.first { $0.count > (first?.count ?? 0) && $0.last != .some(nil) }
        #expect(second?.last != first?.last)
        // It goes, which is no reason for new names.
        try await world.attach([2: "10.0.0.1"])
        #expect(world.advertised.value.count == second?.count)
        await world.end()
    }

    /// A suspended endpoint comes back at the same network.
    @Test func networkIsUsedAgainAfterAStop() async throws {
        let world = try World(directory)
        await world.start(isHost: true)
        try await world.attach([2: "10.0.0.1"])
        let first = await world.advertised.first { $0.contains { $0 != nil } }
        await world.stop()
        #expect(world.advertised.value.last == .some(nil))
        await world.start(isHost: true)
        try await world.attach([2: "10.0.0.1"])
        let second = await world.advertised.first { $0.count > (first?.count ?? 0) && $0.last != .some(nil) }
        #expect(second?.last != first?.last)
        await world.end()
    }

    /// Many networks have the same numbers.
    @Test func otherAddressInTheSameNumbersIsAnotherNetwork() async throws {
        let world = try World(directory)
        await world.start(isHost: true)
        try await world.attach([2: "10.0.0.1"])
        let first = await world.advertised.first { $0.contains { $0 != nil } }
        try await world.attach([2: "10.0.0.77"])
        let second = await world.advertised.first { $0.count > (first?.count ?? 0) && $0.last != .some(nil) }
        #expect(second?.last != first?.last)
        await world.end()
    }

    /// Timers stand still while a machine sleeps, and a clock may be wrong at first.
    @Test func advertisementOfAnotherHourIsReplaced() async throws {
        let world = try World(directory)
        await world.start(isHost: true)
        try await world.attach([2: "10.0.0.1"])
        try await world.show(on: 2)
        let first = await world.advertised.first { $0.contains { $0 != nil } }
        await world.check()
        #expect(world.advertised.value.count == first?.count)
        world.time.value.withLock { $0 += 8 * 3_600_000 }
        await world.check()
        let text = try #require(world.advertised.value.last ?? nil)
        let hour = try #require(Advertisement(strings: text)).hour
        #expect(Int64(hour) == world.endpoint.loop.wallTime / 3_600_000)
        // Nor does an old one of the peer count any more.
        #expect(await world.presences[world.peer.id] == nil)
        await world.end()
    }
}
