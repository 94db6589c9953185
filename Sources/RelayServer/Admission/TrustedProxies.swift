// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// The proxies before the relay, whose word on a request's client counts.
package struct TrustedProxies: Hashable, Sendable {
    package static let header = "x-forwarded-for"

    package var networks: [IPNetwork]

    package init(_ networks: [IPNetwork] = []) { self.networks = networks }

    package func contains(_ address: IPAddress) -> Bool { networks.contains { $0.contains(address) } }

    /// The proxy at a connection's other end.
    func proxy(at peer: SocketAddress?) -> IPAddress? {
        guard !networks.isEmpty, let address = IPAddress(peer), contains(address) else { return nil }
        return address
    }

    /// The address that a request comes from: the last one of `X-Forwarded-For` that is no trusted proxy's, where a trusted proxy brings it.
    /// What stands before it is the client's word, and is not looked at. If it cannot be read, it is the proxy that counts.
    /// - Parameter forwardedFor: all fields of that name, in their order.
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
    /// Without the blanks around it.
    fileprivate var trimmed: Self {
        let isBlank: (UInt8) -> Bool = { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
        var trimmed = drop(while: isBlank)
        while let last = trimmed.last, isBlank(last) { trimmed.removeLast() }
        return trimmed
    }
}
