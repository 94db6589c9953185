// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
package import RelayProtocol

/// The address of a relay, from its URL.
package struct RelayAddress: Hashable, Sendable {
    package enum Problem: Error, Hashable, Sendable {
        /// The URL is not an http or https URL with a host.
        case malformed
        /// The URL has no TLS, and is not on this machine.
        case notEncrypted
    }

    package let server: Origin
    /// The common prefix of the relay's paths: empty, or a path without a slash at its end.
    package let basePath: String

    /// The path of the control channel.
    package var path: String { basePath + "/v1/connect" }

    /// - Parameter allowsPlaintext: Whether a relay on another machine may be dialled without TLS.
    package init(_ url: URL, allowsPlaintext: Bool = false) throws(Problem) {
        guard let components = URLComponents(url: url, resolvingAgainstBaseURL: true), components.user == nil, components.password == nil,
            components.query == nil, components.fragment == nil
        else { throw .malformed }
        let scheme: String
        switch components.scheme?.lowercased() {
        case "https", "wss": scheme = "https"
        case "http", "ws": scheme = "http"
        default: throw .malformed
        }
        // Checked before the conversion to lower case: some non-ASCII letters have an ASCII lower-case form.
        guard var host = components.host, !host.isEmpty, host.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { throw .malformed }
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        guard let port = components.port ?? Origin.defaultPorts[scheme], (1...65535).contains(port) else { throw .malformed }
        server = Origin(scheme: scheme, host: host, port: port)
        var base = components.percentEncodedPath
        while base.utf8.last == UInt8(ascii: "/") { base = String(decoding: base.utf8.dropLast(), as: UTF8.self) }
        basePath = base
        guard isEncrypted || allowsPlaintext || server.isLoopback else { throw .notEncrypted }
    }

    package var isEncrypted: Bool { server.isEncrypted }
    package var host: String { server.host }
    package var port: Int { server.port }

    /// The origin as it appears in the hello.
    package var origin: String { server.description }
}
