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

    /// The best presence; of equals, that of the relay.
    package var best: Presence {
        guard let nearby, nearby.isBetter(than: relay) else { return relay }
        return nearby
    }
}
