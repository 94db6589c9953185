// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

@Suite struct DirectoryIterationTests {
    @Test func iterationBeginsWithThePresentDevices() throws {
        var directory = DeviceDirectory(try DirectorySamples.endpoint(1, on: 1))
        directory.beginEnumeration()
        directory.add(try DirectorySamples.endpoint(1, on: 1))
        directory.completeEnumeration()
        let system = try #require(directory.systems().first)
        var iteration = DeviceDirectory.Iteration()
        #expect(iteration.next(in: directory) == .added(system))
        #expect(iteration.next(in: directory) == .enumerationCompleted)
        #expect(iteration.next(in: directory) == nil)
        #expect(iteration.next(in: directory) == nil)
    }

    @Test func enumerationCompletesOnceAfterTheDevices() throws {
        var directory = DeviceDirectory(account: "account")
        var listener = Listener()
        directory.beginEnumeration()
        directory.add(try DirectorySamples.endpoint(1, on: 1))
        try listener.drain(directory)
        #expect(listener.systems.count == 1 && listener.enumerations == 0)
        directory.completeEnumeration()
        try listener.drain(directory)
        directory.beginEnumeration()
        directory.completeEnumeration()
        try listener.drain(directory)
        #expect(listener.systems.isEmpty)
        #expect(listener.enumerations == 1)
    }

    @Test func deviceChangesCoalesce() throws {
        var directory = DeviceDirectory(try DirectorySamples.endpoint(1, on: 1), try DirectorySamples.endpoint(2, on: 2))
        let id = try DirectorySamples.record(1, on: 1).endpointID
        var listener = Listener()
        #expect(try listener.drain(directory) == 2)
        for presence in [Presence.off, .asleep, .available, .asleep] { directory.update(id) { $0.setPresence(presence, on: .relay) } }
        #expect(try listener.drain(directory) == 1)
        // A change and its reversal cause no event.
        for presence in [Presence.off, .asleep] { directory.update(id) { $0.setPresence(presence, on: .relay) } }
        #expect(try listener.drain(directory) == 0)
        // An endpoint that was added and removed between two reads causes no event either.
        directory.add(try DirectorySamples.endpoint(3, on: 3))
        directory.remove(try DirectorySamples.record(3, on: 3).endpointID)
        #expect(try listener.drain(directory) == 0)
    }

    @Test func frequentChangesOfADeviceDoNotHideOthers() throws {
        var directory = DeviceDirectory(try DirectorySamples.endpoint(1, on: 1), try DirectorySamples.endpoint(2, on: 2))
        let changing = try DirectorySamples.record(1, on: 1).endpointID
        var listener = Listener()
        try listener.drain(directory)
        directory.update(try DirectorySamples.record(2, on: 2).endpointID) { $0.setPresence(.off, on: .relay) }
        for round in 0..<2 {
            directory.update(changing) { $0.setPresence(Presence(.unknown, .lost, since: Milliseconds(clamping: round)), on: .relay) }
            #expect(try listener.step(directory))
        }
        #expect(listener.systems[try DirectorySamples.system(2)]?.presence == .off)
    }

    @Test func deviceThatNoLongerMatchesIsRemoved() throws {
        var directory = DeviceDirectory(try DirectorySamples.endpoint(1, on: 1))
        let before = try #require(directory.systems().first)
        var iteration = DeviceDirectory.Iteration(matching: [.status(.available)])
        #expect(iteration.next(in: directory) == .added(before))
        directory.update(try DirectorySamples.record(1, on: 1).endpointID) { $0.setPresence(.off, on: .relay) }
        #expect(iteration.next(in: directory) == .removed(before))
        directory.update(try DirectorySamples.record(1, on: 1).endpointID) { $0.setPresence(.available, on: .relay) }
        #expect(iteration.next(in: directory) == .added(before))
        #expect(iteration.next(in: directory) == nil)
    }

    @Test func errorsReachEachIterationOnceUntilTheNextEnumeration() throws {
        var directory = DeviceDirectory(account: "account")
        var listener = Listener()
        let offline = RemoteSystemWatcherError(.internetNotAvailable, message: "connect to a network")
        directory.report(offline)
        directory.report(offline)
        try listener.drain(directory)
        #expect(listener.errors == [offline])
        var later = Listener()
        try later.drain(directory)
        #expect(later.errors == [offline])
        directory.beginEnumeration()
        var latest = Listener()
        try latest.drain(directory)
        #expect(latest.errors.isEmpty)
        directory.report(offline)
        try listener.drain(directory)
        #expect(listener.errors == [offline, offline])
    }

    @Test func devicesAreListedDespiteAnError() throws {
        var directory = DeviceDirectory(account: "account")
        directory.report(RemoteSystemWatcherError(.relayUnavailable, message: "start the relay"))
        directory.add(try DirectorySamples.endpoint(1, on: 1))
        var listener = Listener()
        try listener.drain(directory)
        #expect(listener.systems.count == 1 && listener.errors.count == 1)
    }
}
