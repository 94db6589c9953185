// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

/// A URL that requests are sent to, without user information, query and fragment. A server may have supplied it.
struct ServerURL: Hashable {
    static let maximumBytes = 2_048

    /// The URL as it was received.
    let text: String
    let path: String
    let address: RelayAddress

    /// A URL at a known address; `nil` for one with another address or scheme.
    init?(_ text: String, at address: RelayAddress) {
        self.init(text, allowsPlaintext: true)
        guard self.address.server == address.server, text.hasPrefix("\(address.server.scheme)://") else { return nil }
    }

    /// A URL of another server that a relay or issuer named: with TLS. Only a relay on this machine may name other servers on it, so that no
    /// relay sends this device or its browser to the services of the device itself.
    init?(_ text: String, namedBy relay: RelayAddress) {
        self.init(text, allowsPlaintext: false)
        guard !RelayHosts.isThisDevice(address.host) || RelayHosts.isThisDevice(relay.host) else { return nil }
    }

    private init?(_ text: String, allowsPlaintext: Bool) {
        guard Self.isVisible(text), ["https://", "http://"].contains(where: text.hasPrefix), let url = URL(exactly: text),
            let path = URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedPath,
            let address = try? RelayAddress(url, allowsPlaintext: allowsPlaintext)
        else { return nil }
        self.text = text
        self.path = path.isEmpty ? "/" : path
        self.address = address
    }

    /// Whether a text has the length and the characters of a URL.
    static func isVisible(_ text: String) -> Bool {
        (1...maximumBytes).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }

    /// A URL that a person opens in a browser, with or without a query. It is at the relay, or at a server that the relay may name.
    static func page(_ text: String, namedBy relay: RelayAddress) -> URL? {
        guard isVisible(text), let url = URL(exactly: text), var components = URLComponents(url: url, resolvingAgainstBaseURL: true) else {
            return nil
        }
        (components.query, components.fragment) = (nil, nil)
        guard let bare = components.url?.absoluteString, Self(bare, namedBy: relay) != nil || Self(bare, at: relay) != nil else {
            return nil
        }
        return url
    }
}
