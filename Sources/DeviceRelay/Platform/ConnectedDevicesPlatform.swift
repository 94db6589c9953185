// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Logging
import NIOCore
package import RelayProtocol
import Synchronization

/// The entry point of the SDK: the accounts of an app, the devices of each account, the requests to them, and the apps
/// that this device hosts.
///
/// ```swift
/// let platform = ConnectedDevicesPlatform(settings: settings, accessTokens: tokens)
/// try platform.host(player, for: account)
/// try await platform.start()
/// ```
///
/// Its methods may be called from any task. It stays connected from `start` to `shutdown`. A process has one platform for
/// each storage directory, and several processes may share a directory.
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
        /// Apps that were hosted before their account's endpoint existed.
        var hosted: [String: [RemoteSystemAppRegistration]] = [:]
        var hostLock: StorageDirectory.HostLock?
    }

    package let settings: ConnectedDevicesPlatformSettings
    let accessTokens: any AccessTokenProvider
    let state = Mutex(State())
    /// The devices of each account, by the app's id of the account.
    package let directories = CurrentValue<[String: DeviceDirectory]>([:])

    /// Whether the stored accounts are opened.
    let opened = CurrentValue(false)

    /// Creates a platform. It does nothing before `start`.
    /// - Parameters:
    ///   - settings: The relay, the storage directory, and the description of this device.
    ///   - accessTokens: The source of access tokens: `JoinLinkAccessTokenProvider`, `BrowserAccessTokenProvider`, `DeviceGrantAccessTokenProvider`, or the app's own provider.
    public init(settings: ConnectedDevicesPlatformSettings, accessTokens: any AccessTokenProvider) {
        self.settings = settings
        self.accessTokens = accessTokens
    }

    // MARK: Lifecycle

    /// Opens the storage and starts to connect the stored accounts. It does not wait for the network: see
    /// `connectionStates(for:)`. A second call has no effect.
    /// - Throws: `PlatformError`: `storageFailed`, `storageTooNew`, `invalidSettings`, `endpointInUse` if an app is hosted and another
    ///   process hosts already, `shutDown`.
    public func start() async throws(PlatformError) {
        do {
            let endpoints = try state.withLock { state -> [LocalEndpoint] in
                switch state.phase {
                case .started: return []
                case .shutDown: throw PlatformError(.shutDown, "the platform was shut down; make another one")
                case .idle: break
                }
                let storage = try StorageDirectory(
                    path: settings.storageDirectory.path,
                    systemKey: settings.systemKey,
                    keys: settings.keyStorage
                )
                let hostLock = state.hosted.isEmpty ? nil : try storage.lockForHost()
                var endpoints: [String: LocalEndpoint] = [:]
                do {
                    for scope in try storage.scopes() where settings.includes(scope) {
                        let account = ConnectedDevicesAccount(id: scope.accountID)
                        endpoints[account.id] = try endpoint(for: account, storage.open(scope, now: settings.clock.wall()))
                    }
                } catch {
                    // The endpoints that were made before have published their devices.
                    directories.update { $0 = [:] }
                    throw error
                }
                // Nothing is kept of a start that failed, so that it can be repeated.
                (state.hostLock, state.endpoints, state.phase) = (hostLock, endpoints, .started(storage))
                return Array(endpoints.values)
            }
            for endpoint in endpoints { await begin(endpoint) }
            // Without accounts, watchers can finish their enumeration at once.
            if endpoints.isEmpty { directories.update { _ in } }
            opened.update { $0 = true }
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

    /// Hosts the apps of an endpoint, then connects it.
    func begin(_ endpoint: LocalEndpoint) async {
        let (apps, isSuspended) = state.withLock { (($0.hosted.removeValue(forKey: endpoint.account.id) ?? []), $0.isSuspended) }
        for app in apps { await endpoint.host(app) }
        if isSuspended { await endpoint.suspend() } else { await endpoint.start() }
    }

    /// Disconnects all accounts until `resume`, for apps that go to the background. It returns within seconds.
    ///
    /// Other devices see this one as suspended. Commands for it wait at the relay until they expire. The relay
    /// wakes it if it is registered with `notifications`; one that is registered for polling connects by itself, and is suspended again.
    /// Running command handlers continue. App service connections in both directions are closed.
    public func suspend() async {
        let endpoints = state.withLock { state in
            state.isSuspended = true
            return Array(state.endpoints.values)
        }
        await withTaskGroup { group in
            for endpoint in endpoints { group.addTask { await endpoint.suspend() } }
        }
    }

    /// Connects again after `suspend`, or after the app has resolved a problem of `connectionStates(for:)`.
    public func resume() async {
        let endpoints = state.withLock { state in
            state.isSuspended = false
            return Array(state.endpoints.values)
        }
        for endpoint in endpoints { await endpoint.resume() }
    }

    /// Reconnects at once after a change of the network, without waiting for a timeout. Call it from a network monitor (on
    /// Apple systems `NWPathMonitor`).
    public func networkChanged() async {
        for endpoint in state.withLock({ Array($0.endpoints.values) }) { await endpoint.networkChanged() }
    }

    /// Ends all connections and tasks, and closes all files. Other devices see this one as shut down. Running handlers are
    /// cancelled, and their commands end as `indeterminate`, because it is unknown how far they came.
    public func shutdown() async {
        // A cancelled task also reports to the relay and closes everything.
        await Task { await end() }.value
    }

    private func end() async {
        let endpoints = state.withLock { state in
            defer { state = State(phase: .shutDown, hostLock: state.hostLock) }
            return Array(state.endpoints.values)
        }
        await withTaskGroup { group in
            for endpoint in endpoints { group.addTask { await endpoint.shutDown(.shutdown) } }
        }
        state.withLock { $0.hostLock = nil }
        directories.finish()
        opened.finish()
    }

    // MARK: Accounts

    /// The accounts of the platform.
    public var accounts: ConnectedDevicesAccountManager { ConnectedDevicesAccountManager(platform: self) }

    /// The connection states of an account: the current one, then each change; states between two reads are skipped. Each iteration is
    /// independent. The sequence ends when the account is removed or the platform shuts down, and is empty for an unknown account.
    public func connectionStates(for account: ConnectedDevicesAccount) -> AsyncValues<ConnectionState> {
        AsyncValues(endpoint(of: account.id)?.link) { $0.state }
    }

    /// The URL of the node that serves an account, if the relay has sent this process to one of several; `nil` while not connected.
    package func node(of account: ConnectedDevicesAccount) -> String? { endpoint(of: account.id)?.link.value.node }

    /// The version of the relay's program, as it has said last, made safe to show; `nil` if it says none.
    package func relaySoftware(of account: ConnectedDevicesAccount) -> String? { endpoint(of: account.id)?.link.value.relaySoftware }

    /// The running endpoint of an account, so that tests can observe its release.
    package func running(_ account: ConnectedDevicesAccount) -> AnyObject? { endpoint(of: account.id) }

    func endpoint(of accountID: String) -> LocalEndpoint? { state.withLock { $0.endpoints[accountID] } }

    // MARK: Hosting

    /// Accepts commands for apps without publishing them: earlier publications remain as they are. Call it before `start`, so
    /// that commands that wait at the relay find their handlers. An account that is not there yet may be added later.
    /// - Throws: `PublishError`: once the platform has started, `endpointInUse` if another process hosts with the storage directory, and
    ///   `storageFailed`; before, `start` throws these. `notSignedIn` after `shutdown`.
    public func host(_ apps: RemoteSystemAppRegistration..., for account: ConnectedDevicesAccount) throws(PublishError) {
        try Self.check(apps)
        let endpoint = try withHostLock { state in
            if state.endpoints[account.id] == nil { state.hosted[account.id, default: []] += apps }
            return state.endpoints[account.id]
        }
        guard let endpoint else { return }
        for app in apps { endpoint.loop.execute { endpoint.assumeIsolated { $0.host(app) } } }
    }

    /// Publishes apps to the account's other devices, and accepts commands for them. It returns when the relay has stored all
    /// of them. Each new connection publishes them again.
    /// - Throws: `PublishError`; `cancelled` if the task is cancelled. The apps are then still published once there is a connection.
    public func publish(_ apps: RemoteSystemAppRegistration..., for account: ConnectedDevicesAccount) async throws(PublishError) {
        try Self.check(apps)
        guard let endpoint = try withHostLock({ $0.endpoints[account.id] }) else {
            throw PublishError(.notSignedIn, "the platform has no account \(account.id), or was not started")
        }
        // All apps are hosted before the first is published, because waiting commands may be for any of them.
        for app in apps { await endpoint.host(app) }
        for app in apps { await endpoint.publish(app) }
        for app in apps { try await endpoint.published(app.appID).get() }
    }

    /// Withdraws an app: other devices no longer see it.
    /// - Throws: `PublishError`; `relayUnavailable` if the relay did not confirm it.
    public func unpublish(appID: String, for account: ConnectedDevicesAccount) async throws(PublishError) {
        guard let endpoint = endpoint(of: account.id) else {
            throw PublishError(.notSignedIn, "the platform has no account \(account.id), or was not started")
        }
        try await endpoint.unpublish(appID).get()
    }

    /// The endpoint itself answers for one app id on direct sessions.
    private static func check(_ apps: [RemoteSystemAppRegistration]) throws(PublishError) {
        guard apps.contains(where: { $0.appID == Greeting.info.appID }) else { return }
        throw PublishError(.invalidRegistration, "the app id '\(Greeting.info.appID)' is reserved; choose another one")
    }

    /// Runs a closure once this process is the one that hosts. Before `start` nothing is locked: `start` does that.
    private func withHostLock<Result: Sendable>(_ body: (inout State) -> Result) throws(PublishError) -> Result {
        do {
            return try state.withLock { state in
                switch state.phase {
                case .idle: break
                case .started(let storage): if state.hostLock == nil { state.hostLock = try storage.lockForHost() }
                case .shutDown: throw PublishError(.notSignedIn, "the platform was shut down; make another one")
                }
                return body(&state)
            }
        } catch let error as PublishError {
            throw error
        } catch {
            let failure = PlatformError(error)
            throw PublishError(failure.code == .endpointInUse ? .endpointInUse : .storageFailed, failure.message)
        }
    }

    // MARK: Commands

    /// One stored command of an account; `nil` if there is none with this id, or it was deleted after its end.
    /// - Throws: `RemoteLaunchError`: `notSignedIn`, `storageFailed`.
    public func command(_ id: CommandID, for account: ConnectedDevicesAccount) async throws(RemoteLaunchError) -> RemoteCommand? {
        guard let endpoint = endpoint(of: account.id) else { throw RemoteLaunchError(.noAccount) }
        do {
            return try await endpoint.command(id)
        } catch {
            throw RemoteLaunchError(.storage(error))
        }
    }

    /// The stored commands of an account: all open ones, including those of earlier processes, and the latest finished ones.
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

/// Starts a platform, runs a closure with it, and shuts it down, also if the closure throws.
/// - Throws: The `PlatformError` of `start`, and the errors of the closure.
public func withConnectedDevicesPlatform<Result>(
    settings: ConnectedDevicesPlatformSettings,
    accessTokens: any AccessTokenProvider,
    _ body: (ConnectedDevicesPlatform) async throws -> Result
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
