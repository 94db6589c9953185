// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A URL at the relay's own address. A server may have supplied it.
struct RelayURL: Hashable {
    /// The URL as it was received.
    let text: String
    let path: String

    /// `nil` for a URL with another address or scheme, or with user information, query or fragment.
    init?(_ text: String, at address: RelayAddress) {
        guard text.utf8.count <= 2_048, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
            text.hasPrefix("\(address.server.scheme)://"), let url = URL(string: text),
            let path = URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedPath,
            let other = try? RelayAddress(url, allowsPlaintext: true), other.server == address.server
        else { return nil }
        self.text = text
        self.path = path.isEmpty ? "/" : path
    }
}
