// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

extension LocalDevice {
    /// Opens a connection to an app. Without one, nothing was handled, and the error says what is known of the device.
    func reaching<Connection>(
        _ app: RemoteSystemApp,
        _ open: () async throws(AppServiceError) -> Connection
    ) async throws(AppServiceError) -> Connection {
        try checkIsNotOff(app)
        do throws(AppServiceError) {
            return try await open()
        } catch {
            guard error.code == .timedOut else { throw error }
            throw AppServiceError(.remoteSystemUnavailable, message: notReached(app), cause: error)
        }
    }

    /// - Throws: `remoteSystemUnavailable` for a device to which no wait leads.
    func checkIsNotOff(_ app: RemoteSystemApp) throws(AppServiceError) {
        guard presence(of: app).isOff else { return }
        throw AppServiceError(.remoteSystemUnavailable, message: notReached(app))
    }

    /// Why there is no connection to an app, by what is known of its device now.
    func notReached(_ app: RemoteSystemApp) -> String {
        let (name, presence) = (name(of: app), presence(of: app))
        guard presence.state == .unavailable else { return "'\(name)' did not answer in time; try again" }
        return PresenceText.notConnected(name, presence)
    }

    /// The present one. That of the app is as old as its value.
    func presence(of app: RemoteSystemApp) -> Presence { endpoint(of: app)?.presence ?? app.presence }

    private func name(of app: RemoteSystemApp) -> String {
        DisplayText.sanitized(endpoint(of: app)?.record.name ?? app.displayName)
    }

    private func endpoint(of app: RemoteSystemApp) -> DeviceDirectory.Endpoint? { endpoints.first { $0.id == app.endpoint } }
}

extension Presence {
    /// Whether the device has said that it goes, and nothing wakes it: no wait brings it back.
    var isOff: Bool { state == .unavailable && !isWakeable && (reason == .shutdown || reason == .signedOut) }
}
