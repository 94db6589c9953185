// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Logging
package import RelayProtocol

/// Everything about the relay that can be set.
package struct RelayConfiguration: Sendable {
    /// Where to listen. Port 0 is any free one, until `takePorts()` settles which.
    package var listen = [ListenAddress(host: "127.0.0.1", port: defaultPort)]
    /// Where to listen for tunnels over plain TCP; `nil`: the hosts of `listen`, one port higher. Empty: nowhere, so that tunnels
    /// go over WebSocket only.
    package var tunnelListen: [ListenAddress]?
    /// The public URLs, best first: what endpoints dial, and pages may come from. Empty: the addresses listened on.
    package var urls: [Origin] = []
    /// Where metrics are told, in plain HTTP; nowhere without.
    package var metricsListen: ListenAddress?
    /// Where the relay keeps its key and its database.
    package var dataDirectory: String
    /// A certificate chain in PEM; together with `keyFile`.
    package var certificateFile: String?
    /// The certificate's key in PEM.
    package var keyFile: String?
    /// The JSON file that names the trusted issuers; without it, only the embedded one is trusted.
    package var issuersFile: String?
    /// Plain HTTP on addresses that are not loopback.
    package var isInsecure = false
    /// The limits that endpoints are held to.
    package var limits = Limits()
    /// The proxies whose word on a request's client counts.
    package var trustedProxies = TrustedProxies()
    /// How many connections that are not authenticated one address may have at a time.
    package var unauthenticatedPerAddress = 256
    /// How many requests of one address may fail at the issuer in a minute.
    package var tokenFailuresPerMinute = 60
    /// Of how many addresses such failures are counted.
    package var tokenFailureAddresses = 10_000
    /// How many bytes may wait for one endpoint to read them; more closes its channel.
    package var outboundBytes = 16 << 20
    /// How long an HTTP connection may be without a request.
    package var idleSeconds = 60
    /// How long connections may take to end when the relay stops.
    package var drainSeconds = 5
    /// What is logged, to standard error.
    package var logLevel = Logger.Level.info

    /// The port of an address of `listen` that names none.
    package static let defaultPort = 8_080

    package init(dataDirectory: String) { self.dataDirectory = dataDirectory }

    /// Where tunnels over plain TCP are listened for.
    package var tunnelAddresses: [ListenAddress] {
        // Any port stays any port; behind the last one there is none.
        tunnelListen ?? listen.filter { $0.port < 65_535 }.map { ListenAddress(host: $0.host, port: $0.port == 0 ? 0 : $0.port + 1) }
    }

    /// How an address is protected.
    package enum Security: Hashable, Sendable {
        case plain
        case files(certificate: String, key: String)
        case ownKey
    }

    /// A certificate where there is one; else plain HTTP on loopback, or where it was asked for; else the relay's own key.
    package func security(of address: ListenAddress) throws(ConfigurationError) -> Security {
        switch (certificateFile, keyFile) {
        case (let certificate?, let key?): return .files(certificate: certificate, key: key)
        case (nil, nil): return address.isLoopback || isInsecure ? .plain : .ownKey
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

    /// Reads an address as people write it. A port may be left out where there is a default for it; an IPv6 address stands in brackets,
    /// but for `::` alone.
    package init?(_ text: String, defaultPort: Int? = nil) {
        var (host, rest) = (text[...], text[text.endIndex...])
        if text.hasPrefix("["), let end = text.firstIndex(of: "]") {
            (host, rest) = (text[..<end].dropFirst(), text[text.index(after: end)...])
            guard host.contains(":") else { return nil }
        } else if text != "::" {
            let end = text.firstIndex(of: ":") ?? text.endIndex
            (host, rest) = (text[..<end], text[end...])
            // A number alone is somebody's idea of a port.
            guard !host.allSatisfy(\.isWholeNumber) else { return nil }
        }
        let port = rest.isEmpty ? defaultPort : rest.hasPrefix(":") ? Int(rest.dropFirst()) : nil
        guard let port, (0...65_535).contains(port) else { return nil }
        // What begins with a hyphen is a flag that went astray.
        guard let first = host.first, first.isLetter || first.isNumber || first == ":" else { return nil }
        guard host.allSatisfy({ $0.isLetter || $0.isNumber || ".-_:%".contains($0) }) else { return nil }
        self.init(host: String(host), port: port)
    }

    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    package var isLoopback: Bool { Origin(scheme: "http", host: host, port: port).isLoopback }
}

/// A setting that cannot be. Names it and says what it may be.
package struct ConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String
    package init(_ description: String) { self.description = description }
}
