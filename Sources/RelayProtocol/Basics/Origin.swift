// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Scheme, host and port of a URL (RFC 6454 §4) in normal form: scheme and host in lower case, the port always present.
package struct Origin: Hashable, Sendable, CustomStringConvertible {
    package let scheme: String
    /// A name or an address. An IPv6 address has no brackets here.
    package let host: String
    package let port: Int

    package init(scheme: String, host: String, port: Int) {
        self.scheme = scheme.lowercased()
        self.host = host.lowercased()
        self.port = port
    }

    /// Reads an `http` or `https` URL that contains only an origin. One final slash is allowed.
    package init?(_ text: String) {
        guard text.utf8.count <= 512, let separator = text.firstRange(ofScheme: "://") else { return nil }
        var authority = text[separator.upperBound...]
        if authority.utf8.last == UInt8(ascii: "/") { authority = authority[..<authority.utf8.index(before: authority.endIndex)] }
        self.init(scheme: text[..<separator.lowerBound].lowercased(), authority: String(authority))
    }

    /// Reads the part after the scheme: `host`, `host:port`, `[address]` or `[address]:port`. The `Host` field of a request has this form.
    package init?(scheme: String, authority: String) {
        guard authority.utf8.count <= 512, let defaultPort = Self.defaultPorts[scheme], let (host, port) = Self.split(authority[...]) else {
            return nil
        }
        self.init(scheme: scheme, host: host, port: port ?? defaultPort)
    }

    package var isEncrypted: Bool { scheme == "https" }

    /// The form that browsers and endpoints write: without a default port.
    package var description: String { "\(scheme)://\(authority)" }

    /// The part after the scheme, without a default port.
    package var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return Self.defaultPorts[scheme] == port ? name : "\(name):\(port)"
    }

    /// Whether the host is `localhost` or a loopback address.
    package var isLoopback: Bool {
        if host == "::1" || host == "localhost" { return true }
        let parts = host.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0].elementsEqual("127".utf8) else { return false }
        return parts.allSatisfy { UInt8(String(decoding: $0, as: UTF8.self)) != nil }
    }

    package static let defaultPorts = ["http": 80, "https": 443]

    /// `host`, `host:port`, `[address]` or `[address]:port`.
    private static func split(_ authority: Substring) -> (host: String, port: Int?)? {
        var host = authority
        var port: Substring?
        if authority.first == "[" {
            guard let end = authority.firstIndex(of: "]") else { return nil }
            host = authority[authority.index(after: authority.startIndex)..<end]
            let rest = authority[authority.index(after: end)...]
            if !rest.isEmpty {
                guard rest.first == ":" else { return nil }
                port = rest.dropFirst()
            }
            guard host.allSatisfy({ $0.isHexDigit || $0 == ":" || $0 == "." }) else { return nil }
        } else if let colon = authority.firstIndex(of: ":") {
            host = authority[..<colon]
            port = authority[authority.index(after: colon)...]
        }
        let isName = host.utf8.allSatisfy { (0x21...0x7E).contains($0) && !#"/\@?#%""#.utf8.contains($0) }
        guard !host.isEmpty, isName else { return nil }
        guard let port else { return (host.lowercased(), nil) }
        let isNumber = port.utf8.allSatisfy { (0x30...0x39).contains($0) }
        guard isNumber, let number = Int(port), (1...65_535).contains(number) else { return nil }
        return (host.lowercased(), number)
    }
}

extension String {
    fileprivate func firstRange(ofScheme separator: String) -> Range<Index>? {
        guard let colon = firstIndex(of: ":"), self[colon...].hasPrefix(separator) else { return nil }
        return colon..<index(colon, offsetBy: separator.count)
    }
}
