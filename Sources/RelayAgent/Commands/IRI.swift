// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

/// An address with letters outside ASCII (RFC 3987), as a person types or pastes it.
enum IRI {
    /// The schemes whose host is a name of the DNS.
    private static let schemesWithNames: Set<String> = ["http", "https", "ws", "wss", "ftp"]

    /// The URI that a browser makes of an IRI: a host name in its ASCII form (UTS 46), and all other characters outside ASCII
    /// percent-encoded in UTF-8. No ASCII character changes, even if no URI has it. A text without others stays as it is.
    /// - Throws: `invalidURI` if the host has no ASCII form.
    static func uri(_ text: String) throws(AgentError) -> String {
        let bytes = Array(text.utf8)
        guard bytes.contains(where: { $0 >= 0x80 }) else { return text }
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")), bytes[colon...].dropFirst().starts(with: "//".utf8),
            schemesWithNames.contains(String(decoding: bytes[..<colon], as: UTF8.self).lowercased())
        else { return encoded(bytes[...]) }
        let authority = bytes[(colon + 3)...].prefix { !"/?#".utf8.contains($0) }
        let start = authority.lastIndex(of: UInt8(ascii: "@")).map { $0 + 1 } ?? authority.startIndex
        let end = authority[start...].firstIndex(of: UInt8(ascii: ":")) ?? authority.endIndex
        return encoded(bytes[..<start]) + (try host(bytes[start..<end])) + encoded(bytes[end...])
    }

    private static func host(_ bytes: ArraySlice<UInt8>) throws(AgentError) -> String {
        let text = String(decoding: bytes, as: UTF8.self)
        guard bytes.contains(where: { $0 >= 0x80 }) else { return text }
        // Foundation reads only the host: nothing that could end it is in the text.
        guard let name = URLComponents(string: "https://\(text)/")?.encodedHost,
            name.utf8.allSatisfy({ $0 < 0x80 && $0 != UInt8(ascii: "%") })
        else { throw AgentError("invalidURI", "'\(text)' is not the name of a host", .usage) }
        return name
    }

    /// The bytes with those outside ASCII percent-encoded, except invisible characters: these are refused later.
    private static func encoded(_ bytes: ArraySlice<UInt8>) -> String {
        String(decoding: bytes, as: UTF8.self).unicodeScalars.map { scalar in
            guard !scalar.isASCII, DisplayText.isPlain(String(scalar)), let code = UTF8.encode(scalar) else { return String(scalar) }
            return code.map { "%" + String($0, radix: 16, uppercase: true) }.joined()
        }.joined()
    }
}
