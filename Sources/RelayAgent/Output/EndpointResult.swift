// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
package import Foundation
import RelayProtocol

/// An endpoint, as it is printed, including one that publishes no app.
package struct EndpointResult: Codable, Sendable {
    package var id: String
    package var device: String
    /// The fingerprint words.
    package var words: String
    package var name: String
    package var kind: String
    package var platform: String
    package var apps: [String]
    package var status: String
    package var reason: String
    package var since: Date?
    /// When it connects next by itself, in seconds after `since`.
    package var expectedWithin: Double?
    /// Whether it sleeps and the relay can wake it.
    package var wakeable: Bool
    package var new: Bool
    /// Whether the endpoint is known only because it was listed when this device joined.
    package var unverified: Bool
    package var local: Bool
    /// When the relay first saw it.
    package var joined: Date?
    /// The network address of its first connection.
    package var address: String?
    /// The endpoint whose invitation it used.
    package var invitedBy: String?
    /// Whether the inviter has been revoked since.
    package var inviterRevoked: Bool?
    /// What the codes mean, for the words.
    var presence: Presence { Presence(status: status, reason: reason, since: since, expectedWithin: expectedWithin, wakeable: wakeable) }

    init(_ endpoint: DeviceDirectory.Endpoint) {
        id = "\(endpoint.id)"
        device = "\(endpoint.systemID)"
        words = "\(endpoint.fingerprint)"
        name = DisplayText.sanitized(endpoint.record.name)
        kind = DisplayText.sanitized(endpoint.record.kind)
        platform = DisplayText.sanitized(endpoint.record.platform)
        apps = endpoint.registrations.map { DisplayText.sanitized($0.appID) }.sorted()
        let presence = endpoint.presence
        status = presence.state.rawValue
        reason = DisplayText.sanitized(presence.reason.rawValue)
        since = presence.since
        expectedWithin = presence.expectedWithin.map { $0 / .seconds(1) }
        wakeable = presence.isWakeable
        new = endpoint.trust == .new && !endpoint.isLocal
        unverified = endpoint.isConfirmed && !endpoint.isVerified
        local = endpoint.isLocal
        let joining = endpoint.publicJoining
        joined = joining?.time
        address = joining?.address.map(DisplayText.sanitized)
        invitedBy = joining?.invitedBy.map { "\($0)" }
        inviterRevoked = joining?.invitedBy == nil ? nil : joining?.isInviterRevoked
    }

    /// An endpoint that this device knows, while the relay cannot be asked.
    init(_ known: KnownEndpoint) {
        let record = known.record
        id = "\(record.endpointID)"
        device = "\(record.systemID)"
        words = "\(FingerprintWords(endpoint: record.endpointID, system: record.systemID))"
        name = DisplayText.sanitized(record.name)
        kind = DisplayText.sanitized(record.kind)
        platform = DisplayText.sanitized(record.platform)
        apps = []
        status = RemoteSystemStatus.unknown.rawValue
        reason = Presence.Reason.relayUnreachable.rawValue
        wakeable = false
        (new, unverified, local) = (false, !known.isVerified, false)
    }

    /// The relay's account of how the endpoint joined.
    func joiningText(now: Date) -> String {
        guard let joined else { return "-" }
        let from = address.map { " from \($0)" } ?? ""
        let inviter = invitedBy.map { ", invited by \($0.prefix(8))\(inviterRevoked ?? false ? " (revoked)" : "")" } ?? ""
        return "\(Age.text(since: joined, now: now)) ago\(from)\(inviter)"
    }

    /// The endpoint on one line.
    var description: String {
        "\(name)\(new ? " (new: not approved)" : ""): \(kind), \(platform), endpoint \(id), device \(device)"
    }

    /// The endpoint on one line, with what tells it apart from another one of the same name.
    var summary: String {
        "\(description), \(joined == nil ? "" : "joined \(joiningText(now: .now)), ")\(PresenceText.phrase(presence))"
    }

    /// The facts that a user compares before a decision.
    var facts: [String] {
        let trust = new ? "new" : unverified ? "unverified" : "known"
        return [
            "  name      \(DisplayText.quoted(name))", "  kind      \(kind), \(platform)", "  endpoint  \(DisplayText.grouped(id))",
            "  device    \(DisplayText.grouped(device))", "  words     \(words)",
            "  apps      \(apps.isEmpty ? "none" : apps.joined(separator: ", "))",
            "  joined    \(joiningText(now: .now))", "  now       \(PresenceText.phrase(presence)); \(trust)",
        ]
    }
}
