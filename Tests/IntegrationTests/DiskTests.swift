// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import GRDB
import RelayProtocol
import RelayTesting
import Testing

/// Full and read-only disks, and locked and truncated databases: the relay and the endpoints acknowledge only what is
/// stored, lose nothing that was stored, and recover without help.
@Suite(.timeLimit(.minutes(10))) struct DiskTests {
    private func page(_ number: Int) throws -> URL { try url("https://films.example/\(number)") }

    private func pages(_ numbers: ClosedRange<Int>) -> [String] { numbers.map { "https://films.example/\($0)" } }

    /// Locks a database exclusively.
    private func lock(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        configuration.busyMode = .timeout(60)
        let database = try DatabaseQueue(path: path, configuration: configuration)
        try database.inDatabase { try $0.execute(sql: "BEGIN IMMEDIATE") }
        return database
    }

    // MARK: The relay

    @Test(.enabled(if: SmallDisk.isPossible, "needs to mount a small disk, which root alone may"))
    func relayWithAFullDiskAcceptsNothing() async throws {
        let (disk, errors) = (try SmallDisk(megabytes: 4), try ErrorLog())
        let home = try await TestHome(relayDirectory: disk.directory.appending(path: "relay"), relayErrors: errors.handle)
        let (phone, pc, log) = (try await home.device("Phone"), try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        await pc.platform.shutdown()
        let launcher = RemoteLauncher(phone.platform)
        var commands: [RemoteCommand] = []
        for number in 1...3 { commands.append(try await launcher.submit(try page(number), on: .init(system))) }
        for command in commands { #expect(await command.statuses.first { _ in true } != nil) }

        try disk.fill()
        try await home.relayIs(ready: false)
        for number in 4...6 { commands.append(try await launcher.submit(try page(number), on: .init(system))) }
        try await errors.contains("disk is full")
        #expect(commands[3...].allSatisfy { $0.status == nil })
        try await home.relayd.kill()
        _ = try await home.relayd.start()
        try await home.relayIs(ready: false)
        await phone.platform.networkChanged()
        #expect(commands[3...].allSatisfy { $0.status == nil })

        try disk.makeRoom()
        try await home.relayIs(ready: true)
        try await pc.restart { try $0.host(player(log: log), for: pc.account) }
        for command in commands { _ = try await command.outcome() }
        #expect(await log.entries == pages(1...6))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test(.enabled(if: SmallDisk.isPossible, "needs to mount a small disk, which root alone may"))
    func relayThatCannotWriteReportsItAndLosesNothing() async throws {
        let (disk, errors) = (try SmallDisk(megabytes: 4), try ErrorLog())
        let home = try await TestHome(relayDirectory: disk.directory.appending(path: "relay"), relayErrors: errors.handle)
        let (phone, pc, log) = (try await home.device("Phone"), try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        await pc.platform.shutdown()
        let command = try await RemoteLauncher(phone.platform).submit(try page(1), on: .init(system))
        #expect(await command.statuses.first { _ in true } != nil)
        try await home.relayd.kill()
        try disk.setReadOnly(true)
        await #expect(throws: RelaydProcess.Failed.self) { try await home.relayd.start() }
        try await errors.contains("cannot be written")
        try disk.setReadOnly(false)
        _ = try await home.relayd.start()
        try await pc.restart { try $0.host(player(log: log), for: pc.account) }
        _ = try await command.outcome()
        #expect(await log.entries == pages(1...1))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func relayContinuesWhenItsDatabaseIsUnlocked() async throws {
        let errors = try ErrorLog()
        let home = try await TestHome(relayErrors: errors.handle)
        let (phone, pc, log) = (try await home.device("Phone"), try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        let other = try lock(home.relayd.directory.appending(path: "relay.sqlite").path)
        try await home.relayIs(ready: false)
        let command = try await RemoteLauncher(phone.platform).submit(try page(1), on: .init(system))
        try await errors.contains("another process keeps it locked")
        #expect(command.status == nil)
        try other.close()
        try await home.relayIs(ready: true)
        _ = try await command.outcome()
        #expect(await log.entries == pages(1...1))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test(arguments: ["relay.sqlite", "issuer.sqlite"]) func relayDoesNotChangeATruncatedDatabase(_ name: String) async throws {
        let errors = try ErrorLog()
        let home = try await TestHome(relayErrors: errors.handle)
        let (phone, pc, log) = (try await home.device("Phone"), try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        await pc.platform.shutdown()
        let command = try await RemoteLauncher(phone.platform).submit(try page(1), on: .init(system))
        #expect(await command.statuses.first { _ in true } != nil)
        try await home.relayd.kill()
        let file = home.relayd.directory.appending(path: name)
        let (whole, cut) = try cutOff(file)
        await #expect(throws: RelaydProcess.Failed.self) { try await home.relayd.start() }
        try await errors.contains("damaged")
        #expect(try Data(contentsOf: file) == cut)
        try whole.write(to: file)
        _ = try await home.relayd.start()
        try await pc.restart { try $0.host(player(log: log), for: pc.account) }
        _ = try await command.outcome()
        #expect(await log.entries == pages(1...1))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    /// Truncates a database to half its size.
    private func cutOff(_ file: URL) throws -> (whole: Data, cut: Data) {
        try DatabaseQueue(path: file.path).inDatabase { _ = try $0.checkpoint(.truncate) }
        let whole = try Data(contentsOf: file)
        let handle = try FileHandle(forWritingTo: file)
        try handle.truncate(atOffset: UInt64(whole.count / 2))
        try handle.close()
        return (whole, whole.prefix(whole.count / 2))
    }

    // MARK: The endpoint

    private func device(_ name: String, of home: TestHome, on disk: SmallDisk) async throws -> TestDevice {
        try await home.device(name) { $0.storageDirectory = disk.directory.appending(path: "storage") }
    }

    @Test(.enabled(if: SmallDisk.isPossible, "needs to mount a small disk, which root alone may"))
    func targetWithAFullDiskKeepsItsResult() async throws {
        let (home, disk) = (try await TestHome(), try SmallDisk(megabytes: 4))
        let (phone, pc) = (try await home.device("Phone"), try await device("PC", of: home, on: disk))
        let (log, gate) = (Log<String>(), Log<Void>())
        try await pc.platform.publish(
            player(log: log) { _ in
                _ = await gate.wait(for: 1)
                return .launched
            },
            for: pc.account
        )
        let system = try await phone.sees("PC")
        let launcher = RemoteLauncher(phone.platform)
        let first = try await launcher.submit(try page(1), on: .init(system))
        _ = await log.wait(for: 1)
        try disk.fill()
        await gate.add(())
        try await pc.waitForStorageError()
        #expect(try await phone.sees("PC") { $0.status == .unavailable }.presence.reason == .suspended)
        let second = try await launcher.submit(try page(2), on: .init(system))
        #expect(await second.statuses.first { _ in true } != nil)
        #expect(!second.isEnded)
        try disk.makeRoom()
        _ = try await first.outcome()
        _ = try await second.outcome()
        #expect(await log.entries == pages(1...2))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test(.enabled(if: SmallDisk.isPossible, "needs to mount a small disk, which root alone may"))
    func senderWithAFullDiskAcceptsNothingAndGetsOutcomesLater() async throws {
        let (home, disk) = (try await TestHome(), try SmallDisk(megabytes: 4))
        let (phone, pc) = (try await device("Phone", of: home, on: disk), try await home.device("PC"))
        let log = Log<String>()
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        await pc.platform.shutdown()
        let launcher = RemoteLauncher(phone.platform)
        let first = try await launcher.submit(try page(1), on: .init(system))
        #expect(await first.statuses.first { _ in true } != nil)
        try disk.fill()
        await launchFails(.storageFailed) { try await launcher.submit(try page(2), on: .init(system)) }
        await launchFails(.storageFailed) { try await first.cancel() }
        try await pc.restart { try $0.host(player(log: log), for: pc.account) }
        _ = await log.wait(for: 1)
        try await phone.waitForStorageError()
        #expect(!first.isEnded)
        try disk.makeRoom()
        _ = try await first.outcome()
        _ = try await launcher.launch(try page(3), on: .init(system))
        #expect(await log.entries == [try page(1), try page(3)].map(\.absoluteString))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func endpointContinuesWhenItsJournalIsUnlocked() async throws {
        let home = try await TestHome()
        let (phone, pc, log) = (try await home.device("Phone"), try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        let other = try lock(try pc.journal().path)
        let command = try await RemoteLauncher(phone.platform).submit(try page(1), on: .init(system))
        try await pc.waitForStorageError()
        #expect(await log.entries.isEmpty)
        try other.close()
        _ = try await command.outcome()
        #expect(await log.entries == pages(1...1))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    /// A command that is stored as running is never run again, so its result is sent before it is stored.
    @Test func resultIsSentBeforeItIsStored() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        await pc.platform.shutdown()
        let host = try HostProcess(pc)
        #expect(try await host.line() == "ready")
        let launcher = RemoteLauncher(phone.platform)
        let first = try await launcher.submit(try page(1), on: .init(try await phone.sees("PC")))
        #expect(try await host.line() == "got https://films.example/1")
        let other = try lock(try pc.journal().path)
        try host.go()
        _ = try await first.outcome()
        try await host.kill()
        try other.close()
        let again = try HostProcess(pc)
        #expect(try await again.line() == "ready")
        let system = try await phone.sees("PC") { $0.status == .available }
        let second = try await launcher.submit(try page(2), on: .init(system))
        #expect(try await again.line() == "got https://films.example/2")
        try again.go()
        _ = try await second.outcome()
        try await again.stop()
        await phone.platform.shutdown()
    }

    @Test func endpointDoesNotChangeATruncatedJournal() async throws {
        let home = try await TestHome()
        let (phone, pc, log) = (try await home.device("Phone"), try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        try await home.relayd.kill()
        let command = try await RemoteLauncher(phone.platform).submit(try page(1), on: .init(system))
        await phone.platform.shutdown()
        let file = try phone.journal()
        let (whole, cut) = try cutOff(file)
        let broken = phone.sibling()
        do throws(PlatformError) {
            try await broken.start()
            Issue.record("it has started")
        } catch {
            #expect(error.code == .storageFailed && error.message.contains("\(file.path) is damaged"), "\(error)")
        }
        await broken.shutdown()
        #expect(try Data(contentsOf: file) == cut)
        try whole.write(to: file)
        _ = try await home.relayd.start()
        try await phone.restart()
        let found = try await phone.platform.commands(for: phone.account)
        #expect(found.map(\.id) == [command.id])
        _ = try await found.first?.outcome()
        #expect(await log.entries == pages(1...1))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test(.enabled(if: SmallDisk.isPossible, "needs to mount a small disk, which root alone may"))
    func endpointThatCannotWriteReportsItAndLosesNothing() async throws {
        let (home, disk) = (try await TestHome(), try SmallDisk(megabytes: 4))
        let (phone, pc, log) = (try await device("Phone", of: home, on: disk), try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        await pc.platform.shutdown()
        let command = try await RemoteLauncher(phone.platform).submit(try page(1), on: .init(system))
        await phone.platform.shutdown()
        try disk.setReadOnly(true)
        let broken = phone.sibling()
        do throws(PlatformError) {
            try await broken.start()
            Issue.record("it has started")
        } catch {
            #expect(error.code == .storageFailed && error.message.contains("cannot be written"), "\(error)")
        }
        await broken.shutdown()
        try disk.setReadOnly(false)
        try await phone.restart()
        let found = try await phone.platform.commands(for: phone.account)
        #expect(found.map(\.id) == [command.id])
        try await pc.restart { try $0.host(player(log: log), for: pc.account) }
        _ = try await found.first?.outcome()
        #expect(await log.entries == pages(1...1))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }
}
