// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// A party that knows devices of one account, and takes requests for them: an endpoint at a relay.
protocol DeviceProvider: Sendable {
    var account: ConnectedDevicesAccount { get }
    /// The devices that are known now.
    var directory: DeviceDirectory { get }
    /// Whether the directory lists all devices of the account.
    var isEnumerated: Bool { get }

    /// Waits until the directory has devices: all of the account, or the stored ones, because the relay cannot be reached now.
    /// - Throws: `noDirectory` if it has none in this time, or never will; `taskCancelled`.
    func hasDirectory(within patience: Duration) async throws(CommandFailure)

    /// Waits until the directory lists all devices of the account.
    /// - Throws: `noDirectory` if it does not in this time; `taskCancelled`.
    func enumerated(within patience: Duration) async throws(CommandFailure)

    /// Stores a command, which then proceeds independently of the caller.
    /// - Parameter key: The key of the submission. If it has a command already, that one is returned.
    func submit(
        _ body: CommandBody,
        to target: ResolvedTarget,
        life: Duration,
        senderApp: String?,
        key: SubmissionKey?
    ) async throws(CommandFailure) -> RemoteCommand

    /// The command that an earlier submission with this key has stored.
    /// - Throws: `keyReused` if that submission had another request.
    func submitted(_ key: SubmissionKey) async throws(CommandFailure) -> RemoteCommand?

    /// What a stored command carries; `nil` if it was deleted.
    func content(of id: CommandID) async throws -> CommandBody?

    func cancel(_ id: CommandID) async throws(CommandFailure)

    /// The response to a message that was handled.
    func reply(to id: CommandID, _ final: CommandFinal) async throws -> ValueSet?

    /// Opens a connection to an app service.
    func open(_ info: AppServiceInfo, on target: ResolvedTarget, from appID: String?, timeout: Duration) async throws(AppServiceError)
        -> AppServiceConnection

    /// Opens a bulk stream that a device expects.
    func openBulk(_ token: BulkToken, on target: ResolvedTarget, timeout: Duration) async throws(AppServiceError) -> BulkStream
}

extension [any DeviceProvider] {
    /// Finds the target of a request at the first provider that knows it. If none does, it waits for those that have not listed all devices.
    /// Without the relay, stored devices are found at once.
    func resolve<Target: Sendable>(
        within patience: Duration,
        _ find: (DeviceDirectory) throws(TargetError) -> Target
    ) async throws(CommandFailure) -> (any DeviceProvider, Target) {
        guard !isEmpty else { throw .noAccount }
        var failure: TargetError?
        func target(at provider: any DeviceProvider) -> Target? {
            do throws(TargetError) {
                return try find(provider.directory)
            } catch {
                // The most specific error: another account may not know the device at all.
                if failure == nil || failure == .remoteSystemUnavailable { failure = error }
                return nil
            }
        }
        for provider in self {
            if let target = target(at: provider) { return (provider, target) }
        }
        let end = ContinuousClock.now + patience
        for provider in self where !provider.isEnumerated {
            try await provider.hasDirectory(within: ContinuousClock.now.duration(to: end))
            if let target = target(at: provider) { return (provider, target) }
            try await provider.enumerated(within: ContinuousClock.now.duration(to: end))
            if let target = target(at: provider) { return (provider, target) }
        }
        throw .target(failure ?? .remoteSystemUnavailable)
    }
}

extension ConnectedDevicesPlatform {
    /// The command that an earlier submission with this key has stored for an account of the request.
    func submitted(_ key: SubmissionKey?, on request: RemoteSystemConnectionRequest) async throws(CommandFailure) -> RemoteCommand? {
        guard let key else { return nil }
        for provider in providers(of: request) {
            if let command = try await provider.submitted(key) { return command }
        }
        return nil
    }

    /// The providers of the account that a request names, or of all accounts; that of the anonymous one last.
    private func providers(of request: RemoteSystemConnectionRequest) -> [any DeviceProvider] {
        state.withLock { state in
            state.endpoints.values.filter { request.accountID == nil || request.accountID == $0.account.id }
        }.sorted { ($0.account == .anonymous ? 1 : 0, $0.account.id) < ($1.account == .anonymous ? 1 : 0, $1.account.id) }
    }

    /// Resolves a request at the account that it names, or if it names none, at any account that knows the target. If the relay has not
    /// listed the devices yet, it waits for that.
    func resolve<Target: Sendable>(
        _ request: RemoteSystemConnectionRequest,
        within patience: Duration,
        _ find: (DeviceDirectory) throws(TargetError) -> Target
    ) async throws(CommandFailure) -> (any DeviceProvider, Target) {
        try await providers(of: request).resolve(within: patience, find)
    }
}

extension ConnectedDevicesPlatform {
    /// Waits until devices of an account are known: all, or the stored ones if the relay cannot be asked, or is slow and a known device is on
    /// this network.
    /// - Returns: Whether there are any. While the relay is slow and no device is seen, it waits until it is cancelled.
    package func hasDevices(for account: ConnectedDevicesAccount) async -> Bool {
        guard settings.nearby.mode != .off, let endpoint = endpoint(of: account.id) else { return false }
        // A neighbour may be faster than a relay that works, and knows one device only.
        let known = await endpoint.link.first(within: Self.relayPatience) { $0.isEnumerated || $0.state.problem != nil }
        guard known == nil else { return !endpoint.directory.endpointIDs.isEmpty }
        let isReady = await endpoint.link.first { $0.isEnumerated || $0.state.problem != nil || $0.hasNeighbours }
        guard isReady != nil else { return false }
        if !endpoint.isEnumerated { await endpoint.showStored() }
        return true
    }

    /// How long devices on this network wait for the relay's list.
    private static let relayPatience = Duration.seconds(2)

    /// Whether the directory of an account is what the relay has listed, and the relay is not lost since. It is true as soon as a watcher sees
    /// the whole directory.
    package func isEnumerated(_ account: ConnectedDevicesAccount) -> Bool {
        guard let endpoint = endpoint(of: account.id) else { return false }
        return endpoint.directory.isEnumerated && endpoint.link.value.state.problem == nil
    }
}

extension ConnectedDevicesPlatform {
    /// Looks for an account's devices on this network for a moment.
    package func searchNearby(for account: ConnectedDevicesAccount) async { await endpoint(of: account.id)?.searchNearby() }

    /// Connects to an account's devices on this network, so that it is known what they take now.
    package func greetNearby(for account: ConnectedDevicesAccount) async { await endpoint(of: account.id)?.greetNearby() }

    /// Whether a device is on this network. It looks for some seconds.
    package func isNearby(_ system: RemoteSystem, for account: ConnectedDevicesAccount) async -> Bool {
        let endpoints = endpoints(for: account).filter { RemoteSystem.ID($0.record.systemID) == system.id }.map(\.record.endpointID)
        return await endpoint(of: account.id)?.isNearby(Set(endpoints)) ?? false
    }

    /// What an account's endpoint sees on this network; `nil` if it is not used.
    package func nearbyView(for account: ConnectedDevicesAccount) async -> NearbyView? { await endpoint(of: account.id)?.lookAround() }
}

extension LocalEndpoint: DeviceProvider {
    nonisolated var directory: DeviceDirectory { directories.value[account.id] ?? DeviceDirectory(account: account.id) }
    nonisolated var isEnumerated: Bool { link.value.isEnumerated }

    nonisolated func hasDirectory(within patience: Duration) async throws(CommandFailure) {
        let link = await link.first(within: patience) { $0.isEnumerated || $0.state.problem != nil || $0.hasNeighbours }
        if Task.isCancelled { throw .taskCancelled }
        guard let link, link.isEnumerated || !link.isStopped else { throw .noDirectory(self.link.value.state) }
    }

    nonisolated func enumerated(within patience: Duration) async throws(CommandFailure) {
        let link = await link.first(within: patience) { $0.isEnumerated || $0.isStopped }
        if Task.isCancelled { throw .taskCancelled }
        guard let link, link.isEnumerated else { throw .noDirectory(self.link.value.state) }
    }
}

extension LocalEndpoint.Link {
    /// Whether the connection cannot recover without the app.
    fileprivate var isStopped: Bool { state.phase == .stopped && state.problem != nil }
}
