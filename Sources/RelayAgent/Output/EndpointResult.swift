// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

#if canImport(FoundationEssentials)
package import FoundationEssentials
#else
package import Foundation
#endif

/// One installation on a device, as it is printed; also one that publishes no app.
package struct EndpointResult: Encodable, Sendable {
    package var id: String
    package var device: String
    package var name: String
    package var kind: String
    package var platform: String
    package var apps: [String]
    package var status: String
    package var reason: String
    package var since: Date?
    package var new: Bool
    package var local: Bool

    init(_ endpoint: DeviceDirectory.Endpoint) {
        id = "\(endpoint.id)"
        device = "\(endpoint.systemID)"
        name = DisplayText.sanitized(endpoint.record.name)
        kind = DisplayText.sanitized(endpoint.record.kind)
        platform = DisplayText.sanitized(endpoint.record.platform)
        apps = endpoint.registrations.map { DisplayText.sanitized($0.appID) }.sorted()
        status = endpoint.presence.state.rawValue
        reason = DisplayText.sanitized(endpoint.presence.reason.rawValue)
        since = endpoint.presence.since
        new = endpoint.trust == .new && !endpoint.isLocal
        local = endpoint.isLocal
    }

    /// In one line.
    var description: String {
        "\(name)\(new ? " (new: nobody has approved it)" : ""): \(kind), \(platform), endpoint \(id), device \(device)"
    }

    /// What a person compares before deciding about it.
    var facts: [String] {
        [
            "  name      \(DisplayText.quoted(name))", "  kind      \(kind), \(platform)", "  endpoint  \(DisplayText.grouped(id))",
            "  device    \(DisplayText.grouped(device))", "  apps      \(apps.isEmpty ? "none" : apps.joined(separator: ", "))",
            "  now       \(status) (\(reason))\(new ? ", new" : ", known")",
        ]
    }
}
