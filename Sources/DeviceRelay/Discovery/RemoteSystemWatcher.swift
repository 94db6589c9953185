// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol
import Synchronization

/// Discovery: a sequence of events about the account's devices. Each iteration is independent, and starts with the current devices. Changes
/// between two reads are merged into one event with the latest values, so events neither pile up nor get lost.
public struct RemoteSystemWatcher: AsyncSequence, Sendable {
    let directories: CurrentValue<[String: DeviceDirectory]>
    let filters: [RemoteSystemFilter]
    /// Whether the platform has started, and so knows its accounts.
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
    private var hasReportedNoAccount = false
    private var iterations: [String: DeviceDirectory.Iteration] = [:]
    private var enumerated: Set<String> = []
    private var hasReportedEnumeration = false

    init(
        directories: CurrentValue<[String: DeviceDirectory]>,
        filters: [RemoteSystemFilter],
        isStarted: @escaping @Sendable () -> Bool
    ) {
        self.directories = directories
        self.filters = filters
        self.isStarted = isStarted
    }

    mutating func next() async -> RemoteSystemEvent? {
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
                // Reported once, when it holds for every account.
                guard event == .enumerationCompleted else { return event }
                enumerated.insert(account)
            }
        }
        guard !hasReportedEnumeration, !counted.isEmpty, enumerated.isSuperset(of: counted) else { return nil }
        hasReportedEnumeration = true
        return .enumerationCompleted
    }

    /// The accounts whose devices may pass. The anonymous one is complete from the start.
    private var counted: Set<String> {
        Set(current.keys).filter { $0 != AnonymousAccount.id || filters.contains(.authorizationKind(.anonymous)) }
    }

    /// The error that reports that the platform has no account.
    private mutating func nextNotice() -> RemoteSystemEvent? {
        guard counted.isEmpty, seen > 0, isStarted() else {
            if !counted.isEmpty { hasReportedNoAccount = false }
            return nil
        }
        guard !hasReportedNoAccount else { return nil }
        hasReportedNoAccount = true
        return .error(
            RemoteSystemWatcherError(.authenticationError, message: "there is no account; add one, and its devices are found")
        )
    }
}

extension ConnectedDevicesPlatform {
    private var isStarted: Bool {
        state.withLock { if case .started = $0.phase { true } else { false } }
    }

    /// Discovers devices in all accounts of the platform.
    /// - Parameter filters: A device must pass at least one filter of each kind that is given. Without filters, all devices of the account
    ///   pass, except this app's own entry.
    /// - Returns: A sequence of events. If the platform has no account, the sequence reports the error `authenticationError`, and continues
    ///   when an account is added.
    public func remoteSystems(matching filters: [RemoteSystemFilter] = []) -> RemoteSystemWatcher {
        RemoteSystemWatcher(directories: directories, filters: filters) { [weak self] in self?.isStarted ?? false }
    }

    /// The device that a person means: by its id, its name in any case, or at least the first 4 characters of its id; among all devices,
    /// this one included.
    /// - Throws: `RemoteSystemLookupError`: `notFound`, or `ambiguous` with the matching devices.
    public func remoteSystem(named text: String, for account: ConnectedDevicesAccount) throws(RemoteSystemLookupError) -> RemoteSystem {
        guard let directory = directories.value[account.id] else { throw .notFound }
        return try directory.system(named: text)
    }

    /// All endpoints of an account, sorted by id, including those that publish no app and therefore form no device.
    package func endpoints(for account: ConnectedDevicesAccount) -> [DeviceDirectory.Endpoint] {
        directories.value[account.id]?.sortedEndpoints ?? []
    }

    /// The account's other devices that this endpoint knows, in any order. It works without a connection.
    package func knownDevices(for account: ConnectedDevicesAccount) async -> [(id: RemoteSystem.ID, name: String)] {
        guard let endpoint = endpoint(of: account.id) else { return [] }
        let records = await endpoint.knownRecords
        return Dictionary(records.map { (RemoteSystem.ID($0.systemID), $0.name) }) { _, last in last }.map { ($0.key, $0.value) }
    }

    /// The account's other endpoints that this one knows, sorted by id. It works without a connection.
    package func knownEndpoints(for account: ConnectedDevicesAccount) async -> [KnownEndpoint] {
        guard let endpoint = endpoint(of: account.id) else { return [] }
        return await endpoint.knownEndpoints.sorted { $0.record.endpointID < $1.record.endpointID }
    }

    /// The endpoints of an account as the relay lists them, and again after each change.
    package func endpointChanges(for account: ConnectedDevicesAccount) -> AsyncValues<[DeviceDirectory.Endpoint]> {
        AsyncValues(directories) { directories in
            guard let directory = directories[account.id], directory.isComplete else { return nil }
            return directory.endpointIDs.compactMap { directory[$0] }
        }
    }

    /// Confirms a new or unverified endpoint for a person. From then on the endpoint is known and verified here and, by this endpoint's
    /// voucher, on the account's other devices. Returns when the relay has the voucher, or there is no connection.
    /// - Returns: Whether the endpoint exists.
    @discardableResult
    public func confirm(_ endpoint: EndpointID, for account: ConnectedDevicesAccount) async -> Bool {
        await confirm(endpoint, on: nil, for: account)
    }

    /// As `confirm(_:for:)`, for an endpoint that a person saw.
    /// - Parameter system: The device that the endpoint must still be on; `nil` for any.
    package func confirm(_ endpoint: EndpointID, on system: RemoteSystem.ID?, for account: ConnectedDevicesAccount) async -> Bool {
        await self.endpoint(of: account.id)?.confirm(endpoint, on: system) ?? false
    }

    /// Revokes an endpoint of the account permanently. This device rejects the endpoint from now on, even without a connection to the
    /// relay, and the endpoint's vouchers no longer count. Once the relay has accepted the revocation, it disconnects the endpoint, ends
    /// all commands for it, and never admits its key again. The account's other devices reject the endpoint too.
    ///
    /// If this throws, the relay has not accepted the revocation. After `networkNotAvailable` the revocation is sent again on each new
    /// connection until the relay answers.
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
