// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The networks of a client's address, smallest first. Limits count in each of them, so that a client with many addresses gains little.
package struct ClientNetworks: Hashable, Sendable {
    /// The limit of a network times this factor is the limit of the next larger network.
    static let factor = 4

    /// The smallest network. It counts as one client.
    package let smallest: String
    private let larger: [String]

    /// - Parameter names: The networks, smallest first, such as the /64, /56 and /48 of an IPv6 address.
    package init(_ names: [String]) {
        self.smallest = names.first ?? ""
        self.larger = Array(names.dropFirst())
    }

    /// Each network, with the factor by which a client's limit is multiplied for it.
    var shares: [(network: String, factor: Int)] {
        var factor = 1
        return [(smallest, 1)]
            + larger.map { network in
                factor *= ClientNetworks.factor
                return (network, factor)
            }
    }

    /// The largest network. It is the unit for capacity that all clients share.
    package var largest: String { larger.last ?? smallest }
}

extension RateLimiter {
    /// Counts an event in all networks of a client, or in none.
    /// - Returns: `nil` if the event is within the limits; otherwise the time to wait.
    mutating func add(_ client: ClientNetworks, now: Milliseconds) -> Milliseconds? {
        let waits = client.shares.compactMap { wait($0.network, times: $0.factor, now: now) }
        if let longest = waits.max() { return longest }
        for (network, factor) in client.shares { _ = add(network, times: factor, now: now) }
        return nil
    }
}
