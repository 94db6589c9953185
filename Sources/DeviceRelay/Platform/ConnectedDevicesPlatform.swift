// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
package import RelayProtocol
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The person's devices as an app has them: its accounts, the devices of each, what it asks of them, and what it does for them.
///
/// ```swift
/// let platform = ConnectedDevicesPlatform(settings: settings, accessTokens: tokens)
/// platform.host(player, for: account)
/// try await platform.start()
/// ```
///
/// All of it may be used from any task. It keeps connected by itself from `start` to `shutdown`; a process has one platform for a
/// storage directory, and several processes may share one.
public final class ConnectedDevicesPlatform: Sendable {
    enum Phase {
        case idle
        case started(StorageDirectory)
        case shutDown
    }

    struct State {
        var phase = Phase.idle
        var isSuspended = false
        var endpoints: [String: LocalEndpoint] = [:]
        /// Hosted before their account's endpoint was there.
        var hosted: [String: [RemoteSystemAppRegistration]] = [:]
        var hostLock: StorageDirectory.HostLock?
    }

    package let settings: ConnectedDevicesPlatformSettings
    let accessTokens: any AccessTokenProvider
    let state = Mutex(State())
    /// The devices of each account, by the app's id of it.
    package let directories = CurrentValue<[String: DeviceDirectory]>([:])

    /// A platform. Nothing happens before `start`.
    /// - Parameters:
    ///   - settings: Its relay, its storage, and what this device is called.
    ///   - accessTokens: Where access tokens come from: `JoinLinkAccessTokenProvider`, or the app's own.
    public init(settings: ConnectedDevicesPlatformSettings, accessTokens: any AccessTokenProvider) {
        self.settings = settings
        self.accessTokens = accessTokens
    }

    // MARK: Life

    /// Opens the storage and begins to connect the accounts that are there. It never waits for the network: see `connectionStates(for:)`.
    /// Again, it changes nothing.
    /// - Throws: `PlatformError`: `storageFailed`, `invalidSettings`, `endpointInUse` if an app is hosted and another process hosts already,
    ///   `shutDown`.
    public func start() async throws(PlatformError) {
        do {
            let endpoints = try state.withLock { state -> [LocalEndpoint] in
                switch state.phase {
                case .started: return []
                case .shutDown: throw PlatformError(.shutDown, "the platform was shut down; make another one")
                case .idle: break
                }
                let storage = try StorageDirectory(path: settings.storageDirectory.path, systemKey: settings.systemKey)
                if !state.hosted.isEmpty { state.hostLock = try storage.lockForHost() }
                for scope in try storage.scopes() where settings.relayID.map({ $0 == scope.relay }) ?? true {
                    let account = ConnectedDevicesAccount(id: scope.accountID)
                    state.endpoints[account.id] = try endpoint(for: account, storage.open(scope, now: settings.clock.wall()))
                }
                state.phase = .started(storage)
                return Array(state.endpoints.values)
            }
            for endpoint in endpoints { await begin(endpoint) }
            // Watchers see that there is nothing to wait for.
            if endpoints.isEmpty { directories.update { _ in } }
        } catch {
            throw PlatformError(error)
        }
    }

    func endpoint(
        for account: ConnectedDevicesAccount,
        _ storage: AccountStorage,
        invitation: Secret<[UInt8]>? = nil
    ) throws -> LocalEndpoint {
        try LocalEndpoint(
            account: account,
            storage: storage,
            settings: settings,
            accessTokens: accessTokens,
            directories: directories,
            invitationProof: invitation
        )
    }

    /// Hosts what is to be hosted, then connects.
    func begin(_ endpoint: LocalEndpoint) async {
        let (apps, isSuspended) = state.withLock { (($0.hosted.removeValue(forKey: endpoint.account.id) ?? []), $0.isSuspended) }
        for app in apps { await endpoint.host(app) }
        if !isSuspended { await endpoint.start() }
    }

    /// Disconnects all accounts, until `resume`: other devices see this one as suspended, and what they send waits at the relay as long as it
    /// lives. Nothing wakes this device. Commands that are being handled go on. App
    /// service connections, of both directions, are closed: nothing would pass over them any more. For apps that go to the background;
    /// returns within seconds.
    public func suspend() async {
        let endpoints = state.withLock { state in
            state.isSuspended = true
            return Array(state.endpoints.values)
        }
        await withTaskGroup { group in
            for endpoint in endpoints { group.addTask { await endpoint.leave(.suspended) } }
        }
    }

    /// Connects again after `suspend`, or after something that `connectionStates(for:)` says was in the way is mended.
    public func resume() async {
        let endpoints = state.withLock { state in
            state.isSuspended = false
            return Array(state.endpoints.values)
        }
        for endpoint in endpoints { await endpoint.start() }
    }

    /// The device has another network. Whoever knows says so, and nothing waits for a time-out. (Apple systems: `NWPathMonitor`.)
    public func networkChanged() async {
        for endpoint in state.withLock({ Array($0.endpoints.values) }) { await endpoint.networkChanged() }
    }

    /// Ends everything: connections, tasks, files. Other devices see this one shut down. Handlers that are at work are cancelled, and
    /// their commands end as `indeterminate`, since nobody can know how far they came.
    public func shutdown() async {
        let endpoints = state.withLock { state in
            defer { state = State(phase: .shutDown, hostLock: state.hostLock) }
            return Array(state.endpoints.values)
        }
        await withTaskGroup { group in
            for endpoint in endpoints { group.addTask { await endpoint.shutDown(.shutdown) } }
        }
        state.withLock { $0.hostLock = nil }
        directories.finish()
    }

    /// Starts, runs until the task is cancelled, and shuts down: for a service group.
    public func run() async throws {
        try await start()
        // Ends by cancellation only.
        _ = await CurrentValue(()).next(after: 1)
        await shutdown()
    }

    // MARK: Accounts

    /// The accounts of the platform.
    public var accounts: ConnectedDevicesAccountManager { ConnectedDevicesAccountManager(platform: self) }

    /// Whether an account is connected to its relay, and if not, why: first as it is now, then as it changes. Ends when the account is
    /// removed or the platform shut down, and at once if there is no such account.
    public func connectionStates(for account: ConnectedDevicesAccount) -> ConnectionStates {
        ConnectionStates(link: state.withLock { $0.endpoints[account.id] }?.link)
    }

    /// What runs for an account, so that tests see it go.
    package func running(_ account: ConnectedDevicesAccount) -> AnyObject? { endpoint(of: account.id) }

    func endpoint(of accountID: String) -> LocalEndpoint? { state.withLock { $0.endpoints[accountID] } }

    // MARK: Hosting

    /// Takes commands for apps from now on, without telling other devices of them: what was published before stays so. An app calls this
    /// before `start`, so that what waits for it finds its handlers.
    public func host(_ apps: RemoteSystemAppRegistration..., for account: ConnectedDevicesAccount) {
        let endpoint = state.withLock { state -> LocalEndpoint? in
            guard let endpoint = state.endpoints[account.id] else {
                state.hosted[account.id, default: []] += apps
                return nil
            }
            return endpoint
        }
        guard let endpoint, (try? lockForHost()) != nil else { return }
        for app in apps { endpoint.loop.execute { endpoint.assumeIsolated { $0.host(app) } } }
    }

    /// Tells the account's other devices of apps, and takes commands for them from now on. Returns when the relay has all of them; they
    /// are published again by themselves on every new connection.
    /// - Throws: `PublishError`; `cancelled` if the task is cancelled, and then they are still published as soon as there is a
    ///   connection.
    public func publish(_ apps: RemoteSystemAppRegistration..., for account: ConnectedDevicesAccount) async throws(PublishError) {
        guard let endpoint = endpoint(of: account.id) else {
            throw PublishError(.notSignedIn, "the platform has no account \(account.id), or was not started")
        }
        try lockForHost()
        // All of them first: what waits for the second must not find that only the first is there.
        for app in apps { await endpoint.host(app) }
        for app in apps { await endpoint.publish(app) }
        for app in apps { try await endpoint.published(app.appID).get() }
    }

    /// Withdraws an app: other devices do not see it any more.
    /// - Throws: `PublishError`; `relayUnavailable` if the relay was not told.
    public func unpublish(appID: String, for account: ConnectedDevicesAccount) async throws(PublishError) {
        guard let endpoint = endpoint(of: account.id) else {
            throw PublishError(.notSignedIn, "the platform has no account \(account.id), or was not started")
        }
        try await endpoint.unpublish(appID).get()
    }

    private func lockForHost() throws(PublishError) {
        do {
            try state.withLock { state in
                guard state.hostLock == nil, case .started(let storage) = state.phase else { return }
                state.hostLock = try storage.lockForHost()
            }
        } catch {
            let failure = PlatformError(error)
            settings.logger.error("this process cannot host", metadata: ["code": "\(failure.code)"])
            throw PublishError(failure.code == .endpointInUse ? .endpointInUse : .storageFailed, failure.message)
        }
    }

    // MARK: Commands

    /// The commands of an account that are kept: those that have not ended, also from before this process began, and the latest that
    /// have.
    /// - Throws: `RemoteLaunchError`: `notSignedIn`, `storageFailed`.
    public func commands(for account: ConnectedDevicesAccount) async throws(RemoteLaunchError) -> [RemoteCommand] {
        guard let endpoint = endpoint(of: account.id) else { throw RemoteLaunchError(.noAccount) }
        do {
            return try await endpoint.commands()
        } catch {
            throw RemoteLaunchError(.storage(error))
        }
    }
}

/// Starts a platform, runs a closure with it, and shuts it down, however the closure ends.
nonisolated(nonsending) public func withConnectedDevicesPlatform<Result>(
    settings: ConnectedDevicesPlatformSettings,
    accessTokens: any AccessTokenProvider,
    _ body: nonisolated(nonsending) (ConnectedDevicesPlatform) async throws -> Result
) async throws -> Result {
    let platform = ConnectedDevicesPlatform(settings: settings, accessTokens: accessTokens)
    do {
        try await platform.start()
        let result = try await body(platform)
        await platform.shutdown()
        return result
    } catch {
        await platform.shutdown()
        throw error
    }
}
