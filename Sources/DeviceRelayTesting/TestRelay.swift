// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import DeviceRelay
import Foundation
import RelayProtocol
import RelayServer

/// Runs a closure with its own relay. Afterwards, also after an error, it shuts down the platforms and the relay and deletes their files.
///
/// The relay is a real one in this process, on a free port of the loopback address. Several may run at the same time.
/// - Throws: The closure's error, or the reason why the relay did not start.
public func withTestRelay<Result>(
    _ body: (TestRelay) async throws -> Result
) async throws -> Result {
    let relay = try TestRelay()
    do {
        try await relay.start()
        let result = try await body(relay)
        await relay.end()
        return result
    } catch {
        await relay.end()
        throw error
    }
}

/// A relay for tests, and the devices that were created with it. See `withTestRelay`.
public actor TestRelay {
    /// The default owner of the devices.
    public static let person = "Anna"

    /// The account of every platform that is created here.
    public nonisolated let account = ConnectedDevicesAccount(id: "test")

    private let directory = FileManager.default.temporaryDirectory.appending(path: "test-relay-\(UUID().uuidString)")
    private let node: RelayNode
    private var count = 0
    private var platforms: [(person: String, platform: ConnectedDevicesPlatform)] = []

    init() throws { node = try RelayNode(dataDirectory: directory.appending(path: "relay").path) }

    // MARK: The relay

    /// Stops the relay as for a restart: its devices lose their connections, and it keeps what it has accepted. A stopped
    /// relay is left as it is.
    public func stop() async { await node.stop() }

    /// Restarts the relay at the same address. Devices reconnect within seconds. A running relay is left as it is.
    public func start() async throws { try await node.start() }

    // MARK: Devices

    /// Creates a connected device that knows the person's other devices, and that the connected ones know.
    ///
    /// It is an ordinary platform. Shut it down to disconnect the device.
    /// - Parameters:
    ///   - name: The name that other devices show.
    ///   - kind: The kind of device.
    ///   - person: The owner of the device. A new name creates an account.
    ///   - isConfirmed: Whether the other devices know it. If not, it is new to them, like a device that its user has not confirmed.
    ///   - apps: The apps that it hosts and publishes.
    /// - Returns: The connected platform.
    /// - Throws: The SDK's error if the device cannot join or publish, or an error if the relay is stopped.
    public func platform(
        named name: String,
        kind: RemoteSystemKind = .phone,
        of person: String = TestRelay.person,
        isConfirmed: Bool = true,
        publishing apps: RemoteSystemAppRegistration...
    ) async throws -> ConnectedDevicesPlatform {
        let platform = ConnectedDevicesPlatform(
            settings: settings(named: name, kind: kind),
            accessTokens: JoinLinkAccessTokenProvider(clientID: "org.device-relay.testing")
        )
        let others = platforms.filter { $0.person == person }.map(\.platform)
        platforms.append((person, platform))
        try await platform.start()
        try await platform.accounts.add(account, joining: try await joinLink(for: person))
        // The first enumeration pins the devices that it lists.
        for await event in platform.remoteSystems() where event == .enumerationCompleted { break }
        if isConfirmed, let endpoint = platform.accounts.endpoint(of: account) {
            for other in others where await other.isConnected(account) {
                await other.knows(endpoint, of: account)
                await other.confirm(endpoint, for: account)
            }
        }
        for app in apps { try await platform.publish(app, for: account) }
        try Task.checkCancellation()
        return platform
    }

    /// Settings for a separate device, for an app that creates its own platform.
    public func settings(named name: String, kind: RemoteSystemKind = .phone) -> ConnectedDevicesPlatformSettings {
        count += 1
        let place = directory.appending(path: "device-\(count)")
        var settings = ConnectedDevicesPlatformSettings(
            relay: node.url,
            relayID: node.key.id,
            storageDirectory: place.appending(path: "storage"),
            device: DeviceDescription(name: name, kind: kind, platform: DeviceDescription.thisDevice.platform)
        )
        settings.systemKey = SystemKeyFile(path: place.appending(path: "system.key").path)
        return settings
    }

    /// A link that admits one device to a person's account, for an app that creates its own platform. A new name creates an account.
    /// The relay must be running.
    public func joinLink(for person: String = TestRelay.person) async throws -> JoinLink {
        try await node.invite(person)
    }

    /// Shuts everything down and deletes the files, also in a cancelled task.
    func end() async {
        let platforms = platforms.map(\.platform)
        await Task {
            await withTaskGroup { group in
                for platform in platforms { group.addTask { await platform.shutdown() } }
            }
            await node.stop()
        }.value
        try? FileManager.default.removeItem(at: directory)
    }
}

extension ConnectedDevicesPlatform {
    fileprivate func isConnected(_ account: ConnectedDevicesAccount) async -> Bool {
        var states = connectionStates(for: account).makeAsyncIterator()
        return await states.next()?.isConnected ?? false
    }

    /// Waits until an endpoint is in the directory.
    fileprivate func knows(_ endpoint: EndpointID, of account: ConnectedDevicesAccount) async {
        _ = await directories.first { $0[account.id]?[endpoint] != nil }
    }
}
