// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
import NIOPosix
package import RelayProtocol

/// A tunnel through the relay, from one side.
///
/// The ways that the relay names are tried in order: the next one after a second, or at once when one has failed. The first that the relay
/// answers on is used, and the others are closed.
package struct TunnelTransport: PeerTransport {
    private let entrance: TunnelEntrance
    private let relay: RelayAddress
    private let trust: RelayTrust
    private let patience: TimeAmount
    private let group: any EventLoopGroup

    /// - Parameters:
    ///   - entrance: This side's.
    ///   - relay: Where the relay that gave it was dialled.
    ///   - trust: Whom to take for it.
    ///   - patience: How long the relay may be silent on one way before the next is tried too.
    package init(
        _ entrance: TunnelEntrance,
        relay: RelayAddress,
        trust: RelayTrust,
        patience: TimeAmount = .seconds(1),
        group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton
    ) {
        self.entrance = entrance
        self.relay = relay
        self.trust = trust
        self.patience = patience
        self.group = group
    }

    package func connect(
        timeout: Duration,
        install: @escaping @Sendable (any Channel) throws -> Void
    ) async throws(PeerTransportError) -> any Channel {
        let race = TunnelRace(
            entrance.urls.compactMap { TunnelCandidate($0, relay: relay) },
            patience: patience,
            dial: TunnelDialer(entrance, trust: trust, loop: group.next(), install: install)
        )
        race.start(timeout: TimeAmount(timeout))
        guard let result = await race.outcome.wait() else {
            race.end(.failure(.cancelled))
            throw .cancelled
        }
        return try result.get()
    }
}
