// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import RelayProtocol

/// Which origins are the relay's own. A page whose name was rebound to the relay's address, and a hello that somebody
/// passes on, both come with another one.
package struct OwnOrigins: Sendable {
    /// The configured public URLs.
    package var urls: [Origin]
    /// How connections reach this process itself.
    package var isTLS: Bool

    package init(urls: [Origin], isTLS: Bool) {
        self.urls = urls
        self.isTLS = isTLS
    }

    /// The origins that lead to a connection's local end: its address, and `localhost` on loopback. An address in
    /// numbers cannot be rebound.
    package func local(_ address: SocketAddress?) -> [Origin] {
        guard let address, let port = address.port, let host = address.ipAddress else { return [] }
        let scheme = isTLS ? "https" : "http"
        var origins = [Origin(scheme: scheme, host: host, port: port)]
        // A socket that listens on all addresses sees an IPv4 one as a mapped IPv6 one.
        if host.lowercased().hasPrefix("::ffff:") {
            origins.append(Origin(scheme: scheme, host: String(host.dropFirst(7)), port: port))
        }
        if origins.contains(where: \.isLoopback) { origins.append(Origin(scheme: scheme, host: "localhost", port: port)) }
        return origins
    }

    /// Whether a request may name this host: a configured URL's, whatever way a proxy brought it, or the local end's.
    package func allows(host authority: String, on address: SocketAddress?) -> Bool {
        let isConfigured = urls.contains { url in
            Origin(scheme: url.scheme, authority: authority) == url
        }
        if isConfigured { return true }
        guard let origin = Origin(scheme: isTLS ? "https" : "http", authority: authority) else { return false }
        return local(address).contains(origin)
    }

    /// Whether an endpoint may have dialled this, or a browser's page be of it: one of the configured URLs; without any,
    /// the local end.
    package func allows(origin text: String, on address: SocketAddress?) -> Bool {
        guard let origin = Origin(text) else { return false }
        return urls.isEmpty ? local(address).contains(origin) : urls.contains(origin)
    }
}
