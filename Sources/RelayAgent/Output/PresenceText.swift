// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Describes presence for people.
enum PresenceText {
    /// Such as `shut down 3 min ago`.
    static func reason(_ presence: Presence, now: Date = .now) -> String {
        let reason =
            switch presence.reason {
            case .connected: "connected"
            case .contested: "connected from two places, because its data was copied,"
            case .waking: "a wake was sent to it"
            case .suspended: "asleep"
            case .signedOut: "signed out"
            case .shutdown: "shut down"
            case .lost: "its connection broke"
            case .neverSeen: "it has not connected yet"
            case .relayStarting: "the relay has just started"
            case .relayUnreachable: "there is no connection to the relay"
            default: DisplayText.sanitized(presence.reason.rawValue)
            }
        let wakeable = presence.isWakeable && presence.state == .unavailable ? "; it can be woken" : ""
        guard let since = presence.since else { return reason + wakeable }
        return "\(reason) \(Age.text(since: since, now: now)) ago\(wakeable)"
    }

    /// Such as `a wake was sent to it through apns; it took 4 s to answer the last one`.
    static func wake(_ wake: CommandWake) -> String {
        let channel = wake.channel.map { " through \(DisplayText.sanitized($0))" } ?? ""
        guard let time = wake.expectedWithin else { return "a wake was sent to it\(channel)" }
        return
            "a wake was sent to it\(channel); it took \(Age.text(seconds: Int(clamping: time.components.seconds))) to answer the last one"
    }
}
