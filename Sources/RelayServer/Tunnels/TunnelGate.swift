// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// One connection of one side of a tunnel, while it is in it.
package struct EntrantID: Hashable, Sendable {
    package let rawValue: UInt64
    package init(_ rawValue: UInt64) { self.rawValue = rawValue }
}

/// The way into tunnels, as their connections see it. Calls come from any thread.
package protocol TunnelGate: Sendable {
    /// A connection shows a token. If it is let in, it is told by `pair` or `dismiss` what becomes of it.
    func enter(_ tunnel: TunnelID, token: [UInt8], _ connection: TunnelConnection) -> EntrantID?
    /// Bytes are about to pass. From then on neither connection is replaced.
    /// - Returns: whether the pairing still holds; if not, a newer one is on its way.
    func use(_ tunnel: TunnelID, generation: Int) -> Bool
    /// A connection is closed. Comes once for every one that was let in.
    func left(_ tunnel: TunnelID, _ entrant: EntrantID)
    /// How many connections are in tunnels.
    var entrantCount: Int { get }
    /// Closes what is open.
    func closeTunnels()
}
