// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// A device as the list shows it.
struct DeviceRow: Identifiable, Hashable, Sendable {
    let system: RemoteSystem

    var id: RemoteSystem.ID { system.id }
    var name: String { system.displayName }
    /// Kind, manufacturer and model, as far as they are known.
    var detail: String {
        [system.kind.rawValue, system.manufacturer, system.model].compactMap { $0 }.map(ShownText.clean).joined(separator: " · ")
    }
    var presence: String { system.presence.text }
    var isAsleep: Bool { system.presence.isAsleep }
    /// A name is no proof: of two devices with one name only the id tells which is which.
    var label: String { system.id.label }
    var trust: String? { system.isNew ? "New: not approved" : system.isVerified ? nil : "Not verified" }
    /// The targets on the device: the device itself, which chooses the app by the URI, then each of its apps.
    var targets: [LaunchTarget] { [LaunchTarget(system, app: nil)] + system.apps.map { LaunchTarget(system, app: $0) } }

    /// For VoiceOver.
    var spoken: String { ([name, detail, presence] + [trust].compactMap { $0 }).joined(separator: ", ") }
}

/// A device, or one app on it.
struct LaunchTarget: Identifiable, Hashable, Sendable {
    let system: RemoteSystem
    let app: RemoteSystemApp?

    init(_ system: RemoteSystem, app: RemoteSystemApp?) { (self.system, self.app) = (system, app) }

    var id: String { "\(system.id)/\(app.map { "\($0.endpoint)/\($0.appID)" } ?? "")" }
    var deviceName: String { system.displayName }
    var name: String {
        guard let app else { return "Any app that opens the address" }
        return app.displayName.isEmpty ? app.appID : app.displayName
    }
    /// The URI schemes that the app declares.
    var detail: String {
        guard let app else { return "The address decides" }
        return app.schemes.isEmpty ? "Opens no addresses" : "Opens \(app.schemes.joined(separator: ", "))"
    }
    /// Whether the app has the services of this sample.
    var hasServices: Bool { app?.appServices.contains(SampleApp.pingService) ?? false }
    var request: RemoteSystemConnectionRequest { app.map { RemoteSystemConnectionRequest($0) } ?? RemoteSystemConnectionRequest(system) }
}
