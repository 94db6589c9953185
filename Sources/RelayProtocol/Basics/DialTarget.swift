// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// The target of an http or https URL, in normalized form, so that the target that is checked is the one that is dialled.
package struct DialTarget: Hashable, Sendable {
    /// In lower case. An IPv6 address has no brackets.
    package let host: String
    package let port: Int
    package let isEncrypted: Bool
    /// The path and query, with their percent escapes; empty for none.
    package let path: String

    /// - Returns: `nil` for another scheme, a URL with a user name or password, and a host with escapes or characters outside of ASCII.
    package init?(_ url: String) {
        guard let components = URLComponents(string: url, encodingInvalidCharacters: false), let scheme = components.scheme?.lowercased(),
            ["http", "https"].contains(scheme),
            let encodedHost = components.percentEncodedHost?.lowercased(), components.user == nil, components.password == nil
        else { return nil }
        let isBracketed = encodedHost.utf8.first == UInt8(ascii: "[") && encodedHost.utf8.last == UInt8(ascii: "]")
        let host = isBracketed ? String(encodedHost.dropFirst().dropLast()) : encodedHost
        let allowed = Set((isBracketed ? "0123456789abcdef:." : "0123456789abcdefghijklmnopqrstuvwxyz-_.").utf8)
        guard !host.isEmpty, host.utf8.allSatisfy(allowed.contains) else { return nil }
        self.host = host
        self.isEncrypted = scheme == "https"
        self.port = components.port ?? (isEncrypted ? 443 : 80)
        guard (1...65_535).contains(port) else { return nil }
        self.path = components.percentEncodedPath + (components.percentEncodedQuery.map { "?\($0)" } ?? "")
    }

    /// The scheme and host, and the port unless it is the scheme's default (RFC 6454 §6.2).
    package var origin: String {
        let name = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
        let suffix = port == (isEncrypted ? 443 : 80) ? "" : ":\(port)"
        return "\(isEncrypted ? "https" : "http")://\(name)\(suffix)"
    }

    package var isLoopback: Bool { Origin(scheme: isEncrypted ? "https" : "http", host: host, port: port).isLoopback }

    /// The URL, which can be a secret.
    package var url: String { origin + path }
}
