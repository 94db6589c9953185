// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Where an endpoint says that it accepts direct connections. It is a hint: the knock and TLS prove who is there.
package struct HostCandidates: Hashable, Sendable {
    package static let maximumAddresses = 8
    /// The first port that may be named: well-known services are below.
    package static let firstPort: UInt16 = 1_024

    /// From `firstPort`.
    package let port: UInt16
    /// Without loopback, multicast and link-local ones, 8 at most.
    package let addresses: [IPAddress]

    /// Leaves out addresses that lead nowhere from another machine.
    /// - Returns: `nil` if the port is below `firstPort`, or there are more than 8 addresses.
    package init?(port: UInt16, addresses: [IPAddress]) {
        guard port >= Self.firstPort, addresses.count <= Self.maximumAddresses else { return nil }
        self.port = port
        self.addresses = addresses.filter(Self.leadsAcrossLinks)
    }

    /// The candidates of a machine with these interfaces, the families alternating.
    /// - Returns: `nil` if there is no address that others could dial.
    package init?(port: UInt16, of interfaces: [LinkInterface]) {
        let all = interfaces.flatMap(\.addresses).map(\.address).filter(Self.leadsAcrossLinks)
        self.init(port: port, addresses: Array(IPAddress.alternating(all) { $0 }.prefix(Self.maximumAddresses)))
        if addresses.isEmpty { return nil }
    }

    private static func leadsAcrossLinks(_ address: IPAddress) -> Bool {
        !address.isLoopback && !address.isMulticast && !address.isLinkLocal
    }
}

extension IPAddress {
    /// Orders values with addresses: IPv6 first, then the families by turns (RFC 8305 §4).
    static func alternating<Value>(_ values: [Value], _ address: (Value) -> IPAddress) -> [Value] {
        let six = values.filter { address($0).bytes.count == 16 }
        let four = values.filter { address($0).bytes.count == 4 }
        return (0..<Swift.max(six.count, four.count)).flatMap { index in
            [six, four].compactMap { index < $0.count ? $0[index] : nil }
        }
    }
}
