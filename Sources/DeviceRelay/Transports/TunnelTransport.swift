// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
import NIOPosix
package import RelayProtocol

/// A tunnel through the relay, from one side.
///
/// The ways that the relay names are tried in order: the next one when one has failed, or leaves the endpoint waiting. The first that the
/// relay answers on is used.
package struct TunnelTransport: PeerTransport {
    /// How long a way may take before the next is tried.
    package struct Timeouts: Sendable {
        /// To be connected.
        package var connecting = TimeAmount.seconds(1)
        /// To bring the relay's word once it is connected. The other side may be late; but there are networks that take any connection, and
        /// then let nothing pass that is not HTTPS.
        package var answering = TimeAmount.seconds(5)

        package init() {}
    }

    private let entrance: TunnelEntrance
    private let relay: RelayAddress
    private let hosts: RelayHosts
    private let trust: RelayTrust
    private let patience: Timeouts
    private let group: any EventLoopGroup

    /// - Parameters:
    ///   - entrance: This side's.
    ///   - relay: Where the relay that gave it was dialled.
    ///   - hosts: The relay's; ways to others are not taken. By default the one that was dialled.
    ///   - trust: Whom to take for it.
    package init(
        _ entrance: TunnelEntrance,
        relay: RelayAddress,
        hosts: RelayHosts? = nil,
        trust: RelayTrust,
        patience: Timeouts = Timeouts(),
        group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton
    ) {
        self.entrance = entrance
        self.relay = relay
        self.hosts = hosts ?? RelayHosts(dialled: [relay])
        self.trust = trust
        self.patience = patience
        self.group = group
    }

    package func connect(
        timeout: Duration,
        install: @escaping @Sendable (any Channel) throws -> Void
    ) async throws(PeerTransportError) -> any Channel {
        let named = entrance.urls.compactMap { TunnelCandidate($0, relay: relay) }
        let candidates = named.filter { hosts.contains($0.host) }
        guard !candidates.isEmpty || named.isEmpty else { throw .foreignHost }
        let race = TunnelRace(
            candidates,
            patience: patience,
            dial: TunnelDialer(entrance, trust: trust, loop: group.next(), install: install)
        )
        race.start(timeout: TimeAmount(timeout))
        guard let result = await race.outcome.wait() else {
            race.cancel()
            throw .cancelled
        }
        return try result.get()
    }
}
