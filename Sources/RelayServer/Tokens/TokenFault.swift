// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

/// A rejected token: the check that failed, and what the operator needs to find the cause.
package struct TokenFault: Error, Hashable {
    package var error: TokenError
    /// The key of the trusted issuer whose rules were applied.
    var issuer: String?
    /// The member of the header or the claim that was checked.
    var name: String?
    /// What the relay's settings require of it.
    var expected: String?
    /// What the token has. Its sender chose it, so it is cleaned.
    private(set) var found: String?

    init(_ error: TokenError, issuer: String? = nil, name: String? = nil, expected: String? = nil, found: String? = nil) {
        self.error = error
        self.issuer = issuer
        self.name = name
        self.expected = expected
        self.found = found.map(Self.cleaned)
    }

    static let maximumFoundBytes = 200

    /// Visible ASCII only, and bounded: the text is written to a log.
    private static func cleaned(_ text: String) -> String {
        let bytes = text.utf8.prefix(maximumFoundBytes).map { (0x20...0x7E).contains($0) ? $0 : UInt8(ascii: "?") }
        return String(decoding: bytes, as: UTF8.self) + (text.utf8.count > maximumFoundBytes ? "…" : "")
    }

    /// For the user. It repeats nothing of the token.
    package var message: String {
        guard let name else { return error.message }
        let claim = expected.map { "The token's \(name) has to be \($0)." } ?? "It is about the token's \(name)."
        return "\(error.message) \(claim)"
    }

    var rejection: TokenRejection { TokenRejection(code: error.code, message: message) }

    var metadata: Logger.Metadata {
        var metadata: Logger.Metadata = ["check": "\(error)", "issuer": "\(issuer ?? "none")"]
        if let name { metadata["name"] = "\(name)" }
        if let expected { metadata["expected"] = "\(expected)" }
        if let found { metadata["found"] = "\(found)" }
        return metadata
    }
}

/// Limits how often a line of one kind is logged: once a minute, with the number of those that were left out.
struct LogPace<Kind: Hashable> {
    static var pause: Int64 { 60_000 }

    private var lines: [Kind: (at: Int64, leftOut: Int)] = [:]

    /// - Returns: How many lines of the kind were left out before this one; `nil` if this one is left out.
    mutating func take(_ kind: Kind, at now: Milliseconds) -> Int? {
        // A clock that was set back must not silence the log.
        guard let last = lines[kind], (0..<Self.pause).contains(now.count - last.at) else {
            defer { lines[kind] = (now.count, 0) }
            return lines[kind]?.leftOut ?? 0
        }
        lines[kind]?.leftOut += 1
        return nil
    }
}
