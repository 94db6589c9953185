// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayProtocol

/// The hosts that belong to a relay. If a relay could name any host, it could make its devices scan their local networks.
package struct RelayHosts: Hashable, Sendable {
    private let hosts: Set<[UInt8]>

    /// - Parameters:
    ///   - addresses: The address at which the relay was dialled, and the configured address.
    ///   - urls: The URLs that the relay named for reconnecting. URLs of this device itself are ignored.
    package init(dialled addresses: [RelayAddress], named urls: [String] = []) {
        let named = urls.compactMap { URL(exactly: $0).flatMap { try? RelayAddress($0, allowsPlaintext: true) } }
        hosts = Set((addresses + named.filter { !Self.isThisDevice($0.host) }).map { Array($0.host.utf8) })
    }

    /// Compares bytes, in lower case.
    func contains(_ host: String) -> Bool { hosts.contains(Array(host.utf8)) }

    /// Whether a host is a loopback address, or may be one in a form that only resolvers understand (`127.1`, `0x7f000001`).
    static func isThisDevice(_ host: String) -> Bool {
        switch try? SocketAddress(ipAddress: host, port: 0) {
        case .some(let address):
            // In canonical form: ::, ::1 and IPv4-mapped addresses begin with two colons.
            let text = (address.ipAddress ?? "").utf8
            return text.starts(with: "127.".utf8) || text.starts(with: "0.".utf8) || text.starts(with: "::".utf8)
        case nil:
            let last = host.utf8.split(separator: UInt8(ascii: ".")).last ?? []
            let isNumber = last.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } || last.starts(with: "0x".utf8)
            return isNumber || last.elementsEqual("localhost".utf8)
        }
    }
}
