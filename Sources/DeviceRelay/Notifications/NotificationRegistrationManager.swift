// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// The registrations of a platform for notifications, one for each account.
public struct NotificationRegistrationManager: Sendable {
    let platform: ConnectedDevicesPlatform

    /// Registers how this device is woken for an account. It replaces the earlier registration, is stored, and is repeated on each
    /// connection, also in later processes. Call it at each start with the current token, and whenever the token changes.
    /// - Parameters:
    ///   - registration: The token and the app.
    ///   - account: An account of the platform.
    /// - Throws: `NotificationRegistrationError`. With `relayUnavailable` and `notHosting` the registration is stored all the same.
    public func register(
        _ registration: NotificationRegistration,
        for account: ConnectedDevicesAccount
    ) async throws(NotificationRegistrationError) {
        guard let endpoint = platform.endpoint(of: account.id) else {
            throw NotificationRegistrationError(.accountNotFound, "the platform has no account \(account.id), or was not started")
        }
        try await endpoint.register(try StoredNotification(registration))
    }

    /// The registration of an account, with its token; `nil` if nothing was registered.
    public func registration(for account: ConnectedDevicesAccount) -> NotificationRegistration? {
        platform.endpoint(of: account.id)?.notifications.value.registration?.registration
    }

    /// Whether the relay can wake this device, as far as this process knows: the relay states it on each connection.
    public func state(for account: ConnectedDevicesAccount) -> NotificationRegistrationState {
        platform.endpoint(of: account.id)?.notifications.value.state ?? .unregistered
    }

    /// The states of an account's registration: the current one, then each change. The sequence ends when the account is removed or the
    /// platform shuts down, and is empty for an unknown account.
    public func stateChanges(for account: ConnectedDevicesAccount) -> AsyncValues<NotificationRegistrationState> {
        AsyncValues(platform.endpoint(of: account.id)?.notifications) { $0.state }
    }
}

extension ConnectedDevicesPlatform {
    /// The registrations for notifications, by which a sleeping device is woken.
    public var notifications: NotificationRegistrationManager { NotificationRegistrationManager(platform: self) }

    /// Handles a notification: connects the account that it is for, fetches the commands that wait at the relay, passes them to their
    /// handlers, and reports the results. A suspended platform is suspended again afterwards.
    ///
    /// It may be called at any time, also several times at once, and before `start`, for which it then waits. Host the apps before:
    /// a command for an app that is not hosted ends as unsupported.
    /// - Parameters:
    ///   - notification: What the push service delivered.
    ///   - limit: The time after which it returns in any case; default 25 s. Systems give an app in the background about 30 seconds.
    /// - Returns: Whether nothing waits any more: all commands were handled, and the relay has their results. `false` also if no account
    ///   of this platform is meant, so that an app can report "no data".
    @discardableResult
    public func process(_ notification: ConnectedDevicesNotification, within limit: Duration = .seconds(25)) async -> Bool {
        await fetch(within: limit) { $0.id == notification.endpoint && $0.storage.scope.relay == notification.relay }
    }

    /// Fetches what waits for all accounts now, as `process` does, without a notification.
    /// - Parameter limit: The time after which it returns in any case; default 25 s.
    /// - Returns: Whether nothing waits any more for any account.
    @discardableResult
    public func poll(within limit: Duration = .seconds(25)) async -> Bool { await fetch(within: limit) { _ in true } }

    private func fetch(within limit: Duration, _ isMeant: (LocalEndpoint) -> Bool) async -> Bool {
        let end = ContinuousClock.now + limit
        guard await opened.first(within: limit, where: { $0 }) == true else { return false }
        let endpoints = state.withLock { Array($0.endpoints.values) }.filter(isMeant)
        let results = await withTaskGroup(of: Bool.self) { group in
            for endpoint in endpoints { group.addTask { await endpoint.fetch(until: end) } }
            return await group.reduce(into: [Bool]()) { $0.append($1) }
        }
        return !results.isEmpty && results.allSatisfy { $0 }
    }
}
