// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The presence of an endpoint on each path to it. People see the best one.
package struct PathPresences: Hashable, Sendable {
    /// A kind of path to an endpoint.
    package enum Path: Hashable, Sendable {
        case relay
        /// The local network.
        case nearby
    }

    private var relay: Presence
    private var nearby: Presence?

    package init(relay: Presence) { self.relay = relay }

    /// The presence on one path; `nil` if nothing is known there. The relay always states one.
    package subscript(path: Path) -> Presence? {
        get {
            switch path {
            case .relay: relay
            case .nearby: nearby
            }
        }
        set {
            switch path {
            case .relay: if let newValue { relay = newValue }
            case .nearby: nearby = newValue
            }
        }
    }

    /// The best presence; of equals, that of the relay. A device that was killed says no goodbye on its network, and the relay notices its end
    /// at once. So the relay's word that a device is not connected counts.
    package var best: Presence {
        guard let nearby, relay.state != .unavailable, nearby.isBetter(than: relay) else { return relay }
        return nearby
    }
}
