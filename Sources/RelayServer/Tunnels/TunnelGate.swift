// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Identifies one connection of one side of a tunnel.
package struct EntrantID: Hashable, Sendable {
    package let rawValue: UInt64
    package init(_ rawValue: UInt64) { self.rawValue = rawValue }
}

/// The admission to tunnels, as their connections use it. Calls come from any thread.
package protocol TunnelGate: Sendable {
    /// Presents a token. If the connection is admitted, `pair` or `dismiss` is called on it later.
    func enter(_ tunnel: TunnelID, token: [UInt8], _ connection: TunnelConnection) -> EntrantID?
    /// Announces the first bytes. After that neither connection can be replaced.
    /// - Returns: whether the pairing is current; if not, a newer one follows.
    func use(_ tunnel: TunnelID, generation: Int) -> Bool
    /// The connection has closed. Called once for each admitted connection.
    func left(_ tunnel: TunnelID, _ entrant: EntrantID)
    /// The number of connections in tunnels.
    var entrantCount: Int { get }
    /// Closes all tunnels.
    func closeTunnels()
}
