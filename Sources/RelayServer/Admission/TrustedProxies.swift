// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import RelayProtocol

/// The proxies in front of the relay whose `X-Forwarded-For` is trusted.
package struct TrustedProxies: Hashable, Sendable {
    package static let header = "x-forwarded-for"

    package var networks: [IPNetwork]

    package init(_ networks: [IPNetwork] = []) { self.networks = networks }

    package func contains(_ address: IPAddress) -> Bool { networks.contains { $0.contains(address) } }

    /// The trusted proxy at the other end of a connection, if it is one.
    func proxy(at peer: SocketAddress?) -> IPAddress? {
        guard !networks.isEmpty, let address = IPAddress(peer), contains(address) else { return nil }
        return address
    }

    /// The client address of a request. For a trusted proxy it is the last address in `X-Forwarded-For` that is not a trusted proxy's.
    /// Earlier entries come from the client and are ignored. If the field cannot be parsed, the proxy's own address counts.
    /// - Parameter forwardedFor: all fields of that name, in order.
    package func client(of peer: SocketAddress?, forwardedFor fields: [String]) -> IPAddress? {
        guard let proxy = proxy(at: peer) else { return IPAddress(peer) }
        var client = proxy
        for field in fields.reversed() {
            for part in field.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false).reversed() {
                guard let address = IPAddress(parsing: part.trimmed) else { return proxy }
                client = address
                if !contains(address) { return address }
            }
        }
        return client
    }
}

extension Substring.UTF8View {
    /// Without leading and trailing blanks.
    fileprivate var trimmed: Self {
        let isBlank: (UInt8) -> Bool = { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
        var trimmed = drop(while: isBlank)
        while let last = trimmed.last, isBlank(last) { trimmed.removeLast() }
        return trimmed
    }
}
