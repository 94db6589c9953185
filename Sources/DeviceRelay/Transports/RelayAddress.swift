// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
package import FoundationEssentials
#else
package import Foundation
#endif

/// Where a relay is dialled: what its URL says.
package struct RelayAddress: Hashable, Sendable {
    package enum Problem: Error, Hashable, Sendable {
        /// Not an http or https URL with a host.
        case malformed
        /// Without TLS, and not on this machine.
        case notEncrypted
    }

    package let isEncrypted: Bool
    /// A name in lower case, or an address without brackets.
    package let host: String
    package let port: Int
    /// What all paths of the relay begin with; empty, or a path without a slash at its end.
    package let basePath: String

    /// Of the control channel.
    package var path: String { basePath + "/v1/connect" }

    /// - Parameter allowsPlaintext: Whether a relay on another machine may be dialled without TLS.
    package init(_ url: URL, allowsPlaintext: Bool = false) throws(Problem) {
        guard let components = URLComponents(url: url, resolvingAgainstBaseURL: true), components.user == nil, components.password == nil,
            components.query == nil, components.fragment == nil
        else { throw .malformed }
        switch components.scheme?.lowercased() {
        case "https", "wss": isEncrypted = true
        case "http", "ws": isEncrypted = false
        default: throw .malformed
        }
        // Before it becomes lower case: there are letters elsewhere whose lower case is ASCII.
        guard var host = components.host, !host.isEmpty, host.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { throw .malformed }
        host = host.lowercased()
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        self.host = host
        port = components.port ?? (isEncrypted ? 443 : 80)
        guard (1...65535).contains(port) else { throw .malformed }
        var base = components.percentEncodedPath
        while base.utf8.last == UInt8(ascii: "/") { base = String(decoding: base.utf8.dropLast(), as: UTF8.self) }
        basePath = base
        guard isEncrypted || allowsPlaintext || Self.isLoopback(host) else { throw .notEncrypted }
    }

    /// The origin, as the hello names it: the port only if it is not the scheme's own.
    package var origin: String {
        "\(isEncrypted ? "https" : "http")://\(authority)"
    }

    var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isEncrypted ? 443 : 80) ? name : "\(name):\(port)"
    }

    private static func isLoopback(_ host: String) -> Bool {
        if host == "localhost" || host == "::1" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)  // ASCII only
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }
}
