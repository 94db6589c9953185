// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import GRDB
import RelayProtocol
import RelayTesting
import Testing

/// No accepted command is lost or handled twice, whichever process is killed at any time.
@Suite(.timeLimit(.minutes(10))) struct DurabilityTests {
    private func pair() async throws -> (home: TestHome, phone: TestDevice, pc: TestDevice) {
        let home = try await TestHome()
        return (home, try await home.device("Phone"), try await home.device("PC"))
    }

    private func page(_ number: Int) throws -> URL { try url("https://films.example/\(number)") }

    // MARK: The relay

    @Test func waitingLaunchSurvivesAKilledRelay() async throws {
        let (home, phone, pc) = try await pair()
        let log = Log<String>()
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC") { $0.status == .available }
        await pc.platform.shutdown()
        let stopped = try await phone.sees("PC") { $0.status == .unavailable }
        #expect(stopped.presence.reason == .shutdown)
        let command = try await RemoteLauncher(phone.platform).submit(try page(1), on: .init(system))
        #expect(await command.statuses.first { _ in true } != nil)
        try await home.relayd.kill()
        _ = try await home.relayd.start()
        try await pc.restart { try $0.host(player(log: log), for: pc.account) }
        _ = try await command.outcome()
        #expect(await log.entries == ["https://films.example/1"])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func relayIsKilledWhileTheHandlerRuns() async throws {
        let (home, phone, pc) = try await pair()
        let (log, gate) = (Log<String>(), Log<Void>())
        try await pc.platform.publish(
            player(log: log) { _ in
                _ = await gate.wait(for: 1)
                return .launched
            },
            for: pc.account
        )
        let command = try await RemoteLauncher(phone.platform).submit(try page(1), on: .init(try await phone.sees("PC")))
        _ = await log.wait(for: 1)
        try await home.relayd.kill()
        await gate.add(())
        _ = try await home.relayd.start()
        _ = try await command.outcome()
        #expect(await log.entries == ["https://films.example/1"])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func launchIsAcceptedWhenTheRelayReturns() async throws {
        let (home, phone, pc) = try await pair()
        let log = Log<String>()
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        try await home.relayd.kill()
        let command = try await RemoteLauncher(phone.platform).submit(try page(1), on: .init(system))
        // The process ends before the relay is back.
        try await phone.restart()
        let found = try await phone.platform.commands(for: phone.account)
        #expect(found.map(\.id) == [command.id])
        _ = try await home.relayd.start()
        _ = try await found.first?.outcome()
        #expect(await log.entries == ["https://films.example/1"])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func launchesSurviveRepeatedKillsOfTheRelay() async throws {
        let (home, phone, pc) = try await pair()
        let log = Log<String>()
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        var commands: [RemoteCommand] = []
        for round in 0..<5 {
            for number in 0..<10 {
                commands.append(try await RemoteLauncher(phone.platform).submit(try page(round * 10 + number), on: .init(system)))
            }
            // The relay is killed at a different moment in each round.
            _ = await log.wait(for: round * 10 + 2 * round)
            try await home.relayd.kill()
            _ = try await home.relayd.start()
        }
        for command in commands { _ = try await command.outcome() }
        #expect(await log.entries == (0..<50).map { "https://films.example/\($0)" })
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func endpointsPublishAgainToARelayWithoutItsDatabase() async throws {
        let (home, phone, pc) = try await pair()
        let log = Log<String>()
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        _ = try await RemoteLauncher(phone.platform).launch(try page(1), on: .init(system))
        await pc.platform.shutdown()
        let command = try await RemoteLauncher(phone.platform).submit(try page(2), on: .init(system))
        #expect(await command.statuses.first { _ in true } != nil)
        // Otherwise a relay that does not know the target, and may once have had the command, would answer that the outcome is unknown.
        await phone.platform.suspend()
        try await home.relayd.kill()
        for name in try FileManager.default.contentsOfDirectory(atPath: home.relayd.directory.path) where name.hasPrefix("relay.sqlite") {
            try FileManager.default.removeItem(at: home.relayd.directory.appending(path: name))
        }
        _ = try await home.relayd.start()
        try await pc.restart { try $0.host(player(log: log), for: pc.account) }
        try await pc.platform.publish(player(log: log), for: pc.account)
        await phone.platform.resume()
        _ = try await command.outcome()
        #expect(await log.entries == ["https://films.example/1", "https://films.example/2"])
        // The devices still know each other.
        _ = try await RemoteLauncher(phone.platform).launch(try page(3), on: .init(try await phone.sees("PC")))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    // MARK: The target

    @Test func targetIsKilledBeforeItHandlesALaunch() async throws {
        let (_, phone, pc) = try await pair()
        await pc.platform.shutdown()
        let host = try HostProcess(pc)
        #expect(try await host.line() == "ready")
        let system = try await phone.sees("PC") { $0.status == .available }
        let launcher = RemoteLauncher(phone.platform)
        // The first launch occupies the lane, so the second one is stored and waits when the process is killed.
        let first = try await launcher.submit(try page(1), on: .init(system))
        #expect(try await host.line() == "got https://films.example/1")
        let second = try await launcher.submit(try page(2), on: .init(system))
        for await status in second.statuses where status == .delivered { break }
        try await host.kill()
        #expect(try await phone.sees("PC") { $0.status == .unavailable }.presence.reason == .lost)
        let again = try HostProcess(pc)
        // It is unknown whether the first launch ran, so it does not run again. The second one runs now.
        await launchFails(.indeterminate) { try await first.outcome() }
        var lines = [try await again.line(), try await again.line()]
        lines.sort()
        #expect(lines == ["got https://films.example/2", "ready"])
        try again.go()
        _ = try await second.outcome()
        try await again.stop()
        await phone.platform.shutdown()
    }

    @Test func targetIsKilledAfterItHandledALaunch() async throws {
        let (home, phone, pc) = try await pair()
        await pc.platform.shutdown()
        let host = try HostProcess(pc)
        #expect(try await host.line() == "ready")
        let system = try await phone.sees("PC")
        let command = try await RemoteLauncher(phone.platform).submit(try page(1), on: .init(system))
        #expect(try await host.line() == "got https://films.example/1")
        // The result cannot reach the relay. It is stored, and sent when both are back.
        try await home.relayd.kill()
        try host.go()
        let journal = try DatabaseQueue(path: try pc.journal().path)
        while try await journal.read({ try Int.fetchOne($0, sql: "SELECT count(*) FROM received_commands WHERE state = 'answered'") }) == 0
        {
            try await Task.sleep(for: .milliseconds(50))
        }
        try journal.close()
        try await host.kill()
        _ = try await home.relayd.start()
        let again = try HostProcess(pc)
        #expect(try await again.line() == "ready")
        _ = try await command.outcome()
        try await again.stop()
        await phone.platform.shutdown()
    }

    // MARK: Expiry and cancellation

    @Test func outcomesAreTrueWhenCancelAndExpiryRaceTheHandler() async throws {
        let (_, phone, pc) = try await pair()
        let log = Log<String>()
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        let launcher = RemoteLauncher(phone.platform)
        var commands: [(Int, RemoteCommand)] = []
        for number in 0..<60 {
            let life = Duration.milliseconds([1, 5, 20, 60_000][number % 4])
            let command = try await launcher.submit(try page(number), on: .init(system), options: .init(timeToLive: life))
            commands.append((number, command))
            if number % 3 == 0 { try await command.cancel() }
        }
        var ran: [String] = []
        for (number, command) in commands {
            do {
                _ = try await command.outcome()
                ran.append("https://films.example/\(number)")
            } catch {
                #expect([.expired, .cancelled].contains(error.code), "\(error)")
            }
        }
        #expect(await log.entries == ran)
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func aLaunchExpiresWhileItsDeviceIsAway() async throws {
        let (_, phone, pc) = try await pair()
        let log = Log<String>()
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        await pc.platform.shutdown()
        let launcher = RemoteLauncher(phone.platform)
        let short = try await launcher.submit(try page(1), on: .init(system), options: .init(timeToLive: .milliseconds(300)))
        await launchFails(.expired) { try await short.outcome() }
        let cancelled = try await launcher.submit(try page(2), on: .init(system))
        #expect(await cancelled.statuses.first { _ in true } != nil)
        try await cancelled.cancel()
        await launchFails(.cancelled) { try await cancelled.outcome() }
        await launchFails(.pending) {
            try await launcher.launch(try page(3), on: .init(system), options: .init(timeout: .milliseconds(200)))
        }
        try await pc.restart { try $0.host(player(log: log), for: pc.account) }
        #expect(await log.wait(for: 1) == ["https://films.example/3"])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }
}
