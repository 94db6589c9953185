// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

@Suite struct NewEndpointTests {
    /// Endpoint 1 is the own one, 2 is known, the others are new.
    private func directory(_ joinings: [Joining?]) throws -> DeviceDirectory {
        var directory = DeviceDirectory(account: "me")
        directory.beginEnumeration()
        directory.add(try DirectorySamples.endpoint(1, on: 1, trust: .new, isLocal: true))
        directory.add(try DirectorySamples.endpoint(2, on: 2, name: "Known"))
        for (index, joining) in joinings.enumerated() {
            let number = UInt8(3 + index)
            var endpoint = try DirectorySamples.endpoint(number, on: number, name: "New \(number)", apps: [], trust: .new)
            endpoint.joining = joining
            directory.add(endpoint)
        }
        return directory
    }

    private func id(_ number: UInt8) throws -> EndpointID { EndpointID(try DirectorySamples.key(number).publicKey) }

    @Test func endpointsAreListedAfterTheEnumeration() throws {
        var directory = try directory([nil])
        #expect(directory.newEndpoints == nil)
        directory.completeEnumeration()
        #expect(directory.newEndpoints?.map(\.id) == [try id(3)])
        // The vouchers of a new connection come with its enumeration.
        directory.beginEnumeration()
        #expect(directory.newEndpoints == nil)
        directory.update(try id(3)) { $0.trust = .approved }
        directory.completeEnumeration()
        #expect(directory.newEndpoints == [])
    }

    @Test func earliestComesFirst() throws {
        let times: [Int64?] = [30, nil, 10, 20]
        var directory = try directory(times.map { $0.map { Joining(time: Milliseconds(clamping: $0)) } })
        directory.completeEnumeration()
        let listed = directory.newEndpoints ?? []
        #expect(listed.map(\.deviceName) == ["New 5", "New 6", "New 3", "New 4"])
    }

    @Test func factsAreThoseOfRecordAndRelay() throws {
        let byKnown = Joining(time: Milliseconds(clamping: 5), invitedBy: try id(2), address: "2001:db8::1")
        let byNew = Joining(time: Milliseconds(clamping: 6), invitedBy: try id(3))
        var directory = try directory([byKnown, byNew])
        directory.completeEnumeration()
        let listed = try #require(directory.newEndpoints)
        #expect(listed.count == 2)
        #expect(listed[0].joining?.address == "2001:db8::1")
        #expect(listed[0].inviterName == "Known")
        // A new device's name proves nothing about whom it invites.
        #expect(listed[1].joining?.invitedBy == (try id(3)))
        #expect(listed[1].inviterName == nil)
        #expect(listed.allSatisfy { $0.accountID == "me" })
        #expect(listed[0].fingerprint == FingerprintWords(endpoint: try id(3), system: try DirectorySamples.systemKeyID(3)))
    }

    /// A relay can state another place, time or inviter. The words stay those of the keys.
    @Test func statementsOfTheRelayDoNotChangeTheWords() throws {
        let joinings = [
            nil, Joining(time: Milliseconds(clamping: 1), address: "192.0.2.1"),
            Joining(time: Milliseconds(clamping: 2), address: "198.51.100.1"),
        ]
        let words = try joinings.map { joining in
            var directory = try directory([joining])
            directory.completeEnumeration()
            return try #require(directory.newEndpoints?.first).fingerprint
        }
        #expect(Set(words).count == 1)
    }
}
