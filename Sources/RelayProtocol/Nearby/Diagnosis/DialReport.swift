// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What came of dialling one address of a peer, for diagnosis.
package struct DialReport: Hashable, Sendable, Codable {
    package enum Outcome: String, Hashable, Sendable, Codable, CaseIterable {
        /// What listens there has taken the knock.
        case answered
        /// Nothing listens at the port, or a firewall says so (`ECONNREFUSED`).
        case refused
        /// Nothing came back.
        case timedOut
        /// The system, or a router, knows no way to the address (`EHOSTUNREACH`, `ENETUNREACH`).
        case unreachable
        /// The dialling system forbids the connection (`EPERM`, `EACCES`).
        case forbidden
        /// Something took the connection, and not the knock.
        case notProved
        /// The dialling side does not dial such an address.
        case notDialled
    }

    /// Whether the dialling system knew the address on its link afterwards.
    package enum Neighbour: String, Hashable, Sendable, Codable, CaseIterable {
        case known
        /// The system has asked for it, and nobody has answered.
        case missing
        case unknown
    }

    /// 4 or 16 bytes.
    package var address: [UInt8]
    package var outcome: Outcome
    package var neighbour: Neighbour

    package init(_ address: [UInt8], _ outcome: Outcome, _ neighbour: Neighbour = .unknown) {
        (self.address, self.outcome, self.neighbour) = (address, outcome, neighbour)
    }
}

extension NearbyReach {
    /// The addresses that a peer may name for one diagnosis.
    package static let maximumNamed = 8
    /// Below it are the ports of the system's services.
    package static let firstPort: UInt16 = 1_024

    /// Which of the addresses that a peer names as its own are dialled: those that a direct session could use, and no own one. If some are in
    /// a network of this machine, the others are not dialled: they belong to other networks of the peer.
    /// - Parameter own: The addresses of this machine at other interfaces.
    package func dialled(of named: [IPAddress], on interfaces: [LinkInterface], own: Set<IPAddress> = []) -> [IPAddress] {
        let own = own.union(interfaces.flatMap { $0.addresses.map(\.address) })
        let admitted = named.filter { !$0.isLinkLocal && !own.contains($0) && admits($0, on: interfaces) }
        let near = admitted.filter { address in interfaces.contains { $0.isOnLink(address) } }
        return near.isEmpty ? admitted : near
    }
}
