// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct DirectoryBoundTests {
    private func limited(to count: Int) -> DeviceDirectory {
        var limits = Limits()
        limits[.endpointsPerAccount] = count
        return DeviceDirectory(account: "account", limits: limits)
    }

    @Test func fullDirectoryRefusesNewEndpointsAndReportsIt() throws {
        var directory = limited(to: 2)
        let admissions = try (1...3).map { directory.add(try DirectorySamples.endpoint($0, on: $0, trust: .new)) }
        #expect(admissions == [.admitted, .admitted, .refused])
        #expect(directory.systems().map(\.displayName) == ["System 1", "System 2"])
        var listener = Listener()
        try listener.drain(directory)
        #expect(listener.errors.map(\.code) == [.limitExceeded])
        // Existing endpoints can still change.
        directory.add(try DirectorySamples.endpoint(1, on: 1, name: "Renamed", trust: .new))
        #expect(directory.systems().map(\.displayName) == ["Renamed", "System 2"])
    }

    @Test func relayLimitIsCappedByTheOwnMaximum() throws {
        var directory = limited(to: 64)
        directory.allow(endpoints: 2)
        for number: UInt8 in 1...3 { directory.add(try DirectorySamples.endpoint(number, on: number)) }
        #expect(directory.endpointIDs.count == 2)
        directory.allow(endpoints: 1 << 30)
        for _ in 0..<DeviceDirectory.maximumEndpoints {
            let record = try EndpointRecord(
                version: 1,
                account: "account",
                identityKey: P256SigningKey().publicKey,
                systemKey: P256SigningKey(),
                agreementKey: P256AgreementKey().publicKey,
                name: "One of many",
                kind: "desktop",
                platform: "linux"
            )
            directory.add(DeviceDirectory.Endpoint(record: record, registrations: [], presence: .available, trust: .pinned))
        }
        #expect(directory.endpointIDs.count == DeviceDirectory.maximumEndpoints)
        var listener = Listener()
        try listener.drain(directory)
        #expect(listener.errors.map(\.code) == [.limitExceeded])
    }

    @Test func confirmedEndpointReplacesANewOne() throws {
        for trust in [DeviceDirectory.Trust.pinned, .approved] {
            var directory = limited(to: 2)
            directory.add(try DirectorySamples.endpoint(1, on: 1, trust: .new))
            directory.add(try DirectorySamples.endpoint(2, on: 2, trust: .pinned))
            let victim = try DirectorySamples.record(1, on: 1).endpointID
            #expect(directory.add(try DirectorySamples.endpoint(3, on: 3, trust: trust)) == .admittedInsteadOf(victim))
            #expect(directory.systems().map(\.displayName) == ["System 2", "System 3"])
            directory.add(try DirectorySamples.endpoint(4, on: 4, trust: trust))
            #expect(directory.systems().map(\.displayName) == ["System 2", "System 3"])
        }
    }

    @Test func unlistedNewEndpointsAreReplacedDuringEnumeration() throws {
        var directory = limited(to: 2)
        directory.add(try DirectorySamples.endpoint(1, on: 1, trust: .new))
        directory.add(try DirectorySamples.endpoint(2, on: 2, trust: .pinned))
        directory.beginEnumeration()
        directory.add(try DirectorySamples.endpoint(3, on: 3, trust: .new))
        directory.add(try DirectorySamples.endpoint(4, on: 4, trust: .new))
        #expect(directory.systems().map(\.displayName) == ["System 2", "System 3"])
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func directoryIsBoundedAndKeepsKnownEndpoints(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let known = try (1...4).map { try DirectorySamples.endpoint($0, on: $0) }
        let madeUp = try (20...50).map { try DirectorySamples.endpoint($0, on: $0 % 7, trust: .new) }
        var directory = limited(to: 6)
        var listener = Listener([.localVisibility(.showAll)])
        var present: Set<EndpointID> = []
        for _ in 0..<2_000 {
            switch Int.random(in: 0..<12, using: &random) {
            case 0: directory.beginEnumeration()
            case 1, 2:
                guard let endpoint = known.randomElement(using: &random) else { return }
                directory.add(endpoint)
                present.insert(endpoint.id)
            case 3: _ = try listener.step(directory)
            default: if let endpoint = madeUp.randomElement(using: &random) { directory.add(endpoint) }
            }
            #expect(directory.endpoints.count <= 6, "seed \(seed)")
            #expect(present.allSatisfy { directory[$0] != nil }, "seed \(seed)")
            #expect(listener.systems.count <= 7, "seed \(seed)")
        }
    }
}
