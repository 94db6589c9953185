// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
import RelayProtocol

/// A device, as it is printed. Texts that other devices chose are sanitized here.
package struct DeviceResult: Codable, Sendable {
    package struct App: Codable, Sendable {
        package var id: String
        package var name: String
        package var endpoint: String
        package var status: String
        package var reason: String
        package var schemes: [String]
        package var services: [String]
        package var identity: String?
        package var allowedApps: [String]
        package var attributes: [String: String]
        package var new: Bool
        package var unverified: Bool
    }

    package var id: String
    package var name: String
    package var kind: String
    package var platform: String
    package var manufacturer: String?
    package var model: String?
    package var status: String
    package var reason: String
    package var since: Date?
    package var expectedWithin: Double?
    /// Whether it sleeps and the relay can wake it.
    package var wakeable: Bool
    package var apps: [App]
    package var new: Bool
    /// Whether the device is known only because it was listed when this device joined.
    package var unverified: Bool
    package var local: Bool
    /// Whether it is another person's, and was paired with this one.
    package var paired: Bool
    /// What the codes mean, for the words.
    var presence: Presence { Presence(status: status, reason: reason, since: since, expectedWithin: expectedWithin, wakeable: wakeable) }

    init(_ system: RemoteSystem) {
        id = "\(system.id)"
        name = DisplayText.sanitized(system.displayName)
        kind = DisplayText.sanitized(system.kind.rawValue)
        platform = DisplayText.sanitized(system.platform.rawValue)
        manufacturer = system.manufacturer.map(DisplayText.sanitized)
        model = system.model.map(DisplayText.sanitized)
        status = system.presence.state.rawValue
        reason = DisplayText.sanitized(system.presence.reason.rawValue)
        since = system.presence.since
        expectedWithin = system.presence.expectedWithin.map { $0 / .seconds(1) }
        wakeable = system.presence.isWakeable
        apps = system.apps.map(App.init)
        new = system.isNew
        unverified = !system.isNew && !system.isVerified
        local = system.isLocal
        paired = system.authorizationKind == .anonymous
    }

    static func addTitles() -> Table { Table("NAME", "KIND", "STATUS", "APPS", "ID") }

    func add(to table: inout Table, now: Date) {
        table.add(
            .init(
                name: name,
                note: (local ? " (this device)" : paired ? " (paired)" : "") + Self.mark(new: new, unverified: unverified),
                new ? .attention : .strong
            ),
            .init(kind),
            .init(PresenceText.text(presence, now: now), presence.state == .available ? .good : .faint),
            .init(name: apps.isEmpty ? "-" : Array(Set(apps.map(\.title))).sorted().joined(separator: ", ")),
            .init(name: String(id.prefix(8)))
        )
    }

    static func mark(new: Bool, unverified: Bool) -> String { new ? " (new)" : unverified ? " (unverified)" : "" }
}

extension DeviceResult.App {
    /// The name, and in brackets the identity whose apps may use it.
    fileprivate var title: String { (name.isEmpty ? id : name) + (identity.map { " [\($0)]" } ?? "") }

    fileprivate init(_ app: RemoteSystemApp) {
        id = DisplayText.sanitized(app.appID)
        name = DisplayText.sanitized(app.displayName)
        endpoint = "\(app.endpoint)"
        status = app.presence.state.rawValue
        reason = DisplayText.sanitized(app.presence.reason.rawValue)
        schemes = app.schemes.map(DisplayText.sanitized)
        services = app.appServices.map { DisplayText.sanitized($0.name) }
        identity = app.identity.map(DisplayText.sanitized)
        allowedApps = app.allowedApps.map(DisplayText.sanitized)
        attributes = Dictionary(
            app.attributes.map { (DisplayText.sanitized($0.key), DisplayText.sanitized($0.value)) },
            uniquingKeysWith: { first, _ in first }
        )
        new = app.isNew
        unverified = !app.isNew && !app.isVerified
    }
}
