// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayServer
import RelayTesting
import Synchronization
import Testing

/// A relay process that reaches one scripted push service, with the devices of one account.
final class WakeHome {
    let relayd: RelaydProcess
    let directory = FileManager.default.temporaryDirectory.appending(path: "home-\(UUID().uuidString)")

    /// - Parameters:
    ///   - port: The relay's; `nil` for any.
    ///   - errors: The relay's standard error; `nil` for that of the tests.
    init(
        _ service: ScriptedServer,
        addresses: [String: String],
        port: Int? = nil,
        arguments: [String] = [],
        errors: FileHandle? = nil
    ) async throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let authorities = directory.appending(path: "authorities.pem")
        try Data(service.certificate).write(to: authorities)
        let push = ["--push-authorities-file", authorities.path] + addresses.flatMap { ["--push-address", "\($0.key)=\($0.value)"] }
        relayd = try await RelaydProcess(port: port, arguments: push + arguments)
        relayd.standardError = errors
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    /// Adds a credential to the running relay.
    func add(_ arguments: String...) async throws { try await add(arguments) }

    func add(_ arguments: [String]) async throws {
        let arguments = ["app", "credential", arguments[0], "default"] + arguments.dropFirst()
        let ended = try await RelaydProcess.run(arguments + ["--data-directory", relayd.directory.path])
        try #require(ended.status == 0, "\(ended.error)")
    }

    func removeCredentials() async throws {
        let apps = try JSONDecoder().decode([AdminApp].self, from: Data(try await relayd.run("app", "list", "--json").utf8))
        for credential in apps.flatMap(\.credentials) { _ = try await relayd.run("app", "credential", "remove", "default", credential.id) }
    }

    func device(_ name: String) async throws -> WakeDevice {
        let link = try JoinLink(parsing: try await relayd.run("invite", "Anna"), plainHTTP: .allowed)
        let device = try WakeDevice(name, at: link, in: directory)
        try await device.platform.start()
        try await device.platform.accounts.add(device.account, joining: link)
        return device
    }

    /// A launch, then an app service call, each to a device whose process was killed. It starts when a push arrives.
    /// - Parameter pushes: What the push service has got, oldest first.
    func launchAndCall(
        _ registration: NotificationRegistration,
        pushes: @escaping @Sendable () -> [ConnectedDevicesNotification]
    ) async throws {
        let (phone, pc) = (try await device("Phone"), try await device("PC"))
        try await pc.platform.publish(pc.app(), for: pc.account)
        try await pc.platform.notifications.register(registration, for: pc.account)
        // The account's second device is new to the first one's app until it is approved.
        try await pc.confirm(phone)
        let endpoint = try pc.endpoint()
        try await phone.confirm(pc)
        await pc.platform.shutdown()
        let system = try await phone.sees("PC") { $0.presence.isWakeable }

        let command = try await RemoteLauncher(phone.platform).submit(try #require(URL(string: "film:1")), on: .init(system))
        for await status in command.statuses where status.wake?.channel == "\(registration.type)" { break }
        try await eventually { pushes().count == 1 }
        #expect(pushes()[0].isUrgent)
        let first = try pc.process(for: pushes()[0])
        while try await first.line() != "got film:1" {}
        try first.go()
        let receipt = try await command.outcome()
        #expect(receipt.target.appID == registration.appID)
        try await first.kill()
        _ = try await phone.sees("PC") { $0.presence.isWakeable }

        let (platform, target) = (phone.platform, RemoteSystemConnectionRequest(endpoint: endpoint, appID: registration.appID))
        let call = Task {
            try await platform.withAppService(.init(name: "echo", appID: registration.appID), on: target, timeout: .seconds(240)) {
                try await $0.send(["text": "hello"])
            }
        }
        try await eventually { pushes().count == 2 }
        let second = try pc.process(for: pushes()[1])
        #expect(try await call.value == ["text": "hello"])
        try await second.kill()
        await phone.platform.shutdown()
    }
}

/// What launches have opened, oldest first.
final class OpenedURIs: Sendable {
    let list = Mutex<[String]>([])
}

/// A device of the SDK that can be started again with its storage.
final class WakeDevice {
    let account = ConnectedDevicesAccount(id: "me")
    let opened = OpenedURIs()
    private let settings: ConnectedDevicesPlatformSettings
    private(set) var platform: ConnectedDevicesPlatform

    init(_ name: String, at link: JoinLink, in directory: URL) throws {
        let directory = directory.appending(path: name)
        var settings = ConnectedDevicesPlatformSettings(
            relay: try #require(URL(string: link.origin)),
            relayID: link.relay,
            storageDirectory: directory.appending(path: "storage"),
            device: DeviceDescription(name: name, kind: .desktop, platform: .linux)
        )
        settings.systemKey = SystemKeyFile(path: directory.appending(path: "system.key").path)
        self.settings = settings
        platform = Self.platform(settings)
    }

    private static func platform(_ settings: ConnectedDevicesPlatformSettings) -> ConnectedDevicesPlatform {
        ConnectedDevicesPlatform(settings: settings, accessTokens: JoinLinkAccessTokenProvider(clientID: "org.example.test"))
    }

    func app() -> RemoteSystemAppRegistration {
        RemoteSystemAppRegistration(
            appID: WakeEndToEndTests.appID,
            launchHandler: LaunchHandler(schemes: ["film"]) { [opened] request in
                opened.list.withLock { $0.append(request.uri.text) }
                return .launched
            },
            services: [AppService("echo") { connection, _ in try await connection.respond { $0.message } }]
        )
    }

    func endpoint() throws -> EndpointID { try #require(platform.accounts.endpoint(of: account)) }

    /// Starts the app again in this process.
    func restart() async throws {
        platform = Self.platform(settings)
        try platform.host(app(), for: account)
        try await platform.start()
    }

    /// The system starts the app for a push, in its own process.
    func process(for notification: ConnectedDevicesNotification) throws -> HostProcess {
        let urgency = notification.isUrgent ? WakePayload.Urgency.urgent : .background
        let payload = WakePayload(relay: notification.relay, endpoint: notification.endpoint, urgency: urgency)
        return try HostProcess(
            relay: try #require(settings.relay).absoluteString,
            relayID: "\(notification.relay)",
            directory: settings.storageDirectory.deletingLastPathComponent(),
            [WakeEndToEndTests.appID, #"{"\#(WakePayload.key)":\#(payload.json)}"#]
        )
    }

    /// Confirms another device of the account, once this one knows of it.
    func confirm(_ other: WakeDevice) async throws {
        let endpoint = try other.endpoint()
        for await endpoints in platform.endpointChanges(for: account) where endpoints.contains(where: { $0.id == endpoint }) { break }
        #expect(await platform.confirm(endpoint, for: account))
    }

    /// Waits until a device is seen, and has the state.
    @discardableResult
    func sees(_ name: String, where isWanted: @escaping (RemoteSystem) -> Bool) async throws -> RemoteSystem {
        for await systems in platform.remoteSystems().snapshots {
            if let system = systems.first(where: { $0.displayName == name && isWanted($0) }) { return system }
        }
        throw CancellationError()
    }
}
