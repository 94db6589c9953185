// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
package import RelayProtocol

extension Presence {
    /// The presence of the codes that a result has.
    init(status: String, reason: String, since: Date?, expectedWithin: Double?, wakeable: Bool) {
        self.init(
            RemoteSystemStatus(rawValue: status),
            Reason(rawValue: reason),
            since: since.map { Milliseconds(clamping: Int64(($0.timeIntervalSince1970 * 1_000).rounded())) },
            expectedWithin: expectedWithin.map { Milliseconds(clamping: Int64(($0 * 1_000).rounded())) },
            isWakeable: wakeable
        )
    }
}

/// Describes presence for people: the one vocabulary for all tables and sentences. Codes are for JSON.
///
/// A device is *connected*, *not connected*, or its state is *not known*. Instead of *not connected* the text says why, if the relay knows it.
package enum PresenceText {
    /// Such as `connected for 4 h`, `asleep for 3 min, can be woken`, or `shut down 2 d ago`.
    package static func text(_ presence: Presence, now: Date = .now) -> String {
        let age = presence.since.map { Age.text(since: $0, now: now) }
        func lasting(_ words: String) -> String { words + (age.map { " for \($0)" } ?? "") }
        func since(_ words: String) -> String { words + (age.map { " \($0) ago" } ?? "") }
        let wakeable = presence.isWakeable ? ", can be woken" : ""
        switch (presence.state, presence.reason) {
        // Two copies of one home take the connection from each other.
        case (.available, .contested): return "connected from two places: it was copied"
        case (.available, .nearby): return "connected on this network"
        case (.available, _): return lasting("connected")
        case (.discoveringAvailability, .nearby): return "on this network"
        // It has never had the host role: a device that only sends.
        case (.unavailable, .neverSeen): return "does not receive"
        case (.unavailable, .waking): return lasting("being woken")
        case (.unavailable, .suspended): return lasting("asleep") + (wakeable.isEmpty ? polling(presence) : wakeable)
        case (.unavailable, .signedOut): return since("signed out")
        case (.unavailable, .shutdown): return since("shut down") + wakeable
        case (.unavailable, .lost): return since("connection lost") + wakeable
        case (.unavailable, _): return lasting("not connected") + wakeable
        case (_, .notNearby): return "not on this network"
        case (_, .relayStarting): return "not known yet: the relay has just started"
        case (_, .relayUnreachable): return "not known: the relay is not connected"
        default: return "not known"
        }
    }

    private static func polling(_ presence: Presence) -> String {
        presence.expectedWithin.map { ", connects every \(Age.text(seconds: Int(clamping: $0.components.seconds)))" } ?? ""
    }

    /// Such as `a wake was sent to it through apns; it took 4 s to answer the last one`.
    static func wake(_ wake: CommandList.WakeResult) -> String {
        let channel = wake.channel.map { " through \($0)" } ?? ""
        guard let time = wake.expectedWithin else { return "a wake was sent to it\(channel)" }
        let seconds = Duration.seconds(time).components.seconds
        return "a wake was sent to it\(channel); it took \(Age.text(seconds: Int(clamping: seconds))) to answer the last one"
    }
}
