// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The logins whose tokens are taken no more, although their time is not over.
struct WithdrawnLogins {
    private let capacity: Int
    private var ends: [Login: Milliseconds] = [:]

    /// Withdrawals are rare, and over after the life of a token: far fewer than this at a time.
    init(capacity: Int = 1 << 16) { self.capacity = capacity }

    var count: Int { ends.count }

    mutating func insert(_ login: Login, until: Milliseconds, now: Milliseconds) {
        if ends.count >= capacity { ends = ends.filter { now < $0.value } }
        // One too many takes the place of the one that is over first.
        if ends.count >= capacity, let first = ends.min(by: { $0.value < $1.value }) { ends[first.key] = nil }
        ends[login] = until
    }

    func contains(_ login: Login) -> Bool { ends[login] != nil }
}
