// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// From where an address can be reached. An issuer may name only addresses that are at least as far as its own: one on the Internet must not
/// lead the relay to this machine or into its network.
enum NetworkReach: Comparable, Sendable {
    case loopback
    /// A private network, or an address of special use.
    case local
    case global

    /// - Parameter isPublic: Tells addresses of the public Internet from others.
    init(of address: IPAddress?, isPublic: (IPAddress) -> Bool) {
        guard let address, !address.isLoopback else {
            self = .loopback
            return
        }
        self = isPublic(address) ? .global : .local
    }
}
