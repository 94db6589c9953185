// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// An address at an issuer: `https`, or `http` on loopback. It has no user, query or fragment, so that two spellings of one address are rare.
package struct IssuerURL: Hashable, Sendable, CustomStringConvertible {
    /// As it was written: an issuer's name is compared by its bytes.
    package let description: String
    let origin: Origin
    /// Empty, or from the first slash on.
    let path: String

    package init?(_ text: String) {
        guard text.utf8.count <= 1_024, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && !#""<>\^`{|}?#@"#.utf8.contains($0) }),
            let scheme = ["https", "http"].first(where: { text.hasPrefix($0 + "://") })
        else { return nil }
        let rest = text.dropFirst(scheme.utf8.count + 3)
        let end = rest.firstIndex(of: "/") ?? rest.endIndex  // ASCII only
        guard let origin = Origin(scheme: scheme, authority: String(rest[..<end])), origin.isEncrypted || origin.isLoopback else {
            return nil
        }
        self.description = text
        self.origin = origin
        self.path = String(rest[end...])
    }

    /// Where an issuer of this name may publish its metadata: as RFC 8414 §3.1 has it, then as OpenID Connect Discovery §4 does.
    var metadataAddresses: [IssuerURL] {
        let path = path.hasSuffix("/") ? String(path.dropLast()) : path  // ASCII only
        return ["/.well-known/oauth-authorization-server" + path, path + "/.well-known/openid-configuration"].compactMap {
            IssuerURL(origin.description + $0)
        }
    }
}
