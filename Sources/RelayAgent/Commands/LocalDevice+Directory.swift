// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

extension RemoteSystemFilter {
    /// The devices of the account, and those of other people that this one was paired with.
    static let everybody: [RemoteSystemFilter] = [.authorizationKind(.sameUser), .authorizationKind(.anonymous)]
}

extension LocalDevice {
    /// How long a command waits for the relay.
    static let patience = Duration.seconds(10)

    /// Waits for the first enumeration of the devices.
    /// - Throws: Why it did not arrive; at once if the problem does not resolve by itself.
    func waitForDirectory(_ patience: Duration = LocalDevice.patience) async throws {
        let isThere = try await whileWaiting {
            "waiting for the relay: \(await connectionState()?.description ?? "")"
        } _: {
            try await within(patience) { try await enumeration() }
        }
        try await check(isThere)
    }

    /// Waits until devices are known: all of them, or without the relay the stored ones, because the local network may lead to them.
    /// - Throws: As `waitForDirectory`.
    func waitForDevices(_ patience: Duration = LocalDevice.patience) async throws {
        do {
            try await waitForDevicesOfAccount(patience)
        } catch  where !Task.isCancelled {
            // A paired device needs no relay.
            guard account != .anonymous, await !platform.knownDevices(for: .anonymous).isEmpty else { throw error }
        }
    }

    private func waitForDevicesOfAccount(_ patience: Duration) async throws {
        let isThere = try await whileWaiting {
            "waiting for the relay: \(await connectionState()?.description ?? "")"
        } _: {
            try await within(patience) {
                try await withThrowingTaskGroup(of: Bool?.self) { group in
                    group.addTask { try await enumeration() }
                    group.addTask { await platform.hasDevices(for: account) ? true : nil }
                    defer { group.cancelAll() }
                    while let result = try await group.next() { if let result { return result } }
                    return nil
                }
            }
        }
        try await check(isThere)
    }

    /// Waits in the same way while a person signs in or is asked, so it shows nothing in between.
    func waitForPerson(_ patience: Duration) async throws { try await check(try await within(patience) { try await enumeration() }) }

    /// Whether a launch can leave now: to the relay, or to a device on this network.
    /// - Throws: Why the relay cannot be reached.
    func checkWay(to system: RemoteSystem) async throws {
        guard system.accountID != ConnectedDevicesAccount.anonymous.id else {
            // An agent that runs there learns a moment later that it was paired.
            var isNear = await platform.isNearby(system, for: .anonymous)
            if !isNear { isNear = await platform.isNearby(system, for: .anonymous) }
            guard isNear else {
                let name = DisplayText.sanitized(system.displayName)
                throw AgentError(
                    "remoteSystemUnavailable",
                    "'\(name)' is not on this network, and paired devices meet only there; run `relay receive` or `relay agent` on it",
                    .unreachable
                )
            }
            return
        }
        guard !platform.isEnumerated(account), let problem = await connectionState()?.problem else { return }
        guard await platform.isNearby(system, for: account) else { throw AgentError(problem) }
    }

    private func check(_ isThere: Bool?) async throws {
        guard isThere == nil else { return await hostedApps.withdrawEnded(by: self) }
        try Task.checkCancellation()
        let state = await connectionState()
        if let problem = state?.problem { throw AgentError(problem) }
        throw AgentError("relayUnreachable", "the relay did not send the list of devices in time", .unreachable)
    }

    private func enumeration() async throws -> Bool? {
        try await withThrowingTaskGroup(of: Bool?.self) { group in
            group.addTask {
                let filters: [RemoteSystemFilter] = account == .anonymous ? [.authorizationKind(.anonymous)] : []
                for await event in platform.remoteSystems(matching: filters) where event == .enumerationCompleted { return true }
                return nil
            }
            group.addTask {
                try await failure(endsWithoutRoute: true)
                return nil
            }
            defer { group.cancelAll() }
            while let result = try await group.next() { if let result { return result } }
            return nil
        }
    }

    /// Returns when the task is cancelled. Throws when the connection cannot recover without a user's action.
    /// - Parameter endsWithoutRoute: Whether to throw also when the kernel knows no way to the relay.
    func failure(endsWithoutRoute: Bool = false) async throws {
        for await state in platform.connectionStates(for: account) {
            guard let problem = state.problem else { continue }
            if state.phase == .stopped || endsWithoutRoute && problem.isWithoutRoute { throw problem }
        }
    }

    /// What to tell the user if another device of the account has the name of this one. Needs the list of devices.
    /// - Parameter newName: The name that this device has got just now, and that the list may not show yet.
    func namesake(_ newName: String? = nil) -> String? {
        guard let own = try? platform.accounts.systemID else { return nil }
        let endpoints = platform.endpoints(for: account)
        guard let name = newName ?? endpoints.first(where: \.isLocal)?.record.name else { return nil }
        let folded = Array(name.lowercased().utf8)
        guard let other = endpoints.first(where: { $0.systemID != own && folded.elementsEqual($0.record.name.lowercased().utf8) }) else {
            return nil
        }
        return
            "another device is called \(DisplayText.quoted(name)), too (\(EndpointResult(other).summary)). To rename this one, run: relay rename 'NEW NAME'"
    }

    /// The current devices.
    func devices(showsAll: Bool = false) async -> [RemoteSystem] {
        let filters = RemoteSystemFilter.everybody + (showsAll ? [.localVisibility(.showAll)] : [])
        var snapshots = platform.remoteSystems(matching: filters).snapshots.makeAsyncIterator()
        return await snapshots.next() ?? []
    }

    /// The devices of all accounts that a user's text may name.
    func devices(named text: String) -> [RemoteSystem] {
        accounts.flatMap { account in
            do throws(RemoteSystemLookupError) {
                return [try platform.remoteSystem(named: text, for: account)]
            } catch {
                if case .ambiguous(let systems) = error { return systems }
                return []
            }
        }
    }

    func notFound(_ text: String) async -> AgentError {
        if !platform.isEnumerated(account) {
            let problem = await connectionState()?.problem.map { "cannot be asked: \(AgentError($0).message)" }
            let why = problem ?? "has not sent the list of devices in time"
            return AgentError("relayUnreachable", "'\(text)' is not known here, and the relay \(why)", .unreachable)
        }
        let name = text.lowercased()
        let isThere = platform.endpoints(for: account).contains { $0.record.name.lowercased() == name }
        let why =
            isThere
            ? "'\(text)' publishes no app: run `relay agent` or `relay host` there"
            : "there is no device '\(text)': see `relay devices --all`"
        return AgentError("remoteSystemUnavailable", why, .notFound)
    }
}
