// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol
import Synchronization

/// Discovery: the person's devices as they come, change and go. Each iteration is independent, and begins with the devices of now. What
/// changes while nobody reads is told once, as it is then; so nothing piles up and nothing is left out.
public struct RemoteSystemWatcher: AsyncSequence, Sendable {
    let directories: CurrentValue<[String: DeviceDirectory]>
    let filters: [RemoteSystemFilter]
    /// Whether the platform knows its accounts.
    let isStarted: @Sendable () -> Bool

    /// All devices that pass the filters, by name: first as they are now, then after each change; until the platform is shut down. For lists
    /// on a screen.
    public var snapshots: AsyncValues<[RemoteSystem]> {
        AsyncValues(directories) { [filters] directories in
            directories.sorted { $0.key < $1.key }.flatMap { $0.value.systems(matching: filters) }
        }
    }

    /// Begins with the devices of now; ends when the platform is shut down.
    public func makeAsyncIterator() -> AsyncValues<RemoteSystemEvent>.Iterator {
        var reader = EventReader(directories: directories, filters: filters, isStarted: isStarted)
        return .init { await reader.next() }
    }
}

/// The events of one iteration.
private struct EventReader {
    let directories: CurrentValue<[String: DeviceDirectory]>
    let filters: [RemoteSystemFilter]
    let isStarted: @Sendable () -> Bool
    private var seen: UInt64 = 0
    private var current: [String: DeviceDirectory] = [:]
    private var hasToldNoAccount = false
    private var iterations: [String: DeviceDirectory.Iteration] = [:]
    private var enumerated: Set<String> = []
    private var hasToldEnumeration = false

    init(
        directories: CurrentValue<[String: DeviceDirectory]>,
        filters: [RemoteSystemFilter],
        isStarted: @escaping @Sendable () -> Bool
    ) {
        self.directories = directories
        self.filters = filters
        self.isStarted = isStarted
    }

    nonisolated(nonsending) mutating func next() async -> RemoteSystemEvent? {
        while true {
            if let event = nextEvent() { return event }
            guard let (value, revision) = await directories.next(after: seen) else { return nil }
            seen = revision
            current = value
        }
    }

    private mutating func nextEvent() -> RemoteSystemEvent? {
        if let event = nextNotice() { return event }
        for (account, directory) in current.sorted(by: { $0.key < $1.key }) {
            while let event = iterations[account, default: .init(matching: filters)].next(in: directory) {
                // Told once, when it is so of every account.
                guard event == .enumerationCompleted else { return event }
                enumerated.insert(account)
            }
        }
        guard !hasToldEnumeration, !current.isEmpty, enumerated.isSuperset(of: current.keys) else { return nil }
        hasToldEnumeration = true
        return .enumerationCompleted
    }

    /// Without an account there is nothing to find, and nothing else that would say so.
    private mutating func nextNotice() -> RemoteSystemEvent? {
        guard current.isEmpty, seen > 0, isStarted() else {
            if !current.isEmpty { hasToldNoAccount = false }
            return nil
        }
        guard !hasToldNoAccount else { return nil }
        hasToldNoAccount = true
        return .error(
            RemoteSystemWatcherError(.authenticationError, message: "there is no account; add one, and its devices are found")
        )
    }
}

extension ConnectedDevicesPlatform {
    private var isStarted: Bool {
        state.withLock { if case .started = $0.phase { true } else { false } }
    }

    /// Discovery over all accounts of the platform.
    /// - Parameter filters: Filters of different kinds must all let a device pass, of several of one kind one is enough. Without any,
    ///   all devices of the person are shown, and this app's own entry is not.
    /// - Returns: Devices as they come. While the platform has no account the watcher says so with the error `authenticationError`, and goes on
    ///   when there is one.
    public func remoteSystems(matching filters: [RemoteSystemFilter] = []) -> RemoteSystemWatcher {
        RemoteSystemWatcher(directories: directories, filters: filters) { [weak self] in self?.isStarted ?? false }
    }

    /// The device that a person means: by its id, its name in any case, or at least the first 4 characters of its id; among all devices,
    /// this one included.
    /// - Throws: `RemoteSystemLookupError`: nothing bears that name, or several do.
    public func remoteSystem(named text: String, for account: ConnectedDevicesAccount) throws(RemoteSystemLookupError) -> RemoteSystem {
        guard let directory = directories.value[account.id] else { throw .notFound }
        return try directory.system(named: text)
    }

    /// All endpoints of an account, in the order of their ids; also those that publish no app, which make no device.
    package func endpoints(for account: ConnectedDevicesAccount) -> [DeviceDirectory.Endpoint] {
        guard let directory = directories.value[account.id] else { return [] }
        return directory.endpointIDs.compactMap { directory[$0] }
    }

    /// The account's other devices that are known from before, in any order; also without the relay.
    package func knownDevices(for account: ConnectedDevicesAccount) async -> [(id: SystemID, name: String)] {
        guard let endpoint = endpoint(of: account.id) else { return [] }
        let records = await endpoint.pinnedRecords
        return Dictionary(records.map { ($0.systemID, $0.name) }) { _, last in last }.map { ($0.key, $0.value) }
    }

    /// A person says that a new or unverified endpoint is what it says it is: it is known and verified from then on, here and, by this endpoint's
    /// word, on the account's other devices. Returns when the relay has that word, or there is no connection.
    /// - Returns: Whether there is such an endpoint.
    @discardableResult
    public func confirm(_ endpoint: EndpointID, for account: ConnectedDevicesAccount) async -> Bool {
        await self.endpoint(of: account.id)?.confirm(endpoint) ?? false
    }

    /// Revokes an endpoint of the account for ever. This device refuses it from now on, with or without the relay, and its vouchers do not count
    /// any more. Once the relay has taken the revocation, the endpoint is disconnected, what waits for it ends, and its key is never let in
    /// again; the account's other devices refuse it too.
    ///
    /// When it throws, the relay has not taken it. After `networkNotAvailable` the relay is told again on each new connection, until it answers.
    /// - Throws: `AccountError`: `notFound`, `networkNotAvailable`, `serviceFailed`, `unknown`.
    public func revoke(_ endpoint: EndpointID, for account: ConnectedDevicesAccount) async throws(AccountError) {
        guard let local = self.endpoint(of: account.id) else {
            throw AccountError(.notFound, message: "the platform has no account \(account.id), or was not started")
        }
        let answer: ControlAnswer
        do {
            answer = try await local.revoke(endpoint)
        } catch {
            throw AccountError(.unknown, message: "the revocation cannot be signed: this device's key cannot be used", cause: error)
        }
        switch answer {
        case .ok, .settled: return
        case .failure(let failure) where failure.code == .notFound:
            throw AccountError(.notFound, message: "the account has no such endpoint")
        case .failure(let failure):
            throw AccountError(
                .serviceFailed,
                message:
                    "this device refuses the endpoint from now on, but the relay did not revoke it: \(DisplayText.sanitized(failure.message))"
            )
        case .connectionLost:
            throw AccountError(
                .networkNotAvailable,
                message:
                    "this device refuses the endpoint from now on, and the relay is notified on the next connection: \(local.link.value.state)"
            )
        }
    }
}
