// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A network interface of this machine with its addresses.
package struct LinkInterface: Hashable, Sendable {
    package struct Address: Hashable, Sendable {
        package let address: IPAddress
        /// The addresses that are reached without a router.
        package let network: IPNetwork

        package init(_ address: IPAddress, prefixLength: Int) {
            self.address = address
            network = IPNetwork(address, prefixLength: prefixLength)
        }
    }

    /// The system's number of it, from 1.
    package let index: Int
    package let name: String
    package let addresses: [Address]

    package init(index: Int, name: String, addresses: [Address]) {
        (self.index, self.name, self.addresses) = (index, name, addresses)
    }

    /// Whether this interface is at the same networks as it was, as far as one can tell: other networks use the same numbers, but then this
    /// machine gets another address.
    package func isAttached(like before: LinkInterface) -> Bool {
        let networks = Set(addresses.map(\.network))
        let kept = Set(addresses.map(\.address)).intersection(before.addresses.map(\.address))
        return networks.isSubset(of: before.addresses.map(\.network)) && kept.contains { !$0.isLinkLocal }
    }

    /// Whether an address is in a network of this interface.
    package func isOnLink(_ address: IPAddress) -> Bool { addresses.contains { $0.network.contains(address) } }
}

/// Which addresses known devices may have to be connected to without the relay, and to connect.
public enum NearbyReach: String, Hashable, Sendable, CaseIterable, Codable {
    /// Those in a network of this machine, and private ones (RFC 1918, RFC 6598, RFC 4193).
    case local
    /// All.
    case any

    /// Loopback and multicast are never admitted.
    package func admits(_ address: IPAddress, on interfaces: [LinkInterface]) -> Bool {
        guard !address.isLoopback, !address.isMulticast else { return false }
        return self == .any || address.isPrivate || interfaces.contains { $0.isOnLink(address) }
    }
}

extension IPAddress {
    /// RFC 1112 §4, RFC 4291 §2.7; the IPv4 broadcast address too.
    package var isMulticast: Bool { bytes.count == 4 ? bytes[0] >= 224 : bytes[0] == 0xFF }

    /// Valid on one link only (RFC 3927, RFC 4291 §2.5.6).
    package var isLinkLocal: Bool {
        bytes.count == 4 ? bytes[0] == 169 && bytes[1] == 254 : bytes[0] == 0xFE && bytes[1] & 0xC0 == 0x80
    }

    /// Of a private network (RFC 1918, RFC 6598, RFC 4193), or link-local.
    fileprivate var isPrivate: Bool {
        if isLinkLocal { return true }
        guard bytes.count == 4 else { return bytes[0] & 0xFE == 0xFC }
        return switch (bytes[0], bytes[1]) {
        case (10, _), (172, 16...31), (192, 168), (100, 64...127): true
        default: false
        }
    }
}
