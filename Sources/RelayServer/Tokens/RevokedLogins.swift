// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The revoked logins. Their unexpired tokens are rejected.
struct RevokedLogins {
    private let capacity: Int
    private var ends: [Login: Milliseconds] = [:]

    /// Revocations are rare and expire with the tokens, so far fewer than this exist at a time.
    init(capacity: Int = 1 << 16) { self.capacity = capacity }

    var count: Int { ends.count }

    mutating func insert(_ login: Login, until: Milliseconds, now: Milliseconds) {
        if ends.count >= capacity { ends = ends.filter { now < $0.value } }
        // A full table drops the entry that expires first.
        if ends.count >= capacity, let first = ends.min(by: { $0.value < $1.value }) { ends[first.key] = nil }
        ends[login] = until
    }

    func contains(_ login: Login) -> Bool { ends[login] != nil }
}
