// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation

extension Presence {
    /// Whether a launch waits until the device wakes.
    var isAsleep: Bool { state == .unavailable && (isWakeable || reason == .suspended) }

    /// Such as `Online`, `Asleep, can be woken`, or `Offline since 14:02`.
    var text: String {
        switch (state, reason) {
        case (.available, .nearby): "Online, on this network"
        case (.available, _): "Online"
        case (.discoveringAvailability, _), (.unavailable, .waking): "Waking …"
        case (.unavailable, .signedOut): "Signed out"
        case (.unavailable, .neverSeen): "Not started yet"
        case (.unavailable, _) where isWakeable: "Asleep, can be woken"
        case (.unavailable, .suspended): expectedWithin.map { "Asleep, looks in every \($0.formatted())" } ?? "Asleep until it is opened"
        case (.unavailable, .shutdown): "Switched off" + sinceText
        case (.unavailable, _): "Offline" + sinceText
        case (_, .relayStarting): "Not known yet: the relay is starting"
        case (_, .relayUnreachable): "Not known: no connection to the relay"
        case (_, .notNearby): "Not on this network"
        default: "Not known"
        }
    }

    private var sinceText: String { since.map { " since \($0.formatted(date: .omitted, time: .shortened))" } ?? "" }
}
