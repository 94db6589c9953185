// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Devices that sleep, and fetch what waits: when a notification arrives, at an interval, or on demand.
@Suite(.timeLimit(.minutes(10))) struct NotificationTests {
    private let app = "org.example.player"

    private func polling(every interval: Duration = .seconds(86_400)) -> NotificationRegistration {
        NotificationRegistration(type: .polling(every: interval), appID: app, displayName: "Player")
    }

    /// A device that has published a player, polls, and is suspended.
    private func sleeper(_ home: TestHome, _ log: Log<String>, every interval: Duration = .seconds(86_400)) async throws -> TestDevice {
        let pc = try await home.device("PC")
        try await pc.platform.publish(player(app, log: log), for: pc.account)
        try await pc.platform.notifications.register(polling(every: interval), for: pc.account)
        #expect(pc.platform.notifications.state(for: pc.account) == .registered)
        await pc.platform.suspend()
        return pc
    }

    private func notification(for device: TestDevice, _ home: TestHome) throws -> ConnectedDevicesNotification {
        let relay = try #require(device.settings.relayID)
        let payload = WakePayload(relay: relay, endpoint: try device.id, urgency: .urgent)
        return try #require(ConnectedDevicesNotification(parsing: "{\"\(WakePayload.key)\":\(payload.json)}"))
    }

    @Test func pollingDeviceGetsItsLaunchAndSleepsAgain() async throws {
        let home = try await TestHome()
        let log = Log<String>()
        let phone = try await home.device("Phone")
        let pc = try await sleeper(home, log, every: .seconds(1))
        let system = try await phone.sees("PC") { $0.presence.reason == .suspended }
        // It says how soon it asks, and nobody claims to wake it.
        #expect(system.presence.expectedWithin == .seconds(1) && !system.presence.isWakeable)
        for number in 1...2 {
            let uri = try url("https://films.example/\(number)")
            let receipt = try await RemoteLauncher(phone.platform).launch(uri, on: .init(system), options: .init(timeout: .seconds(120)))
            #expect(receipt.target.appID == app)
            #expect(await log.wait(for: number).last == uri.absoluteString)
            try await phone.sees("PC") { $0.presence.reason == .suspended }
        }
        await pc.platform.shutdown()
        await phone.platform.shutdown()
    }

    @Test func killedRelayLosesNothingForASleepingDevice() async throws {
        let home = try await TestHome()
        let log = Log<String>()
        let phone = try await home.device("Phone")
        let pc = try await sleeper(home, log)
        let system = try await phone.sees("PC")
        var commands: [RemoteCommand] = []
        for number in 1...5 {
            let command = try await RemoteLauncher(phone.platform).submit(try url("film:\(number)"), on: .init(system))
            for await status in command.statuses where status == .accepted { break }
            commands.append(command)
        }
        try await home.relayd.kill()
        _ = try await home.relayd.start()
        #expect(await pc.platform.poll(within: .seconds(120)))
        // All were handled when the call returned, and the relay has the results.
        #expect(await log.entries == (1...5).map { "film:\($0)" })
        for command in commands { _ = try await command.outcome() }
        await pc.platform.shutdown()
        await phone.platform.shutdown()
    }

    @Test func notificationFetchesWhatWaitsOnce() async throws {
        let home = try await TestHome()
        let log = Log<String>()
        let phone = try await home.device("Phone")
        let pc = try await sleeper(home, log)
        let system = try await phone.sees("PC")
        let command = try await RemoteLauncher(phone.platform).submit(try url("film:1"), on: .init(system))
        for await status in command.statuses where status == .accepted { break }
        let notification = try notification(for: pc, home)
        let platform = pc.platform
        async let first = platform.process(notification, within: .seconds(120))
        async let second = platform.process(notification, within: .seconds(120))
        #expect(await first)
        #expect(await second)
        #expect(await log.entries == ["film:1"])
        _ = try await command.outcome()
        // It sleeps again, and once more there is nothing to do.
        try await phone.sees("PC") { $0.presence.reason == .suspended }
        #expect(await pc.platform.process(notification, within: .seconds(120)))
        #expect(await log.entries == ["film:1"])
        // What is for another installation is not ours.
        let foreign = try self.notification(for: phone, home)
        #expect(await pc.platform.process(foreign) == false)
        // A connected platform handles it too.
        await pc.platform.resume()
        #expect(await pc.platform.process(notification, within: .seconds(120)))
        await pc.platform.shutdown()
        #expect(await pc.platform.process(notification) == false)
        await phone.platform.shutdown()
    }

    @Test func notificationAtAColdStartWaitsForTheAccounts() async throws {
        let home = try await TestHome()
        let log = Log<String>()
        let phone = try await home.device("Phone")
        let pc = try await sleeper(home, log)
        let system = try await phone.sees("PC")
        let notification = try notification(for: pc, home)
        await pc.platform.shutdown()
        let command = try await RemoteLauncher(phone.platform).submit(try url("film:1"), on: .init(system))
        for await status in command.statuses where status == .accepted { break }

        let next = pc.sibling()
        try next.host(player(app, log: log), for: pc.account)
        let processing = Task { await next.process(notification, within: .seconds(120)) }
        try await next.start()
        #expect(await processing.value)
        #expect(await log.entries == ["film:1"])
        // The registration of the earlier process holds.
        #expect(next.notifications.registration(for: pc.account) == polling())
        for await state in next.notifications.stateChanges(for: pc.account) where state == .registered { break }
        await next.shutdown()
        await phone.platform.shutdown()
    }

    @Test func registrationFailsWithAReason() async throws {
        let home = try await TestHome()
        let pc = try await home.device("PC")
        let (manager, account) = (pc.platform.notifications, pc.account)
        func code(_ registration: NotificationRegistration, for account: ConnectedDevicesAccount) async -> NotificationRegistrationError
            .Code?
        {
            do throws(NotificationRegistrationError) {
                try await manager.register(registration, for: account)
                return nil
            } catch {
                return error.code
            }
        }
        #expect(await code(polling(), for: account) == .notHosting)
        #expect(await code(polling(), for: ConnectedDevicesAccount(id: "another")) == .accountNotFound)
        try await pc.platform.publish(player(app, log: Log<String>()), for: account)
        // The stored registration is sent when the endpoint becomes a host.
        for await state in manager.stateChanges(for: account) where state == .registered { break }
        #expect(await code(.init(type: .fcm, token: "t", appID: app), for: account) == .notSupported)
        #expect(manager.state(for: account) == .unregistered)
        #expect(await code(polling(), for: account) == nil)
        #expect(manager.state(for: account) == .registered)
        await pc.platform.shutdown()
        #expect(await code(polling(), for: account) == .accountNotFound)
    }

    @Test func providerDeliversTheRegistration() async throws {
        struct Provider: NotificationProvider {
            let registration: NotificationRegistration
            func notificationRegistration(for account: ConnectedDevicesAccount) async -> NotificationRegistration? { registration }
        }
        let home = try await TestHome()
        let pc = try await home.device("PC") { [polling = polling()] in $0.notificationProvider = Provider(registration: polling) }
        try await pc.platform.publish(player(app, log: Log<String>()), for: pc.account)
        for await state in pc.platform.notifications.stateChanges(for: pc.account) where state == .registered { break }
        #expect(pc.platform.notifications.registration(for: pc.account) == polling())
        await pc.platform.shutdown()
    }
}
