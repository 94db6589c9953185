// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayProtocol

@Suite struct DeviceDirectoryTests {
    @Test func endpointsOfOneSystemFormOneDevice() throws {
        let directory = DeviceDirectory(
            try DirectorySamples.endpoint(1, on: 1, apps: ["b"], presence: .off),
            try DirectorySamples.endpoint(2, on: 1, apps: ["c", "a"], schemes: ["https"], services: ["photos"], presence: .asleep),
            try DirectorySamples.endpoint(3, on: 2)
        )
        #expect(directory.systems().map(\.displayName) == ["System 1", "System 2"])
        let system = try #require(directory.systems().first)
        #expect(system.id == (try DirectorySamples.system(1)))
        #expect(system.apps.map(\.appID) == ["a", "b", "c"])
        #expect(system.apps.first?.schemes == ["https"])
        #expect(system.apps.first?.appServices == [AppServiceInfo(name: "photos", appID: "a")])
        #expect(system.apps.map(\.presence) == [.asleep, .off, .asleep])
        #expect(system.presence == .asleep)
        #expect(system.status == .unavailable)
        #expect(!system.isNew && !system.isLocal)
    }

    @Test func bestPresenceIsUsed() throws {
        let best: [Presence] = [
            .available, Presence(.discoveringAvailability, .waking), Presence(.unknown, .relayStarting), .asleep,
            Presence(.unavailable, .lost, since: 3_000), Presence(.unavailable, .shutdown, since: 2_000),
        ]
        for (index, presence) in best.enumerated() {
            for worse in best.dropFirst(index) {
                for order in [[presence, worse], [worse, presence]] {
                    let directory = DeviceDirectory(
                        try DirectorySamples.endpoint(1, on: 1, presence: order[0]),
                        try DirectorySamples.endpoint(2, on: 1, presence: order[1])
                    )
                    #expect(directory.systems().first?.presence == presence)
                }
            }
        }
    }

    @Test func devicesOfTheSameNameAreSeparate() throws {
        let directory = DeviceDirectory(
            try DirectorySamples.endpoint(1, on: 1, name: "Phone"),
            try DirectorySamples.endpoint(2, on: 2, name: "Phone")
        )
        #expect(directory.systems().map(\.displayName) == ["Phone", "Phone"])
        #expect(Set(directory.systems().map(\.id)).count == 2)
    }

    @Test func deviceWithoutAppsIsHidden() throws {
        var directory = DeviceDirectory(try DirectorySamples.endpoint(1, on: 1, apps: []))
        #expect(directory.systems().isEmpty)
        let record = try DirectorySamples.record(1, on: 1)
        directory.update(record.endpointID) { $0.registrations = [DirectorySamples.app("a", of: record)] }
        #expect(directory.systems().count == 1)
        directory.update(record.endpointID) { $0.registrations = [] }
        #expect(directory.systems().isEmpty)
    }

    @Test func presenceOfAnEndpointWithoutAppsIsIgnored() throws {
        let directory = DeviceDirectory(
            try DirectorySamples.endpoint(1, on: 1, apps: [], presence: .available),
            try DirectorySamples.endpoint(2, on: 1, presence: .off)
        )
        #expect(directory.systems().first?.presence == .off)
    }

    @Test func ownEndpointIsHiddenByDefault() throws {
        var directory = DeviceDirectory(try DirectorySamples.endpoint(1, on: 1, apps: ["own"], isLocal: true))
        #expect(directory.systems().isEmpty)
        #expect(directory.systems(matching: [.localVisibility(.hideLocalApp)]).isEmpty)
        #expect(directory.everything.map(\.isLocal) == [true])
        // Another app on the same device is shown.
        directory.add(try DirectorySamples.endpoint(2, on: 1, apps: ["other"]))
        #expect(directory.systems().map { $0.apps.map(\.appID) } == [["other"]])
        #expect(directory.systems().map(\.isLocal) == [true])
        #expect(directory.everything.map { $0.apps.map(\.appID) } == [["other", "own"]])
    }

    @Test func deviceIsNewUntilOneOfItsEndpointsIsConfirmed() throws {
        var directory = DeviceDirectory(try DirectorySamples.endpoint(1, on: 1, trust: .new))
        #expect(directory.systems().map(\.isNew) == [true])
        let id = try DirectorySamples.record(1, on: 1).endpointID
        for trust in [DeviceDirectory.Trust.approved, .pinned] {
            directory.update(id) { $0.trust = trust }
            #expect(directory.systems().map(\.isNew) == [false])
        }
        directory.add(try DirectorySamples.endpoint(2, on: 1, apps: ["z"], trust: .new))
        #expect(directory.systems().map(\.isNew) == [false])
        #expect(directory.systems().first?.apps.map(\.isNew) == [false, true])
    }

    @Test func newEndpointChangesNoNameOrPresenceOfAKnownDevice() throws {
        // The smaller id would provide the device's name if it were confirmed.
        let numbers = try [UInt8(1), 2].sorted {
            try DirectorySamples.record($0, on: 1).endpointID < DirectorySamples.record($1, on: 1).endpointID
        }
        let directory = DeviceDirectory(
            try DirectorySamples.endpoint(numbers[0], on: 1, name: "Bank", presence: .available, trust: .new),
            try DirectorySamples.endpoint(numbers[1], on: 1, name: "Phone", presence: .off, trust: .pinned)
        )
        #expect(directory.systems().map(\.displayName) == ["Phone"])
        #expect(directory.systems().map(\.presence) == [.off])
    }

    @Test func recordMovesAnEndpointToAnotherDevice() throws {
        var directory = DeviceDirectory(try DirectorySamples.endpoint(1, on: 1))
        directory.add(try DirectorySamples.endpoint(1, on: 2))
        #expect(directory.systems().map(\.id) == [try DirectorySamples.system(2)])
    }

    @Test func updateUnderAnotherIDIsIgnored() throws {
        var directory = DeviceDirectory(try DirectorySamples.endpoint(1, on: 1))
        let before = directory.systems()
        let other = try DirectorySamples.record(2, on: 1, name: "Other")
        directory.update(try DirectorySamples.record(1, on: 1).endpointID) { $0.record = other }
        directory.update(other.endpointID) { $0.setPresence(.off, on: .relay) }
        #expect(directory.systems() == before)
    }

    @Test func enumerationRemovesUnlistedEndpoints() throws {
        var directory = DeviceDirectory(try DirectorySamples.endpoint(1, on: 1), try DirectorySamples.endpoint(2, on: 2))
        directory.beginEnumeration()
        directory.add(try DirectorySamples.endpoint(2, on: 2))
        directory.add(try DirectorySamples.endpoint(3, on: 3))
        #expect(directory.systems().count == 3)
        #expect(directory.completeEnumeration() == [try DirectorySamples.record(1, on: 1).endpointID])
        #expect(directory.systems().map(\.displayName) == ["System 2", "System 3"])
    }

    @Test func lostRelayMakesPresenceUnknown() throws {
        var directory = DeviceDirectory(try DirectorySamples.endpoint(1, on: 1), try DirectorySamples.endpoint(2, on: 2, presence: .off))
        directory.loseRelay(at: 5_000)
        let presence = Presence(.unknown, .relayUnreachable, since: 5_000)
        #expect(directory.systems().map(\.presence) == [presence, presence])
        #expect(presence.since?.timeIntervalSince1970 == 5)
        // Failed connection attempts keep the presence; a connection changes it.
        directory.loseRelay(at: 9_000)
        #expect(directory.systems().map(\.presence) == [presence, presence])
        directory.add(try DirectorySamples.endpoint(1, on: 1))
        directory.loseRelay(at: 9_000)
        let later = Presence(.unknown, .relayUnreachable, since: 9_000)
        #expect(directory.systems().map(\.presence) == [later, presence])
    }

    @Test func bestPathIsShown() throws {
        var directory = DeviceDirectory(account: "me")
        let endpoint = try DirectorySamples.endpoint(1, on: 1, presence: .available)
        directory.add(endpoint)
        let near = Presence(.available, .connected, since: 2_000)
        directory.update(endpoint.id) { $0.setPresence(near, on: .nearby) }
        directory.loseRelay(at: 5_000)
        #expect(directory.systems()[0].presence == near)
        #expect(directory[endpoint.id]?.presence(on: .relay)?.reason == .relayUnreachable)
        directory.update(endpoint.id) { $0.setPresence(nil, on: .nearby) }
        #expect(directory.systems()[0].presence == Presence(.unknown, .relayUnreachable, since: 5_000))
        // A device that was killed may still seem to be there. The relay knows better.
        directory.update(endpoint.id) { $0.setPresence(Presence(.unavailable, .lost, since: 6_000), on: .relay) }
        directory.update(endpoint.id) { $0.setPresence(Presence(.discoveringAvailability, .nearby), on: .nearby) }
        #expect(directory.systems()[0].presence.reason == .lost)
        directory.loseRelay(at: 7_000)
        #expect(directory.systems()[0].presence.reason == .nearby)
        directory.update(endpoint.id) { $0.setPresence(nil, on: .nearby) }
        // What the relay stated last is never forgotten.
        directory.update(endpoint.id) { $0.setPresence(nil, on: .relay) }
        #expect(directory.systems()[0].presence.reason == .relayUnreachable)
    }

    @Test func deviceIDsAreOpaqueText() throws {
        let id = try DirectorySamples.system(1)
        #expect(RemoteSystem.ID(id.description) == id && id.label == String(id.description.prefix(8)))
        #expect(try JSONDecoder().decode(RemoteSystem.ID.self, from: JSONEncoder().encode(id)) == id)
        #expect(RemoteSystem.ID("another-kind:1") != nil)
        for text in ["", "a b", "a\u{0}", "\u{e9}", String(repeating: "a", count: 129)] { #expect(RemoteSystem.ID(text) == nil, "\(text)") }
        let ids = ["2", "a", "aa", "b"].compactMap { RemoteSystem.ID($0) }
        #expect(ids.shuffled().sorted() == ids)
    }

    @Test func filtersUniteWithinAKindAndIntersectAcrossKinds() throws {
        var directory = DeviceDirectory(account: "me")
        let kinds = ["desktop", "phone", "tablet"]
        for (index, kind) in kinds.enumerated() {
            let number = UInt8(index + 1)
            var endpoint = try DirectorySamples.endpoint(number, on: number, presence: kind == "phone" ? .off : .available)
            endpoint.record.kind = kind
            endpoint.record.platform = kind == "desktop" ? "linux" : "ios"
            directory.add(endpoint)
        }
        func found(_ filters: RemoteSystemFilter...) -> [String] { directory.systems(matching: filters).map(\.kind.rawValue) }
        #expect(found() == kinds)
        #expect(found(.kinds([.desktop, .phone])) == ["desktop", "phone"])
        #expect(found(.kinds([.desktop]), .kinds([.phone])) == ["desktop", "phone"])
        #expect(found(.kinds([])) == [])
        #expect(found(.status(.available)) == ["desktop", "tablet"])
        #expect(found(.status(.available), .status(.any)) == kinds)
        #expect(found(.status(.available), .kinds([.desktop, .phone])) == ["desktop"])
        #expect(found(.platform(.iOS)) == ["phone", "tablet"])
        #expect(found(.platform(.iOS), .platform(.linux)) == kinds)
        #expect(found(.platform(.iOS), .status(.available)) == ["tablet"])
        #expect(found(.account("me")) == kinds)
        #expect(found(.account("you")) == [])
        #expect(found(.account("you"), .account("me")) == kinds)
        #expect(found(.localVisibility(.hideLocalApp), .localVisibility(.showAll)) == kinds)
    }

    @Test func filtersTellTheWayToADeviceAndWhoseItIs() throws {
        func names(in directory: DeviceDirectory, _ filters: RemoteSystemFilter...) -> [String] {
            directory.systems(matching: filters).map(\.displayName)
        }
        var own = DeviceDirectory(account: "me")
        var paired = DeviceDirectory(account: AnonymousAccount.id)
        let (near, far) = (try DirectorySamples.endpoint(1, on: 1), try DirectorySamples.endpoint(2, on: 2))
        for endpoint in [near, far] {
            own.add(endpoint)
            paired.add(endpoint)
        }
        let presence = Presence(.discoveringAvailability, .nearby, since: 1)
        own.update(near.id) { $0.setPresence(presence, on: .nearby) }
        paired.update(near.id) { $0.setPresence(presence, on: .nearby) }
        let (all, one) = (names(in: own), [near.record.name])
        #expect(all.count == 2 && names(in: own, .authorizationKind(.sameUser)) == all)
        #expect(names(in: own, .authorizationKind(.anonymous)) == [])
        #expect(names(in: own, .discoveryType(.proximal)) == one)
        #expect(names(in: own, .discoveryType(.cloud)) == all)
        #expect(names(in: own, .discoveryType(.proximal), .discoveryType(.any)) == all)
        let isNear = own.systems(matching: [.discoveryType(.proximal)]).map(\.isAvailableByProximity)
        #expect(isNear == [true])
        // Devices of other people are shown to those who ask for them, and no relay leads to them.
        #expect(names(in: paired) == [] && names(in: paired, .discoveryType(.any)) == [])
        #expect(names(in: paired, .authorizationKind(.anonymous)) == all)
        #expect(names(in: paired, .authorizationKind(.anonymous), .authorizationKind(.sameUser)) == all)
        #expect(names(in: paired, .authorizationKind(.anonymous), .discoveryType(.proximal)) == one)
        #expect(names(in: paired, .authorizationKind(.anonymous), .discoveryType(.cloud)) == [])
    }
}
