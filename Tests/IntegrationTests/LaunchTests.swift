// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Launches between real devices over a real relay.
@Suite(.timeLimit(.minutes(10))) struct LaunchTests {
    @Test(arguments: [RelaydProcess.Security.plain, .ownCertificate])
    func launchReachesItsHandlerOnceAndReturnsAReceipt(_ security: RelaydProcess.Security) async throws {
        let home = try await TestHome(security)
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        let log = Log<String>()
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC") { $0.status == .available }
        #expect(system.presence.reason == .connected)
        #expect(system.isNew)
        let command = try await RemoteLauncher(phone.platform).submit(try url("https://films.example/42"), on: .init(system))
        #expect(try await command.outcome().target == .init(endpoint: try pc.id, appID: "org.example.player"))
        var statuses: [CommandStatus] = []
        for await status in command.statuses { statuses.append(status) }
        #expect(statuses == [.final(.succeeded, attestedBy: .target)])
        #expect(await log.entries == ["https://films.example/42"])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func everyAnswerOfAHandlerReachesTheCaller() async throws {
        let home = try await TestHome()
        let pc = try await home.device("PC")
        let phone = try await home.device("Phone")
        let log = Log<String>()
        try await pc.platform.publish(
            player(log: log) { request in
                switch request.uri.text {
                case "film:unsupported": .unsupported
                case "film:declined": .declined
                case "film:failed": .failed(reason: "no tape")
                case "film:throws": throw CancellationError()
                default: .launched
                }
            },
            for: pc.account
        )
        let system = try await phone.sees("PC")
        // The phone joined later, so the PC does not know it yet: it may launch only web pages.
        let launcher = RemoteLauncher(phone.platform)
        await launchFails(.deniedByRemoteSystem) { try await launcher.launch(try url("film:declined"), on: .init(system)) }
        #expect(await log.entries.isEmpty)
        try await pc.confirm(phone)
        await launchFails(.deniedByRemoteSystem) { try await launcher.launch(try url("film:declined"), on: .init(system)) }
        await launchFails(.protocolUnavailable) { try await launcher.launch(try url("film:unsupported"), on: .init(system)) }
        await launchFails(.failed) { try await launcher.launch(try url("film:failed"), on: .init(system)) }
        await launchFails(.failed) { try await launcher.launch(try url("film:throws"), on: .init(system)) }
        // If the handler reports `unsupported`, the fallback is tried.
        let options = RemoteLauncherOptions(fallbackURI: try LaunchURI("https://films.example/42"))
        let receipt = try await launcher.launch(try url("film:unsupported"), on: .init(system), options: options)
        #expect(receipt.isFallback)
        #expect(
            await log.entries == [
                "film:declined", "film:unsupported", "film:failed", "film:throws", "film:unsupported", "https://films.example/42",
            ]
        )
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func launchReachesTheSelectedApp() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        let (first, second, web) = (Log<String>(), Log<String>(), Log<String>())
        try await pc.platform.publish(
            player("org.example.first", schemes: ["https"], log: first),
            player("org.example.second", schemes: ["https", "http"], log: second),
            player("org.example.web", schemes: ["http"], defaultFor: ["http"], log: web),
            for: pc.account
        )
        let system = try await phone.sees("PC") { $0.apps.count == 3 }
        let launcher = RemoteLauncher(phone.platform)
        // Several apps accept the scheme, and none is the default.
        let page = try url("https://films.example/")
        await launchFails(.ambiguous) { try await launcher.launch(page, on: .init(system)) }
        // A preferred app.
        let preferring = RemoteLauncherOptions(preferredAppIDs: ["org.example.other", "org.example.second"])
        #expect(try await launcher.launch(page, on: .init(system), options: preferring).target.appID == "org.example.second")
        // The default app.
        #expect(try await launcher.launch(try url("http://films.example/"), on: .init(system)).target.appID == "org.example.web")
        // A named app must declare the scheme, too.
        let app = try #require(system.apps.first { $0.appID == "org.example.first" })
        #expect(try await launcher.launch(try url("https://films.example/2"), on: .init(app)).target.appID == "org.example.first")
        await launchFails(.protocolUnavailable) { try await launcher.launch(try url("http://films.example/4"), on: .init(app)) }
        // No app accepts the URI; then the fallback is used; then no app accepts the fallback either.
        await launchFails(.protocolUnavailable) { try await launcher.launch(try url("tape:1"), on: .init(system)) }
        let falling = RemoteLauncherOptions(fallbackURI: try LaunchURI("http://films.example/3"))
        let receipt = try await launcher.launch(try url("tape:1"), on: .init(system), options: falling)
        #expect(receipt.isFallback)
        #expect(await web.entries == ["http://films.example/", "http://films.example/3"])
        #expect(await first.entries == ["https://films.example/2"])
        #expect(await second.entries == ["https://films.example/"])
        // The app is withdrawn.
        try await pc.platform.unpublish(appID: "org.example.first", for: pc.account)
        try await phone.sees("PC") { $0.apps.count == 2 }
        await launchFails(.appUnavailable) { try await launcher.launch(page, on: .init(app)) }
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func invalidLaunchIsRejectedAtOnce() async throws {
        let home = try await TestHome()
        let phone = try await home.device("Phone")
        let launcher = RemoteLauncher(phone.platform)
        let unknown = RemoteSystemConnectionRequest(systemID: RemoteSystem.ID(SystemID(P256SigningKey().publicKey)))
        await launchFails(.remoteSystemUnavailable) { try await launcher.launch(try url("https://films.example/"), on: unknown) }
        let long = "https://films.example/" + String(repeating: "x", count: 9_000)
        await launchFails(.invalidURI) { try await launcher.launch(try url(long), on: unknown) }
        await launchFails(.invalidURI) { try await launcher.launch(try url("no-scheme"), on: unknown) }
        let elsewhere = RemoteSystemConnectionRequest(systemID: RemoteSystem.ID(SystemID(P256SigningKey().publicKey)), accountID: "other")
        await launchFails(.notSignedIn) { try await launcher.launch(try url("https://films.example/"), on: elsewhere) }
        await phone.platform.shutdown()
        await launchFails(.notSignedIn) { try await launcher.launch(try url("https://films.example/"), on: unknown) }
    }

    @Test func tenDevicesLaunchURIsOnEachOther() async throws {
        let home = try await TestHome()
        var devices: [TestDevice] = []
        var logs: [Log<String>] = []
        for number in 0..<10 {
            let (device, log) = (try await home.device("Device \(number)"), Log<String>())
            var app = player(log: log)
            // Each device has more new devices beside it than the pages of new devices that it opens in a minute.
            app.newCallers = .everything
            try await device.platform.publish(app, for: device.account)
            devices.append(device)
            logs.append(log)
        }
        for device in devices {
            for await systems in device.platform.remoteSystems().snapshots where systems.count(where: { $0.status == .available }) == 9 {
                break
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for device in devices {
                let (platform, name) = (device.platform, device.name)
                for other in devices where other.name != name {
                    let target = RemoteSystemConnectionRequest(endpoint: try other.id, appID: "org.example.player")
                    let page = try url("https://films.example/\(name.last ?? "?")")
                    group.addTask { _ = try await RemoteLauncher(platform).launch(page, on: target) }
                }
            }
            try await group.waitForAll()
        }
        for (number, log) in logs.enumerated() {
            let expected = (0..<10).filter { $0 != number }.map { "https://films.example/\($0)" }
            #expect(await log.entries.sorted() == expected)
        }
        for device in devices { await device.platform.shutdown() }
    }
}

/// Checks that a launch fails with a code.
func launchFails<Value>(
    _ code: RemoteLaunchError.Code,
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () async throws -> Value
) async {
    do {
        _ = try await body()
        Issue.record("the launch succeeded", sourceLocation: sourceLocation)
    } catch let error as RemoteLaunchError {
        #expect(error.code == code, "\(error)", sourceLocation: sourceLocation)
    } catch {
        Issue.record(error, sourceLocation: sourceLocation)
    }
}
