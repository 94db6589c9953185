// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The relay's core, as the control channels see it.
package protocol RelayCoreProtocol: TunnelGate {
    /// Takes an endpoint that has proved who it is. Calls back once, from any thread.
    func connect(
        _ hello: ProvedHello,
        peer: any ControlPeer,
        completion: @escaping @Sendable (Result<ChannelID, RelayMessage.Rejected>) -> Void
    )
    /// Whether an endpoint was revoked. Calls back once, from any thread.
    func isRevoked(_ endpoint: EndpointID, completion: @escaping @Sendable (Bool) -> Void)
    /// A message on a connected channel, in order. Answers and events go through the peer.
    /// - Returns: whether the next may come. If not, none may until the peer is told to resume: too much of the endpoint waits already.
    func receive(_ message: EndpointMessage, on channel: ChannelID) -> Bool
    /// The channel is closed, or fell silent. Comes once for every channel that was connected.
    func disconnected(_ channel: ChannelID, isSilent: Bool)
    /// Comes about once a second.
    func timePassed()
    /// Comes before the first connection.
    /// - Parameter tunnelPorts: where plain tunnel connections are taken.
    func start(tunnelPorts: [Int]) async throws
    /// Tells all channels `restarting`. The transport closes them then.
    func stop() async
}
