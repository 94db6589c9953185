// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
import NIOPosix
package import RelayProtocol

/// One side of a tunnel through the relay.
///
/// The candidates that the relay names are tried in order: the next one when the previous one has failed or takes too long. The first one
/// on which the relay pairs the two sides is used.
package struct TunnelTransport: PeerTransport {
    /// The times after which the next candidate is tried.
    package struct Timeouts: Sendable {
        /// The wait for a connection.
        package var connecting = TimeAmount.seconds(1)
        /// The wait for the relay's status after the connection is established. It is long, because the other side may be late. It is
        /// limited, because some networks accept any connection and then pass only HTTPS.
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
    ///   - entrance: This side's entrance.
    ///   - relay: The address at which the relay was dialled.
    ///   - hosts: The relay's hosts. Candidates on other hosts are ignored. The default is the dialled host.
    ///   - trust: The trust in the relay's key or certificate.
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
