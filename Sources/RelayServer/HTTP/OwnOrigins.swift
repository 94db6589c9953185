// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import RelayProtocol

/// The relay's own origins. They exclude web pages that use DNS rebinding, and hellos that another server forwards: both carry a
/// different origin.
package struct OwnOrigins: Sendable {
    /// The configured public URLs.
    package var urls: [Origin]
    /// Whether connections reach this process over TLS.
    package var isTLS: Bool

    package init(urls: [Origin], isTLS: Bool) {
        self.urls = urls
        self.isTLS = isTLS
    }

    /// The origins of a connection's local end: its address, and `localhost` on loopback. DNS rebinding cannot affect a numeric address.
    package func local(_ address: SocketAddress?) -> [Origin] {
        guard let address, let port = address.port, let host = address.ipAddress else { return [] }
        let scheme = isTLS ? "https" : "http"
        var origins = [Origin(scheme: scheme, host: host, port: port)]
        // A socket that listens on all addresses reports an IPv4 address as an IPv4-mapped IPv6 address.
        if host.lowercased().hasPrefix("::ffff:") {
            origins.append(Origin(scheme: scheme, host: String(host.dropFirst(7)), port: port))
        }
        if origins.contains(where: \.isLoopback) { origins.append(Origin(scheme: scheme, host: "localhost", port: port)) }
        return origins
    }

    /// Whether a request may use this `Host`: that of a configured URL, for requests through a proxy too, or the local end's.
    package func allows(host authority: String, on address: SocketAddress?) -> Bool {
        let isConfigured = urls.contains { url in
            Origin(scheme: url.scheme, authority: authority) == url
        }
        if isConfigured { return true }
        guard let origin = Origin(scheme: isTLS ? "https" : "http", authority: authority) else { return false }
        return local(address).contains(origin)
    }

    /// Whether this is an allowed origin of an endpoint or a browser page: one of the configured URLs, or without any the local end.
    package func allows(origin text: String, on address: SocketAddress?) -> Bool {
        guard let origin = Origin(text) else { return false }
        return urls.isEmpty ? local(address).contains(origin) : urls.contains(origin)
    }
}
