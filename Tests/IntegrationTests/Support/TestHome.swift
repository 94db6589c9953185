// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import GRDB
import Logging
import NIOHTTP1
import RelayProtocol
import RelayTesting
import Testing

/// A relay process with one account and its devices, each with its own directory and system key.
final class TestHome {
    let relayd: RelaydProcess
    let directory = FileManager.default.temporaryDirectory.appending(path: "home-\(UUID().uuidString)")

    /// - Parameters:
    ///   - relayDirectory: The relay's data directory; `nil` for a new one.
    ///   - relayErrors: The relay's standard error; `nil` for that of the tests.
    ///   - relayEnvironment: Variables of the relay, beside those of the tests.
    init(
        _ security: RelaydProcess.Security = .plain,
        port: Int? = nil,
        accounts: [String] = ["Anna"],
        networks: [String] = [],
        arguments: [String] = [],
        relayDirectory: URL? = nil,
        relayErrors: FileHandle? = nil,
        relayEnvironment: [String: String] = [:]
    ) async throws {
        relayd = try await RelaydProcess(security, port: port, networks: networks, directory: relayDirectory, arguments: arguments)
        relayd.standardError = relayErrors
        relayd.environment = relayEnvironment
        _ = try await relayd.start()
        for account in accounts { _ = try await relayd.run("account", "add", account) }
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: directory)
    }

    /// Makes an app identity proven at the relay, as `relayd app verify` does with a real domain.
    func prove(_ identity: String, _ apps: [String], on platform: String) throws {
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(60)
        let queue = try DatabaseQueue(path: relayd.directory.path + "/relay.sqlite", configuration: configuration)
        try queue.write { database in
            try database.execute(
                sql: "INSERT INTO app_identities (id, proof, verified, created) VALUES (?, 'proof', 1, 1)",
                arguments: [identity]
            )
            for app in apps {
                try database.execute(
                    sql: "INSERT INTO apps (app, platform, identity, proven) VALUES (?, ?, ?, 1)",
                    arguments: [app, platform, identity]
                )
            }
        }
        try queue.close()
    }

    /// An access token that is not bound to a key.
    func bearerToken() async throws -> String {
        let link = try JoinLink(parsing: try await relayd.run("invite", "Anna"), plainHTTP: .allowed)
        let form =
            "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Apre-authorized_code&client_id=org.example.test"
            + "&pre-authorized_code=\(link.invite.exposed)"
        let request = HTTPRequest(
            .POST,
            "/auth/token",
            headers: ["Content-Type": "application/x-www-form-urlencoded"],
            body: Array(form.utf8)
        )
        let address = try RelayAddress(try url(relayd.origin))
        let answer = try await HTTPRequestClient().send(request, to: address, trust: RelayTrust(relay: link.relay))
        struct Answer: Decodable {
            var token: String
            enum CodingKeys: String, CodingKey { case token = "access_token" }
        }
        return try JSONDecoder().decode(Answer.self, from: Data(answer.body)).token
    }

    /// A device in each network. The relay's other devices know them if they join later. All of them share one login.
    func guests(
        in networks: [TestNetwork?],
        change: @escaping @Sendable (inout ConnectedDevicesPlatformSettings) -> Void = { _ in }
    ) async throws -> [TestDevice] {
        let token = try await bearerToken()
        let link = try JoinLink(parsing: try await relayd.run("invite", "Anna"), plainHTTP: .allowed)
        var devices: [TestDevice] = []
        for (number, network) in networks.enumerated() {
            let tokens = StaticAccessTokenProvider(AccessToken(token))
            let device = try TestDevice("Guest \(number)", at: link, in: self, accessTokens: tokens) { settings in
                if let network, let url = URL(string: network.origin) { settings.relay = url }
                change(&settings)
            }
            try await device.start()
            try await device.platform.accounts.add(device.account)
            devices.append(device)
        }
        return devices
    }

    /// Waits until `/readyz` reports the given state.
    func relayIs(ready: Bool) async throws {
        let address = try RelayAddress(try url(relayd.origin))
        while true {
            let answer = try? await HTTPRequestClient().send(HTTPRequest(.GET, "/readyz"), to: address, trust: RelayTrust(relay: nil))
            if answer?.status == (ready ? 200 : 503) { return }
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    /// A joined device.
    func device(_ name: String, of person: String = "Anna", change: (inout ConnectedDevicesPlatformSettings) -> Void = { _ in })
        async throws -> TestDevice
    {
        let link = try JoinLink(parsing: try await relayd.run("invite", person), plainHTTP: .allowed)
        let device = try TestDevice(name, at: link, in: self, change: change)
        try await device.start()
        try await device.platform.accounts.add(device.account, joining: link)
        return device
    }
}

/// A device: a platform with its own storage, which can be restarted.
final class TestDevice {
    let name: String
    let account = ConnectedDevicesAccount(id: "me")
    let settings: ConnectedDevicesPlatformSettings
    /// Keeps the relay running.
    private let home: TestHome
    private let accessTokens: any AccessTokenProvider
    private(set) var platform: ConnectedDevicesPlatform

    init(
        _ name: String,
        relay: URL,
        relayID: RelayID? = nil,
        in home: TestHome,
        accessTokens: any AccessTokenProvider,
        change: (inout ConnectedDevicesPlatformSettings) -> Void = { _ in }
    ) throws {
        self.name = name
        self.home = home
        self.accessTokens = accessTokens
        let directory = home.directory.appending(path: name)
        var settings = ConnectedDevicesPlatformSettings(
            relay: relay,
            relayID: relayID,
            storageDirectory: directory.appending(path: "storage"),
            device: DeviceDescription(name: name, kind: .desktop, platform: .linux)
        )
        settings.systemKey = SystemKeyFile(path: directory.appending(path: "system.key").path)
        change(&settings)
        self.settings = settings
        platform = ConnectedDevicesPlatform(settings: settings, accessTokens: accessTokens)
    }

    convenience init(
        _ name: String,
        at link: JoinLink,
        in home: TestHome,
        accessTokens: any AccessTokenProvider = JoinLinkAccessTokenProvider(clientID: "org.example.test"),
        change: (inout ConnectedDevicesPlatformSettings) -> Void = { _ in }
    ) throws {
        try self.init(name, relay: url(link.origin), relayID: link.relay, in: home, accessTokens: accessTokens, change: change)
    }

    /// The database of its journal, after it has joined.
    func journal() throws -> URL {
        let accounts = settings.storageDirectory.appending(path: "accounts")
        let name = try #require(try FileManager.default.contentsOfDirectory(atPath: accounts.path).first)
        return accounts.appending(path: "\(name)/journal.sqlite")
    }

    /// A second platform on the same storage, like another process of the same installation.
    func sibling() -> ConnectedDevicesPlatform {
        ConnectedDevicesPlatform(settings: settings, accessTokens: accessTokens)
    }

    func start() async throws { try await platform.start() }

    /// A new platform on the same storage, like a new process.
    func restart(before: (ConnectedDevicesPlatform) throws -> Void = { _ in }) async throws {
        await platform.shutdown()
        platform = sibling()
        try before(platform)
        try await platform.start()
    }

    var id: EndpointID {
        get throws { try #require(platform.accounts.endpoint(of: account)) }
    }

    /// Waits until the storage fails and the platform retries.
    func waitForStorageError() async throws {
        for await state in platform.connectionStates(for: account) where state.problem?.code == .storageFailed {
            if case .waiting = state.phase { return }
        }
        throw CancellationError()
    }

    /// Waits until the account is connected.
    func connected() async throws {
        for await state in platform.connectionStates(for: account) where state.isConnected { return }
        throw CancellationError()
    }

    /// Waits until a device is visible and fulfils a condition.
    @discardableResult
    func sees(_ name: String, where isMet: @escaping (RemoteSystem) -> Bool = { _ in true }) async throws -> RemoteSystem {
        for await systems in platform.remoteSystems().snapshots {
            if let system = systems.first(where: { $0.displayName == name && isMet($0) }) { return system }
        }
        throw CancellationError()
    }

    /// Confirms another device of the account, once this one knows of it.
    func confirm(_ other: TestDevice) async throws {
        let endpoint = try other.id
        for await endpoints in platform.endpointChanges(for: account) where endpoints.contains(where: { $0.id == endpoint }) { break }
        #expect(await platform.confirm(endpoint, for: account))
    }

    /// Waits until a device is no longer visible.
    func seesNot(_ name: String) async throws {
        for await systems in platform.remoteSystems().snapshots where !systems.contains(where: { $0.displayName == name }) { return }
        throw CancellationError()
    }
}

/// The requests that a handler got, in order.
actor Log<Entry: Sendable> {
    private(set) var entries: [Entry] = []
    private var waiting: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []

    func add(_ entry: Entry) {
        entries.append(entry)
        let ready = waiting.filter { $0.count <= entries.count }
        waiting.removeAll { $0.count <= entries.count }
        for waiter in ready { waiter.continuation.resume() }
    }

    /// Waits for the given number of entries.
    func wait(for count: Int) async -> [Entry] {
        if entries.count < count { await withCheckedContinuation { waiting.append((count, $0)) } }
        return entries
    }
}

/// An app that accepts launches of web pages and of its own scheme, and records them.
func player(
    _ id: String = "org.example.player",
    schemes: [String] = ["https", "film"],
    defaultFor: Set<String> = [],
    log: Log<String>,
    answer: @escaping @Sendable (LaunchRequest) async throws -> LaunchHandler.Result = { _ in .launched }
) -> RemoteSystemAppRegistration {
    RemoteSystemAppRegistration(
        appID: id,
        displayName: "Player",
        launchHandler: LaunchHandler(schemes: schemes, defaultFor: defaultFor) { request in
            await log.add(request.uri.text)
            return try await answer(request)
        }
    )
}

func url(_ text: String) throws -> URL { try #require(URL(string: text)) }
