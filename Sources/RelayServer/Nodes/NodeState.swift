// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A node of a relay, as its row says.
package struct NodeState: Codable, Hashable, Sendable {
    package enum Phase: String, Codable, Sendable {
        /// - suspended: it takes no accounts now; its `/readyz` says why.
        case serving, suspended, draining, dead
    }

    /// Of this start.
    package var id: String
    package var number: Int
    /// Where endpoints reach it; missing if it says nothing.
    package var url: String?
    package var version: String
    /// Milliseconds since 1970.
    package var started: Int64
    package var phase: Phase
    /// How many accounts it serves.
    package var accounts: Int

    package init(id: String, number: Int, url: String?, version: String, started: Int64, phase: Phase, accounts: Int) {
        (self.id, self.number, self.url, self.version, self.started) = (id, number, url, version, started)
        (self.phase, self.accounts) = (phase, accounts)
    }
}
