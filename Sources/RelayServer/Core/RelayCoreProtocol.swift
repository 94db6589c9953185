// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The relay's core, as the control channels use it.
package protocol RelayCoreProtocol: TunnelGate {
    /// Connects an endpoint that has proved its identity. Calls back once, from any thread.
    func connect(
        _ hello: ProvedHello,
        peer: any ControlPeer,
        completion: @escaping @Sendable (Result<AcceptedChannel, RelayMessage.Rejected>) -> Void
    )
    /// Whether an endpoint was revoked. Calls back once, from any thread.
    func isRevoked(_ endpoint: EndpointID, completion: @escaping @Sendable (Bool) -> Void)
    /// Handles a message on a connected channel. Messages arrive in order; answers and events go through the peer.
    /// - Returns: whether the peer may pass the next message. If not, it waits until it is resumed: too much work of the endpoint is
    ///   pending.
    func receive(_ message: EndpointMessage, on channel: ChannelID) -> Bool
    /// Gives the account of a channel one more identity, which its endpoint has proved. The answer goes through the peer.
    func link(_ identity: Identity, ref: RequestRef, on channel: ChannelID)
    /// The channel was closed or timed out. Called once for every connected channel.
    func disconnected(_ channel: ChannelID, isSilent: Bool)
    /// Called after each `untilDue`.
    func handleDeadlines()
    /// Waits until something may be due: a second at least, a minute at most.
    func untilDue() async throws
    /// Called before the first connection.
    /// - Parameter tunnelPorts: the ports for plain tunnel connections.
    func start(tunnelPorts: [Int]) async throws
    /// Sends `restarting` on all channels. The transport then closes them.
    func stop() async
}
