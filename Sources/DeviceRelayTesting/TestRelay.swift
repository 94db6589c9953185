// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import DeviceRelay
import RelayProtocol
import RelayServer

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Runs a closure with a relay of its own, and takes everything away after it, however it ends: platforms, relay and files.
///
/// The relay is a real one, in this process, on a free port of the loopback address. Several may run at once.
/// - Throws: What the closure throws, or why there is no relay.
nonisolated(nonsending) public func withTestRelay<Result>(
    _ body: nonisolated(nonsending) (TestRelay) async throws -> Result
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

/// A relay for tests, and the devices that were made with it. See `withTestRelay`.
public actor TestRelay {
    /// The person whose devices they are, unless a test names another.
    public static let person = "Anna"

    /// What every platform that was made here calls its account.
    public nonisolated let account = ConnectedDevicesAccount(id: "test")

    private let directory = FileManager.default.temporaryDirectory.appending(path: "test-relay-\(UUID().uuidString)")
    private let node: RelayNode
    private var count = 0
    private var platforms: [(person: String, platform: ConnectedDevicesPlatform)] = []

    init() throws { node = try RelayNode(dataDirectory: directory.appending(path: "relay").path) }

    // MARK: The relay

    /// Stops the relay as for a restart: its devices lose their connections, and what it has accepted is kept. Without effect if it is
    /// stopped.
    public func stop() async { await node.stop() }

    /// Starts the relay again, at the same address. Devices come back by themselves, within seconds. Without effect if it runs.
    public func start() async throws { try await node.start() }

    // MARK: Devices

    /// A device that is connected, knows the person's other devices, and is known to those that are connected.
    ///
    /// It may be used as any platform; shutting it down is the device going away.
    /// - Parameters:
    ///   - name: What other devices show.
    ///   - kind: What sort of device it is.
    ///   - person: Whose device it is; whoever is named for the first time gets an account.
    ///   - isConfirmed: Whether the others know it. If not, it is new to them, as a device is before its person has confirmed it.
    ///   - apps: What it hosts and publishes.
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
        // Who was there before is known from then on.
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

    /// Settings for a device of its own, for an app that makes its platform itself.
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

    /// A link that lets one device into a person's account, for an app that joins by itself. Whoever is named for the first time gets an
    /// account. The relay must run.
    public func joinLink(for person: String = TestRelay.person) async throws -> JoinLink {
        try await node.invite(person)
    }

    /// Everything goes, also when the task was cancelled.
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
