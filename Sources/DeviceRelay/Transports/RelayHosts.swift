// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The hosts that are a relay's. A relay that could name any host would have its devices look through their own networks.
package struct RelayHosts: Hashable, Sendable {
    private let hosts: Set<[UInt8]>

    /// - Parameters:
    ///   - addresses: Where the relay was dialled, and where this device was told to.
    ///   - urls: Those that the relay named for coming back. This device itself is not among them.
    package init(dialled addresses: [RelayAddress], named urls: [String] = []) {
        let named = urls.compactMap { URL(string: $0).flatMap { try? RelayAddress($0, allowsPlaintext: true) } }
        hosts = Set((addresses + named.filter { !Self.isThisDevice($0.host) }).map { Array($0.host.utf8) })
    }

    /// Compared by bytes, in lower case.
    func contains(_ host: String) -> Bool { hosts.contains(Array(host.utf8)) }

    /// Whether a host is a loopback address, or may be one in a form that only resolvers know (`127.1`, `0x7f000001`).
    private static func isThisDevice(_ host: String) -> Bool {
        switch try? SocketAddress(ipAddress: host, port: 0) {
        case .some(let address):
            // In the resolver's own form: ::, ::1 and IPv4 addresses within IPv6 begin with two colons.
            let text = (address.ipAddress ?? "").utf8
            return text.starts(with: "127.".utf8) || text.starts(with: "0.".utf8) || text.starts(with: "::".utf8)
        case nil:
            let last = host.utf8.split(separator: UInt8(ascii: ".")).last ?? []
            let isNumber = last.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } || last.starts(with: "0x".utf8)
            return isNumber || last.elementsEqual("localhost".utf8)
        }
    }
}
