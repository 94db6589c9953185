// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What an issuer said of tokens, by their hashes.
struct IntrospectionCache {
    /// How long a token that is not active is not asked about again, in milliseconds.
    static let inactiveLife: Int64 = 10_000

    struct Entry {
        /// `nil` if the token is not active.
        var claims: TokenClaims?
        var askedAt: Milliseconds
        /// How long an active token is not asked about again.
        var life: Int64

        fileprivate var ends: Int64 { askedAt.count + (claims == nil ? min(life, IntrospectionCache.inactiveLife) : life) }
    }

    private let capacity: Int
    private var entries: [Digest256: Entry] = [:]

    init(capacity: Int = 10_000) { self.capacity = capacity }

    var count: Int { entries.count }

    func entry(_ token: Digest256, now: Milliseconds) -> Entry? {
        // A clock that was set back must not lengthen an entry's life.
        entries[token].flatMap { $0.askedAt.count <= now.count && now.count < $0.ends ? $0 : nil }
    }

    mutating func insert(_ entry: Entry, for token: Digest256) {
        if entries[token] == nil, entries.count >= capacity {
            entries = entries.filter { entry.askedAt.count < $0.value.ends }
            // A full cache starts anew: its entries are worth one request each.
            if entries.count >= capacity { entries = [:] }
        }
        entries[token] = entry
    }
}
