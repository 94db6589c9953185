// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Where an http or https URL leads, in one spelling: what is checked is what is dialled.
package struct DialTarget: Hashable, Sendable {
    /// In lower case; an IPv6 address without brackets.
    package let host: String
    package let port: Int
    package let isEncrypted: Bool
    /// The path and query, with their percent escapes.
    private let path: String

    /// - Returns: `nil` for another scheme, for user names, and for hosts with escapes or other than ASCII characters.
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

    /// Scheme, host, and a port other than the scheme's own (RFC 6454 §6.2).
    package var origin: String {
        let name = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
        let suffix = port == (isEncrypted ? 443 : 80) ? "" : ":\(port)"
        return "\(isEncrypted ? "https" : "http")://\(name)\(suffix)"
    }

    package var isLoopback: Bool { Origin(scheme: isEncrypted ? "https" : "http", host: host, port: port).isLoopback }

    /// The URL, which can be a secret.
    package var url: String { origin + path }
}
