// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import RelayProtocol

/// A redirect URI of a native app (RFC 8252 §7): HTTP at a loopback address with any port, or a scheme of the app's own in reverse DNS
/// form. Web addresses are not allowed, because anyone may register a client, and the issuer must not send browsers to arbitrary sites.
package struct RedirectURI: Hashable, Sendable {
    static let maximumBytes = 512

    private enum Kind: Hashable, Sendable {
        /// - rest: The part after the port.
        case loopback(Origin, rest: String)
        case privateUse(scheme: String)
    }

    package let text: String
    private let kind: Kind

    package init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count <= RedirectURI.maximumBytes,
            bytes.allSatisfy({ (0x21...0x7E).contains($0) && !#"#"<>\^`{|}"#.utf8.contains($0) }),
            let colon = bytes.firstIndex(of: UInt8(ascii: ":"))
        else { return nil }
        self.text = text
        let scheme = bytes[..<colon]
        let rest = bytes[bytes.index(after: colon)...]
        if scheme.elementsEqual("http".utf8) {
            guard rest.starts(with: "//".utf8) else { return nil }
            let authority = rest.dropFirst(2).prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
            // `Origin` accepts no user information.
            guard let origin = Origin(scheme: "http", authority: String(decoding: authority, as: UTF8.self)),
                ["127.0.0.1", "::1", "localhost"].contains(origin.host)
            else { return nil }
            self.kind = .loopback(origin, rest: String(decoding: rest.dropFirst(2 + authority.count), as: UTF8.self))
        } else {
            let isName = scheme.allSatisfy { byte in
                (0x61...0x7A).contains(byte) || (0x30...0x39).contains(byte) || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
            }
            guard isName, scheme.first.map({ (0x61...0x7A).contains($0) }) == true, scheme.contains(UInt8(ascii: ".")),
                rest.first == UInt8(ascii: "/"), !rest.starts(with: "//".utf8)
            else { return nil }
            self.kind = .privateUse(scheme: String(decoding: scheme, as: UTF8.self))
        }
    }

    /// The part that is registered: everything but the port of a loopback address, which an app chooses when it starts (RFC 8252 §7.3).
    package var registered: String {
        switch kind {
        case .loopback(let origin, let rest): "http://\(origin.host)\(rest)"
        case .privateUse: text
        }
    }

    /// Returns the URI with the parameters of a response.
    func with(_ parameters: [(String, String)]) -> String {
        let query = parameters.map { "\($0.0)=\(FormCoding.encode($0.1))" }.joined(separator: "&")
        return text + (text.utf8.contains(UInt8(ascii: "?")) ? "&" : "?") + query
    }

    /// The source for a content security policy, so that a form may lead to the URI.
    var policySource: String {
        switch kind {
        // The policy's grammar has no IPv6 addresses.
        case .loopback(let origin, _): origin.host == "::1" ? "http:" : "\(origin)"
        case .privateUse(let scheme): scheme + ":"
        }
    }

    /// The description of the target for people.
    var place: PageText {
        switch kind {
        case .loopback: PageText("app.place.loopback")
        case .privateUse(let scheme): PageText("app.place.privateUse", ["scheme": scheme])
        }
    }
}
