// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import GRDB
import RelayProtocol
import RelayTesting
import Testing

/// Devices discover each other, and believe only what the keys have signed.
@Suite(.timeLimit(.minutes(10))) struct DiscoveryTests {
    @Test func unchangedRegistrationIsNotPublishedAgain() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        let log = Log<String>()
        let accounts = pc.settings.storageDirectory.appending(path: "accounts")
        /// The file that contains the version of the latest signature.
        func facts() throws -> Data {
            let name = try #require(try FileManager.default.contentsOfDirectory(atPath: accounts.path).first)
            return try Data(contentsOf: accounts.appending(path: "\(name)/account.cbor"))
        }
        try await pc.platform.publish(player(log: log), for: pc.account)
        try await phone.sees("PC")
        let before = try facts()
        try await pc.restart()
        try await pc.platform.publish(player(log: log), for: pc.account)
        #expect(try facts() == before)
        try await pc.platform.publish(player(schemes: ["film"], log: log), for: pc.account)
        #expect(try facts() != before)
        // Withdrawn, and published again.
        try await pc.platform.unpublish(appID: "org.example.player", for: pc.account)
        try await phone.seesNot("PC")
        try await pc.platform.publish(player(log: log), for: pc.account)
        _ = try await RemoteLauncher(phone.platform).launch(try url("https://films.example/1"), on: .init(try await phone.sees("PC")))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func watchersGetAddedUpdatedAndRemovedDevices() async throws {
        let home = try await TestHome()
        let phone = try await home.device("Phone")
        var events = phone.platform.remoteSystems().makeAsyncIterator()
        #expect(await events.next() == .enumerationCompleted)
        let pc = try await home.device("PC")
        try await pc.platform.publish(player(log: Log()), for: pc.account)
        guard case .added(let added) = await events.next() else {
            Issue.record("nothing was added")
            return
        }
        #expect(added.displayName == "PC")
        #expect(added.accountID == "me")
        #expect(added.isNew)
        await pc.platform.suspend()
        guard case .updated(let suspended) = await events.next() else {
            Issue.record("nothing was updated")
            return
        }
        #expect(suspended.presence.reason == .suspended)
        await pc.platform.resume()
        #expect(try await phone.sees("PC") { $0.status == .available }.id == added.id)
        // Another iteration starts with the current devices.
        var others = phone.platform.remoteSystems(matching: [.status(.available), .kinds([.desktop])]).makeAsyncIterator()
        guard case .added(let again) = await others.next() else {
            Issue.record("the device is missing")
            return
        }
        #expect(again.id == added.id)
        for filters: [RemoteSystemFilter] in [[.kinds([.phone])], [.platform(.windows)], [.account("other")]] {
            var none = phone.platform.remoteSystems(matching: filters).snapshots.makeAsyncIterator()
            #expect(await none.next() == [])
        }
        try await pc.platform.accounts.remove(pc.account)
        try await phone.seesNot("PC")
        await phone.platform.shutdown()
        #expect(await events.next() != nil)
        while await events.next() != nil {}
        await pc.platform.shutdown()
    }

    @Test func twoAccountsNeverSeeEachOther() async throws {
        let home = try await TestHome(accounts: ["Anna", "Bert"])
        let (anna, bert) = (try await home.device("Anna's PC", of: "Anna"), try await home.device("Bert's PC", of: "Bert"))
        let log = Log<String>()
        for device in [anna, bert] { try await device.platform.publish(player(log: log), for: device.account) }
        for await systems in anna.platform.remoteSystems(matching: [.localVisibility(.showAll)]).snapshots where !systems.isEmpty {
            #expect(systems.map(\.displayName) == ["Anna's PC"])
            break
        }
        let launcher = RemoteLauncher(bert.platform)
        let target = RemoteSystemConnectionRequest(endpoint: try anna.id, appID: "org.example.player")
        await launchFails(.remoteSystemUnavailable) { try await launcher.launch(try url("https://films.example/"), on: target) }
        #expect(await bert.platform.confirm(try anna.id, for: bert.account) == false)
        await #expect { try await bert.platform.revoke(try anna.id, for: bert.account) } throws: {
            ($0 as? AccountError)?.code == .notFound
        }
        #expect(await log.entries.isEmpty)
        // One installation with both accounts keeps their devices apart.
        try await bert.platform.accounts.add(ConnectedDevicesAccount(id: "hers"), joining: try await home.link(for: "Anna"))
        for await systems in bert.platform.remoteSystems(matching: [.account("hers")]).snapshots where !systems.isEmpty {
            #expect(systems.map(\.displayName) == ["Anna's PC"])
            #expect(systems.map(\.accountID) == ["hers"])
            break
        }
        _ = try await launcher.launch(try url("https://films.example/"), on: target)
        #expect(await log.entries == ["https://films.example/"])
        for device in [anna, bert] { await device.platform.shutdown() }
    }

    @Test func invitedDeviceIsKnownToAllAtOnce() async throws {
        let home = try await TestHome()
        let (tablet, phone) = (try await home.device("Tablet"), try await home.device("Phone"))
        // The tablet joined first, so the phone is new to it.
        try await phone.platform.publish(player(log: Log()), for: phone.account)
        #expect(try await tablet.sees("Phone").isNew)
        try await tablet.confirm(phone)
        _ = try await tablet.sees("Phone") { !$0.isNew }
        let link = try await phone.platform.accounts.invite(to: phone.account)
        let pc = try TestDevice("PC", at: link, in: home)
        try await pc.start()
        try await pc.platform.accounts.add(pc.account, joining: link)
        try await pc.platform.publish(player(log: Log()), for: pc.account)
        // The inviter knows the new device by its proof, and the tablet knows it by the inviter's voucher.
        _ = try await phone.sees("PC") { !$0.isNew }
        _ = try await tablet.sees("PC") { !$0.isNew }
        // A device that joined by the relay's own invitation is new to all others, also after they restart.
        let foreign = try await home.device("Other account")
        try await foreign.platform.publish(player(log: Log()), for: foreign.account)
        for device in [tablet, phone, pc] {
            _ = try await device.sees("Other account") { $0.isNew }
            try await device.restart()
            _ = try await device.sees("Other account") { $0.isNew }
        }
        for device in [tablet, phone, pc, foreign] { await device.platform.shutdown() }
    }

    /// Changes the relay's database, as a hostile relay could.
    @Test func recordChangedByTheRelayIsRejected() async throws {
        let home = try await TestHome()
        let (pc, phone) = (try await home.device("PC"), try await home.device("Phone"))
        try await pc.platform.publish(player(log: Log()), for: pc.account)
        let system = try await phone.sees("PC") { !$0.isNew || $0.isNew }
        try await phone.confirm(pc)
        let id = try pc.id
        let original = try home.record(of: id)
        await pc.platform.shutdown()

        // A record of another key and a record with a modified byte: both are rejected, the known state remains, and the watcher
        // gets an error.
        var changed = original
        changed[changed.count / 2] ^= 1
        for bytes in [try home.record(of: try phone.id), changed] {
            try await home.relayd.kill()
            try home.setRecord(bytes, of: id)
            _ = try await home.relayd.start()
            try await phone.connected()
            var events = phone.platform.remoteSystems().makeAsyncIterator()
            while let event = await events.next() {
                guard case .error(let error) = event else { continue }
                if error.code == .recordRefused { break }
            }
        }

        // The record is renamed, and then rolled back.
        try await home.relayd.kill()
        try home.setRecord(original, of: id)
        _ = try await home.relayd.start()
        let renamed = try TestDevice("PC", at: try await home.link(for: "Anna"), in: home) { $0.device.name = "Den" }
        try await renamed.start()
        try await renamed.connected()
        #expect(try await phone.sees("Den").id == system.id)
        await renamed.platform.shutdown()
        try await home.relayd.kill()
        try home.setRecord(original, of: id)
        _ = try await home.relayd.start()
        var events = phone.platform.remoteSystems().makeAsyncIterator()
        while let event = await events.next() {
            guard case .error(let error) = event else { continue }
            if error.code == .recordRefused { break }
        }
        // A new process with the same storage rejects it, too.
        try await phone.restart()
        var later = phone.platform.remoteSystems().makeAsyncIterator()
        while let event = await later.next() {
            guard case .error(let error) = event else { continue }
            #expect(error.code == .recordRefused)
            break
        }
        await phone.platform.shutdown()
    }
}

extension TestHome {
    func link(for person: String) async throws -> JoinLink {
        try JoinLink(parsing: try await relayd.run("invite", person), plainHTTP: .allowed)
    }

    private var database: DatabaseQueue {
        get throws { try DatabaseQueue(path: relayd.directory.appending(path: "relay.sqlite").path) }
    }

    func record(of endpoint: EndpointID) throws -> [UInt8] {
        try database.read { database in
            let bytes = try Data.fetchOne(
                database,
                sql: "SELECT record FROM endpoints WHERE id = ?",
                arguments: [Data(endpoint.digest.bytes)]
            )
            return [UInt8](try #require(bytes))
        }
    }

    /// The relay must not be running.
    func setRecord(_ record: [UInt8], of endpoint: EndpointID) throws {
        try database.write { database in
            try database.execute(
                sql: "UPDATE endpoints SET record = ? WHERE id = ?",
                arguments: [Data(record), Data(endpoint.digest.bytes)]
            )
        }
    }
}
