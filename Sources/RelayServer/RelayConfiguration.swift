// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Logging
package import RelayLog
package import RelayProtocol

/// All settings of the relay.
package struct RelayConfiguration: Sendable {
    /// The addresses to listen on. Port 0 means any free port, until `takePorts()` chooses one.
    package var listen = [ListenAddress(host: "127.0.0.1", port: defaultPort)]
    /// The addresses for tunnels over plain TCP; `nil`: the hosts of `listen`, one port higher. Empty: none, so that tunnels use
    /// WebSocket only.
    package var tunnelListen: [ListenAddress]?
    /// The public URLs, in order of preference: what endpoints dial, and the origins of web pages. Empty: the addresses of `listen`.
    package var urls: [Origin] = []
    /// The address for metrics, over plain HTTP; `nil`: none.
    package var metricsListen: ListenAddress?
    /// The directory of the relay's key and database.
    package var dataDirectory: String
    /// Where the databases are.
    package var store = StoreLocation.dataDirectory
    /// Where endpoints reach this node of several.
    package var nodeURL: Origin?
    /// A certificate chain in PEM. Requires `keyFile`.
    package var certificateFile: String?
    /// The certificate's key in PEM.
    package var keyFile: String?
    /// The JSON file that names the trusted issuers; without it, only the embedded one is trusted.
    package var issuersFile: String?
    /// Who runs the relay: a name for the header of its pages.
    package var operatorName: String?
    /// How push services are reached.
    package var push = PushSettings()
    /// Whether plain HTTP is allowed on addresses other than loopback.
    package var allowsPlainHTTP = false
    /// The limits for endpoints.
    package var limits = Limits()
    /// The proxies whose `X-Forwarded-For` is trusted.
    package var trustedProxies = TrustedProxies()
    /// The maximum number of unauthenticated connections per address.
    package var unauthenticatedPerAddress = 256
    /// The maximum number of failed requests per minute and address at the issuer.
    package var tokenFailuresPerMinute = 60
    /// The maximum number of addresses for which such failures are counted.
    package var tokenFailureAddresses = 10_000
    /// The maximum number of bytes that wait for one endpoint to read them. More closes its channel.
    package var outboundBytes = 16 << 20
    /// How long an HTTP connection may be idle between requests.
    package var idleSeconds = 60
    /// How long connections may take to end when the relay stops.
    package var drainSeconds = 5
    /// The level of the log, which goes to standard error.
    package var logLevel = Logger.Level.info
    package var logFormat = LogFormat.text
    /// What was set, as text. The limits are under `nil`.
    var texts: [RelaySetting?: String] = [:]

    /// The port of an address in `listen` without a port.
    package static let defaultPort = 8_080

    package init(dataDirectory: String) { self.dataDirectory = dataDirectory }

    /// The settings that differ from earlier ones, by name.
    package func changes(since earlier: RelayConfiguration) -> [String] {
        let changed = texts.filter { $0.value != earlier.texts[$0.key] }.map { $0.key?.rawValue ?? "limits" }
        return changed.sorted()
    }

    /// The addresses for tunnels over plain TCP.
    package var tunnelAddresses: [ListenAddress] {
        // Port 0 stays 0; the last port has no successor.
        tunnelListen ?? listen.filter { $0.port < 65_535 }.map { ListenAddress(host: $0.host, port: $0.port == 0 ? 0 : $0.port + 1) }
    }

    /// Devices and browsers elsewhere send passwords and tokens to these URLs.
    package func checkURLs() throws(ConfigurationError) {
        guard !allowsPlainHTTP, let url = (urls + [nodeURL].compactMap { $0 }).first(where: { !$0.isEncrypted && !$0.isLoopback }) else {
            return
        }
        throw ConfigurationError(
            "urls: \(url) is not encrypted: use https://\(url.authority), or set --allow-http if nothing but this relay's own network leads there"
        )
    }

    /// A node of several has two addresses.
    package func checkNodeURL() throws(ConfigurationError) {
        guard nodeURL != nil else { return }
        guard store != .dataDirectory else {
            throw ConfigurationError(
                "nodeUrl: a relay with an SQLite store is the only node; name it with --url, or set --store postgres://…"
            )
        }
        guard !urls.isEmpty else {
            throw ConfigurationError("nodeUrl: it is in addition to the URL that all nodes have; name that one with --url")
        }
    }

    /// How an address is protected.
    package enum Security: Hashable, Sendable {
        case plain
        case files(certificate: String, key: String)
        case ownKey
    }

    /// A certificate if one is configured; otherwise plain HTTP on loopback or if `allowHttp` is set; otherwise the relay's own key.
    package func security(of address: ListenAddress) throws(ConfigurationError) -> Security {
        switch (certificateFile, keyFile) {
        case (let certificate?, let key?): return .files(certificate: certificate, key: key)
        case (nil, nil): return address.isLoopback || allowsPlainHTTP ? .plain : .ownKey
        default: throw ConfigurationError("a certificate file and a key file belong together: set both or none")
        }
    }
}

/// An address to listen on, such as `127.0.0.1:8080`, `[::]:8443` or `localhost:0`.
package struct ListenAddress: Hashable, Sendable, CustomStringConvertible {
    package var host: String
    package var port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Parses an address. The port may be omitted if there is a default. An IPv6 address needs brackets, except `::` alone.
    package init?(_ text: String, defaultPort: Int? = nil) {
        var (host, rest) = (text[...], text[text.endIndex...])
        if text.hasPrefix("["), let end = text.firstIndex(of: "]") {
            (host, rest) = (text[..<end].dropFirst(), text[text.index(after: end)...])
            guard host.contains(":") else { return nil }
        } else if text != "::" {
            let end = text.firstIndex(of: ":") ?? text.endIndex
            (host, rest) = (text[..<end], text[end...])
            // A single number is probably meant as a port.
            guard !host.allSatisfy(\.isWholeNumber) else { return nil }
        }
        let port = rest.isEmpty ? defaultPort : rest.hasPrefix(":") ? Int(rest.dropFirst()) : nil
        guard let port, (0...65_535).contains(port) else { return nil }
        // A leading hyphen is probably a misplaced flag.
        guard let first = host.first, first.isLetter || first.isNumber || first == ":" else { return nil }
        guard host.allSatisfy({ $0.isLetter || $0.isNumber || ".-_:%".contains($0) }) else { return nil }
        self.init(host: String(host), port: port)
    }

    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    package var isLoopback: Bool { Origin(scheme: "http", host: host, port: port).isLoopback }
}

/// An invalid setting. The description names the setting and the allowed values.
package struct ConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String
    package init(_ description: String) { self.description = description }
}
