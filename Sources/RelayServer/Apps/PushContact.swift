// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Whom a Web Push service may ask about a relay's pushes: a `mailto:` or `https:` URL (RFC 8292 §2.1) at a public name. Apple refuses others.
package enum PushContact {
    /// Top-level names that lead nowhere on the Internet (RFC 6761, RFC 6762, RFC 7686, RFC 8375, RFC 9476, ICANN).
    private static let privateNames = [
        "localhost", "local", "internal", "intranet", "lan", "home", "corp", "private", "test", "invalid", "onion", "arpa", "alt",
    ]

    package static func isPublic(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        // Visible ASCII alone, so that it can be compared and split by bytes.
        guard bytes.count <= 256, bytes.allSatisfy({ (0x21...0x7E).contains($0) }) else { return false }
        if let address = remainder(of: bytes, after: "mailto:") {
            let parts = address.split(separator: UInt8(ascii: "@"), omittingEmptySubsequences: false)
            return parts.count == 2 && !parts[0].isEmpty && !address.contains(UInt8(ascii: "?")) && isPublicHost(parts[1])
        }
        guard let rest = remainder(of: bytes, after: "https://") else { return false }
        let authority = rest.prefix { !"/?#".utf8.contains($0) }
        let parts = authority.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        guard let host = parts.first, isPublicHost(host) else { return false }
        return parts.count == 1 || UInt16(String(decoding: parts[1], as: UTF8.self)).map { $0 > 0 } ?? false
    }

    private static func remainder(of bytes: [UInt8], after scheme: String) -> ArraySlice<UInt8>? {
        let prefix = bytes.prefix(scheme.utf8.count).map { (0x41...0x5A).contains($0) ? $0 + 0x20 : $0 }
        return prefix.elementsEqual(scheme.utf8) ? bytes.dropFirst(scheme.utf8.count) : nil
    }

    /// A DNS name of two labels or more whose last one is public. An IP address is no name: its last label has digits.
    private static func isPublicHost(_ host: ArraySlice<UInt8>) -> Bool {
        let labels = host.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let letters = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
        let others = letters.union("0123456789-".utf8)
        guard labels.count >= 2, host.count <= 253, labels.allSatisfy({ (1...63).contains($0.count) && $0.allSatisfy(others.contains) }),
            let last = labels.last, last.contains(where: letters.contains)
        else { return false }
        let top = String(decoding: last, as: UTF8.self).lowercased()
        return !privateNames.contains { $0.utf8.elementsEqual(top.utf8) }
    }
}
