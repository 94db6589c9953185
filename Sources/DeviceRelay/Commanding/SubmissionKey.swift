// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Makes a repeated submission the same command, also after a restart of the process: the key is stored in the transaction that stores the
/// command. It is kept for 24 h, and longer if the command lives longer.
public struct SubmissionKey: Hashable, Sendable {
    /// How many keys are kept. A submission beyond it is refused, so that no key is forgotten early.
    static let maximum = 10_000
    /// The shortest time for which a key is kept, in milliseconds.
    static let life: Int64 = 24 * 3_600_000

    /// Who chose the key. The keys of different principals are independent.
    public let principal: String
    /// The key: any text.
    public let key: String
    /// The SHA-256 of the request. A key that was used for another request is refused.
    let request: Digest256
    /// 1 for the second launch of one request: that of the fallback, after the app there did not support the URI.
    var attempt = 0

    /// Creates a key.
    /// - Parameters:
    ///   - key: Any text, unique for the principal.
    ///   - principal: Who chose the key. Default: the empty text, for an app with one source of keys.
    ///   - request: The bytes that say what is asked for.
    public init(_ key: String, of principal: String = "", request: some Sequence<UInt8>) {
        (self.principal, self.key, self.request) = (principal, key, Digest256(hashing: Array(request)))
    }
}

extension CommandFailure {
    static func keysMessage(_ limit: Int) -> String {
        "\(limit) submissions with a key are remembered, and each is kept for a day; nothing was sent"
    }
}
