// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Networks that stop, corrupt or block traffic between a device and a real relay. Each waiting call fails with a correct
/// reason in bounded time.
@Suite(.timeLimit(.minutes(10))) struct NetworkFaultTests {
    static let addresses = (11...40).map { "127.0.0.\($0)" }

    /// The state of a call when its network is cut.
    enum Stage: CaseIterable {
        case unconnected, handshake, idle, waiting, body
    }

    static let cuts: [Set<TestNetwork.Direction>] = [[.toRelay], [.fromRelay], [.toRelay, .fromRelay]]

    /// Sessions with short ping intervals.
    static func impatient(_ settings: inout ConnectedDevicesPlatformSettings) {
        settings.sessionTiming.quietInterval = .seconds(2)
        settings.sessionTiming.busyInterval = .seconds(2)
    }

    /// A relay, devices that each have their own network, and a PC that knows them.
    struct World {
        let home: TestHome
        let networks: [TestNetwork]
        let phones: [TestDevice]
        let pc: TestDevice
        let says = Log<String>()

        init(_ ports: [TestNetwork.TunnelPort], watches: Bool = false) async throws {
            let addresses = Array(NetworkFaultTests.addresses.prefix(ports.count))
            let limits = ["--limit", "tunnelsOfNewcomers=64", "--limit", "tunnelsPerNewcomer=64"]
            let home = try await TestHome(networks: addresses, arguments: limits)
            var networks: [TestNetwork] = []
            for (address, port) in zip(addresses, ports) {
                networks.append(try await TestNetwork(address, to: home.relayd, tunnelPort: port, watches: watches))
            }
            phones = try await home.guests(in: networks, change: NetworkFaultTests.impatient)
            pc = try await home.device("PC", change: NetworkFaultTests.impatient)
            try await pc.platform.publish(SessionTestApp.app(events: says), for: pc.account)
            for phone in phones { try await phone.sees("PC") { !$0.apps.isEmpty } }
            (self.home, self.networks) = (home, networks)
        }

        func stop() async throws {
            for network in networks { try await network.stop() }
            await withTaskGroup { group in
                for device in phones + [pc] { group.addTask { [platform = device.platform] in await platform.shutdown() } }
            }
        }
    }

    /// Brings a device to a stage, cuts its network, and returns the outcome of its call.
    static func outcome(
        _ phone: ConnectedDevicesPlatform,
        _ network: TestNetwork,
        _ pc: EndpointID,
        _ stage: Stage,
        _ cut: Set<TestNetwork.Direction>
    ) async throws -> String {
        let counted: TestNetwork.Direction = cut == [.fromRelay] ? .fromRelay : .toRelay
        func call(_ connection: AppServiceConnection, _ message: ValueSet) async -> String {
            await SessionTestApp.outcome { () async throws(AppServiceError) in try await connection.send(message, timeout: .seconds(600)) }
        }
        switch stage {
        case .unconnected, .handshake:
            if stage == .unconnected {
                try await network.cut(cut)
            } else {
                // After the preface, or after the relay's answer to it.
                try await network.cut(cut, after: counted == .fromRelay ? 1 : TunnelPreface.byteCount, counted)
            }
            return await SessionTestApp.outcome { () async throws(AppServiceError) in
                try await phone.open("echo", on: pc, timeout: .seconds(1))
            }
        case .idle:
            let connection = try await phone.open("never", on: pc)
            try await network.cut(cut)
            return "\(try await connection.closed.status)"
        case .waiting:
            let connection = try await phone.open("never", on: pc)
            async let outcome = call(connection, [:])
            try await SessionTestApp.hasAsked(1, on: connection)
            try await network.cut(cut)
            return await outcome
        case .body:
            let connection = try await phone.open("echo", on: pc)
            try await network.cut(cut, after: 1 << 20, counted)
            return await call(connection, try SessionTestApp.message(encodedBytes: 4 << 20))
        }
    }

    @Test func waitingCallsFailWhenTheNetworkStops() async throws {
        let cases = Stage.allCases.flatMap { stage in Self.cuts.map { (stage, $0) } }
        let world = try await World(cases.map { _ in .open })
        let pc = try world.pc.id
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, (stage, cut)) in cases.enumerated() {
                group.addTask { [phone = world.phones[index].platform, network = world.networks[index]] in
                    let outcome = try await Self.outcome(phone, network, pc, stage, cut)
                    // In the first two stages the device only sees that the relay is silent.
                    let expected = stage == .unconnected || stage == .handshake ? "timedOut" : "remoteSystemUnavailable"
                    #expect(outcome == expected, "\(stage) \(cut)")
                }
            }
            try await group.waitForAll()
        }
        // The other side gets the same reason.
        #expect(Set(await world.says.wait(for: 6)) == ["remoteSystemUnavailable"])
        // It works again when the network is back.
        for (phone, network) in zip(world.phones, world.networks) {
            try await network.mend()
            let connection = try await phone.platform.openAgain("echo", on: pc)
            #expect(try await connection.send(["Back": true]) == ["Back": true])
        }
        try await world.stop()
    }

    @Test func withoutTheTunnelPortTheWebSocketIsUsed() async throws {
        let world = try await World([.refused, .blackHole, .silent], watches: true)
        let pc = try world.pc.id
        let attempts = try await withThrowingTaskGroup(of: (Int, Int).self) { group in
            for (index, phone) in world.phones.enumerated() {
                group.addTask { [platform = phone.platform] in
                    let (connection, attempts) = try await platform.openUntilInTime("echo", on: pc)
                    let message = try SessionTestApp.message(encodedBytes: 100_000)
                    #expect(try await connection.send(message) == message)
                    return (index, attempts)
                }
            }
            return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        for network in world.networks { #expect(try await network.heard(.toRelay).contains("GET /v1/tunnels/")) }
        // Each attempt that reached the tunnel stage dialled once.
        #expect((1...(attempts[2] ?? 1)).contains(try await world.networks[2].tunnels))
        try await world.stop()
    }

    /// A network that modifies bytes can only break the connection. An established session then goes on over another one.
    @Test func modifiedBytesAreNeverAccepted() async throws {
        let world = try await World([.open])
        let (phone, network, pc) = (world.phones[0].platform, world.networks[0], try world.pc.id)
        let message = try SessionTestApp.message(encodedBytes: 100_000)
        for damage in TestNetwork.Damage.allCases {
            for direction in TestNetwork.Direction.allCases {
                // In the first flight of the handshake (after the preface or its answer), and in the middle of a message. Bytes are not
                // dropped in the handshake, because both sides would wait for them.
                let early = direction == .toRelay ? TunnelPreface.byteCount + 20 : 21
                for place in damage == .drop ? [60_000] : [early, 60_000] {
                    // Each case begins without a session, because suspending closes them.
                    await phone.suspend()
                    await phone.resume()
                    try await world.phones[0].connected()
                    try await network.damage(damage, after: place, direction)
                    let outcome = await SessionTestApp.outcome { () async throws(AppServiceError) in
                        let connection = try await phone.open("echo", on: pc)
                        let answer = try await connection.send(message)
                        #expect(answer == message)
                    }
                    let failures = ["remoteSystemUnavailable", "authenticationError", "timedOut"]
                    #expect(
                        failures.contains(outcome) || place != early && outcome == "success",
                        "\(damage) \(direction) \(place) \(outcome)"
                    )
                    #expect(try await !network.isDamagePending)
                }
            }
        }
        let connection = try await phone.openAgain("echo", on: pc)
        #expect(try await connection.send(message) == message)
        try await world.stop()
    }
}
