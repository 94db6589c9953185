// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// Which origins are the relay's own. A page whose name was rebound to the relay's address, and a hello that somebody
/// passes on, both come with another one.
package struct OwnOrigins: Sendable {
    /// The configured public URLs.
    package var urls: [WebOrigin]
    /// How connections reach this process itself.
    package var isTLS: Bool

    package init(urls: [WebOrigin], isTLS: Bool) {
        self.urls = urls
        self.isTLS = isTLS
    }

    /// The origins that lead to a connection's local end: its address, and `localhost` on loopback. An address in
    /// numbers cannot be rebound.
    package func local(_ address: SocketAddress?) -> [WebOrigin] {
        guard let address, let port = address.port, let host = address.ipAddress else { return [] }
        let scheme = isTLS ? "https" : "http"
        var origins = [WebOrigin(scheme: scheme, host: host, port: port)]
        // A socket that listens on all addresses sees an IPv4 one as a mapped IPv6 one.
        if host.lowercased().hasPrefix("::ffff:") {
            origins.append(WebOrigin(scheme: scheme, host: String(host.dropFirst(7)), port: port))
        }
        if origins.contains(where: \.isLoopback) { origins.append(WebOrigin(scheme: scheme, host: "localhost", port: port)) }
        return origins
    }

    /// Whether a request may name this host: a configured URL's, whatever way a proxy brought it, or the local end's.
    package func allows(host authority: String, on address: SocketAddress?) -> Bool {
        let isConfigured = urls.contains { url in
            WebOrigin(scheme: url.scheme, authority: authority) == url
        }
        if isConfigured { return true }
        guard let origin = WebOrigin(scheme: isTLS ? "https" : "http", authority: authority) else { return false }
        return local(address).contains(origin)
    }

    /// Whether an endpoint may have dialled this, or a browser's page be of it: one of the configured URLs; without any,
    /// the local end.
    package func allows(origin text: String, on address: SocketAddress?) -> Bool {
        guard let origin = WebOrigin(text) else { return false }
        return urls.isEmpty ? local(address).contains(origin) : urls.contains(origin)
    }
}

extension WebOrigin {
    package var isLoopback: Bool { host == "::1" || host == "localhost" || Self.isLoopbackIPv4(host) }

    private static func isLoopbackIPv4(_ host: String) -> Bool {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)  // ASCII only
        return parts.count == 4 && parts.first == "127" && parts.allSatisfy { UInt8($0) != nil }
    }
}
