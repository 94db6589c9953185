// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// From where an address can be reached. An issuer may name only addresses that are at least as far as its own: one on the Internet must not
/// lead the relay to this machine or into its network.
enum NetworkReach: Comparable, Sendable {
    case loopback
    /// A private network, or an address of special use.
    case local
    case global

    /// - Parameter isPublic: Tells addresses of the public Internet from others.
    init(of address: SocketAddress?, isPublic: (SocketAddress) -> Bool) {
        guard let address else {
            self = .loopback
            return
        }
        self = IPAddress(address)?.isLoopback ?? true ? .loopback : isPublic(address) ? .global : .local
    }
}

extension IPAddress {
    /// Of this machine (RFC 1122 §3.2.1.3, RFC 4291 §2.5.3), also as "any address", which the system dials as loopback.
    var isLoopback: Bool {
        bytes.count == 4 ? bytes[0] == 127 || bytes[0] == 0 : bytes.dropLast().allSatisfy { $0 == 0 } && (bytes.last ?? 0) <= 1
    }
}
