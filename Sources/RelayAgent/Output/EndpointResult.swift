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
    /// Known only because it was there when this device joined.
    package var unverified: Bool
    package var local: Bool
    /// When the relay first saw it.
    package var joined: Date?
    /// The network address that it came from then.
    package var address: String?
    /// The endpoint whose invitation it joined by.
    package var invitedBy: String?
    /// The endpoint that invited it was revoked since.
    package var inviterRevoked: Bool?

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
        unverified = endpoint.isConfirmed && !endpoint.isVerified
        local = endpoint.isLocal
        let joining = endpoint.publicJoining
        joined = joining?.time
        address = joining?.address.map(DisplayText.sanitized)
        invitedBy = joining?.invitedBy.map { "\($0)" }
        inviterRevoked = joining?.invitedBy == nil ? nil : joining?.isInviterRevoked
    }

    /// What the relay says of how it came into the account.
    func joiningText(now: Date) -> String {
        guard let joined else { return "-" }
        let from = address.map { " from \($0)" } ?? ""
        let inviter = invitedBy.map { ", invited by \($0.prefix(8))\(inviterRevoked ?? false ? " (revoked)" : "")" } ?? ""
        return "\(Age.text(since: joined, now: now)) ago\(from)\(inviter)"
    }

    /// In one line.
    var description: String {
        "\(name)\(new ? " (new: nobody has approved it)" : ""): \(kind), \(platform), endpoint \(id), device \(device)"
    }

    /// What a person compares before deciding about it.
    var facts: [String] {
        let trust = new ? "new" : unverified ? "unverified" : "known"
        return [
            "  name      \(DisplayText.quoted(name))", "  kind      \(kind), \(platform)", "  endpoint  \(DisplayText.grouped(id))",
            "  device    \(DisplayText.grouped(device))", "  apps      \(apps.isEmpty ? "none" : apps.joined(separator: ", "))",
            "  joined    \(joiningText(now: .now))", "  now       \(status) (\(reason)), \(trust)",
        ]
    }
}
