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

    /// Whether the issuer has said that the token is active, even if that was too long ago to count.
    func isKnown(_ token: Digest256) -> Bool { entries[token]?.claims != nil }

    mutating func insert(_ entry: Entry, for token: Digest256) {
        if entries[token] == nil, entries.count >= capacity { makeRoom(at: entry.askedAt.count) }
        entries[token] = entry
    }

    /// Invented tokens go first, so that they displace no known ones.
    private mutating func makeRoom(at time: Int64) {
        for isKept in [{ $0.claims != nil || time < $0.ends }, { $0.claims != nil }, { time < $0.ends }] as [(Entry) -> Bool] {
            entries = entries.filter { isKept($0.value) }
            if entries.count < capacity { return }
        }
        // Each of the rest is worth one question.
        entries = [:]
    }
}
