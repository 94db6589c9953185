// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayTesting
import Testing

@testable import DeviceRelay
@testable import RelayProtocol

/// What a confirmed device can make another one do by the service `doctor`. The network is the test.
@Suite(.timeLimit(.minutes(5))) struct DoctorServiceAttackTests {
    /// A network on which nobody is.
    private final class Network: NearbyService {
        var onInstances: ([MulticastBrowser.Instance], Int) -> Void = { _, _ in }
        var onInterfaces: ([LinkInterface]) -> Void = { _ in }
        var onQuestion: ((DNSName) -> Void)? { didSet { isListening.update { $0 = onQuestion != nil } } }
        var kept: (Int) -> Set<DNSName> = { _ in [] }
        var ownAddresses: Set<IPAddress> { [] }
        var hearsItself: Bool? { nil }
        var isOpen: Bool { true }
        var canProbe = true
        /// The names in the questions that were sent.
        let asked: CurrentValue<[DNSName]>

        let isListening: CurrentValue<Bool>

        init(_ asked: CurrentValue<[DNSName]>, _ isListening: CurrentValue<Bool>) { (self.asked, self.isListening) = (asked, isListening) }

        func start() {}
        func advertise(_ advertisement: (port: UInt16, text: () -> [[UInt8]])?) {}
        func want(_ isWanted: Bool) {}
        func askAgain() {}
        func ask(_ question: DNSMessage) { asked.update { $0 += question.questions.map(\.name) } }
        func stop() async {}
    }

    private actor World {
        nonisolated let endpoint: EndpointContext
        nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }
        nonisolated let asked = CurrentValue<[DNSName]>([])
        nonisolated let isListening = CurrentValue(false)
        private let network: Network
        private let nearby: NearbyNetwork
        private let doctor: DoctorService
        private let peerKey = P256LinkKey()
        private let peer: Shared<EndpointID?>

        init(_ directory: TemporaryDirectory) throws {
            endpoint = try .sample(directory) {
                $0.nearby.mode = .known
                // No time passes for the limits.
                $0.clock.steady = { 0 }
            }
            network = Network(asked, isListening)
            let (peer, key) = (Shared<EndpointID?>(nil), peerKey.publicKey)
            self.peer = peer
            let clock = RelayClock(endpoint.loop, endpoint.journal, offset: 0)
            nearby = NearbyNetwork(endpoint, clock: clock, service: network) { peer.withLock { $0 }.map { [$0: key] } ?? [:] }
            doctor = DoctorService(endpoint.loop, clock: clock, nearby: nearby, patience: .seconds(600))
        }

        /// - Parameter peer: The endpoint that asks; it is known.
        func start(_ peer: EndpointID) throws {
            self.peer.withLock { $0 = peer }
            nearby.start(isHost: false)
            let address = try #require(IPAddress(bytes: [192, 168, 1, 5]))
            network.onInterfaces([LinkInterface(index: 2, name: "eth0", addresses: [.init(address, prefixLength: 24)])])
        }

        var service: AppService { doctor.service }

        /// From now on the system shows no packets.
        func hidePackets() { network.canProbe = false }

        /// Somebody asks for these names.
        func question(_ names: DNSName...) { for name in names { network.onQuestion?(name) } }

        func end() async {
            await nearby.stop()
            await endpoint.loop.end()
            endpoint.journal.close()
        }
    }

    private typealias Messages = DoctorMessages
    /// Of calls, on a busy machine.
    private static let patience = Duration.seconds(120)

    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func with(_ body: (World, AppServiceConnection, SessionWorld) async throws -> Void) async throws {
        let world = try World(directory)
        try await SessionWorld.with(services: [await world.service]) { sessions in
            try await world.start(sessions.opener.id)
            try await body(world, try await sessions.open(Messages.info.name), sessions)
        }
        await world.end()
    }

    private func failure<Call: AppServiceCall>(_ call: Call, on connection: AppServiceConnection) async -> AppServiceError.Code? {
        await code { () async throws(AppServiceError) in try await connection.call(call, timeout: Self.patience) }
    }

    @Test func liesAboutAddressesDialNothing() async throws {
        try await with { _, connection, _ in
            let named: [[UInt8]] = [
                [8, 8, 8, 8], [127, 0, 0, 1], [0, 0, 0, 0], [192, 168, 1, 5], [224, 0, 0, 251], [169, 254, 1, 1],
                Array(repeating: 0, count: 15) + [1], [0x20, 0x01, 0x48, 0x60] + Array(repeating: 0, count: 12),
            ]
            let reports = try await connection.call(Messages.Dial(port: 4_711, addresses: named), timeout: Self.patience).reports
            #expect(reports == named.map { DialReport($0, .notDialled) })
        }
    }

    @Test func requestsBeyondTheLimitsAreRefused() async throws {
        try await with { _, connection, _ in
            let address: [UInt8] = [8, 8, 8, 8]
            for port in [0, 22, 443, 1_023] as [UInt16] {
                #expect(await failure(Messages.Dial(port: port, addresses: [address]), on: connection) == .invalidMessage)
            }
            for count in [9, 100] {
                let addresses = Array(repeating: address, count: count)
                #expect(await failure(Messages.Dial(port: 4_711, addresses: addresses), on: connection) == .invalidMessage)
            }
            for bytes in [[], [1], Array(repeating: 0, count: 5), Array(repeating: 0, count: 17)] as [[UInt8]] {
                #expect(await failure(Messages.Dial(port: 4_711, addresses: [bytes]), on: connection) == .invalidMessage)
                #expect(await failure(Messages.Hear(nonce: bytes), on: connection) == .invalidMessage)
                #expect(await failure(Messages.Say(nonce: bytes), on: connection) == .invalidMessage)
            }
            for message in [[:], ["Type": 1], ["Type": "scan"], ["Type": "dial"], ["Type": "dial", "port": 70_000]] as [ValueSet] {
                #expect(
                    await code { () async throws(AppServiceError) in try await connection.send(message, timeout: Self.patience) }
                        == .invalidMessage
                )
            }
            // None of them counts.
            _ = try await connection.call(Messages.Dial(port: 4_711, addresses: [address]), timeout: Self.patience)
        }
    }

    @Test func dialsAreRareForAllConnectionsTogether() async throws {
        try await with { _, connection, sessions in
            let dial = Messages.Dial(port: 4_711, addresses: [[8, 8, 8, 8]])
            _ = try await connection.call(dial, timeout: Self.patience)
            #expect(await failure(dial, on: connection) == .resourceLimitsExceeded)
            let other = try await sessions.open(Messages.info.name)
            #expect(await failure(dial, on: other) == .resourceLimitsExceeded)
        }
    }

    @Test func onePacketIsAwaitedAtATime() async throws {
        try await with { world, connection, _ in
            var random = SystemRandomNumberGenerator()
            let (probe, other) = (MulticastProbe(using: &random), MulticastProbe(using: &random))
            async let heard = connection.call(Messages.Hear(nonce: probe.nonce), timeout: Self.patience)
            _ = await world.isListening.first { $0 }
            #expect(await failure(Messages.Hear(nonce: other.nonce), on: connection) == .resourceLimitsExceeded)
            await world.question(other.name, DeviceRelayService.type, probe.name)
            let isHeard = try await heard.isHeard
            #expect(isHeard)
            _ = await world.isListening.first { !$0 }
        }
    }

    @Test func packetsAreQuestionsForNobody() async throws {
        try await with { world, connection, _ in
            var random = SystemRandomNumberGenerator()
            let probe = MulticastProbe(using: &random)
            let isHeard = try await connection.call(Messages.Say(nonce: probe.nonce), timeout: Self.patience).isHeard
            #expect(!isHeard)
            #expect(world.asked.value == [probe.name, probe.name])
        }
    }

    @Test func whoSeesNoPacketsSaysSo() async throws {
        try await with { world, connection, _ in
            await world.hidePackets()
            let nonce = Array(repeating: UInt8(1), count: MulticastProbe.nonceBytes)
            #expect(await failure(Messages.Hear(nonce: nonce), on: connection) == .disabledByPolicy)
            #expect(await failure(Messages.Say(nonce: nonce), on: connection) == .disabledByPolicy)
            #expect(world.asked.value.isEmpty)
            // Addresses can be dialled all the same.
            _ = try await connection.call(Messages.Dial(port: 4_711, addresses: [[8, 8, 8, 8]]), timeout: Self.patience)
        }
    }

    @Test func whoDoesNotUseTheNetworkSaysSo() async throws {
        let endpoint = try EndpointContext.sample(directory)
        let bound = try await endpoint.loop.eventLoop.submit {
            let clock = RelayClock(endpoint.loop, endpoint.journal, offset: 0)
            return NIOLoopBound(DoctorService(endpoint.loop, clock: clock, nearby: nil), eventLoop: endpoint.loop.eventLoop)
        }.get()
        let service = try await endpoint.loop.eventLoop.submit { bound.value.service }.get()
        try await SessionWorld.with(services: [service]) { sessions in
            let connection = try await sessions.open(Messages.info.name)
            let there = try await connection.call(Messages.Look(), timeout: Self.patience)
            #expect(!there.isUsed && there.port == nil && there.addresses.isEmpty)
            #expect(await failure(Messages.Dial(port: 4_711, addresses: []), on: connection) == .disabledByPolicy)
        }
        await endpoint.loop.end()
        endpoint.journal.close()
    }
}
