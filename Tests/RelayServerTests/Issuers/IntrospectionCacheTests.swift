// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

@Suite struct IntrospectionCacheTests {
    private func digest(_ number: Int) -> Digest256 { Digest256(hashing: Array("\(number)".utf8)) }

    private func claims() throws -> TokenClaims { try TokenClaims(json: JSONValue(parsing: Array("{}".utf8))) }

    @Test func answersExpire() throws {
        var cache = IntrospectionCache()
        cache.insert(.init(claims: try claims(), askedAt: 1_000, life: 50_000), for: digest(1))
        cache.insert(.init(claims: nil, askedAt: 1_000, life: 50_000), for: digest(2))
        #expect(cache.entry(digest(1), now: 50_999)?.claims != nil)
        #expect(cache.entry(digest(1), now: 51_000) == nil)
        // That a token is not active is asked again sooner.
        let inactive = try #require(cache.entry(digest(2), now: 10_999))
        #expect(inactive.claims == nil)
        #expect(cache.entry(digest(2), now: 11_000) == nil)
        // Neither does a clock that was set back keep an answer.
        #expect(cache.entry(digest(1), now: 999) == nil)
        #expect(cache.entry(digest(3), now: 1_000) == nil)
    }

    @Test func entriesAreBounded() throws {
        var cache = IntrospectionCache(capacity: 3)
        for number in 1...100 { cache.insert(.init(claims: nil, askedAt: 1_000, life: 50_000), for: digest(number)) }
        #expect(cache.count <= 3)
        #expect(cache.entry(digest(100), now: 1_000) != nil)
        // Those whose time is over go first.
        cache = IntrospectionCache(capacity: 2)
        cache.insert(.init(claims: try claims(), askedAt: 1_000, life: 50_000), for: digest(1))
        cache.insert(.init(claims: nil, askedAt: 1_000, life: 50_000), for: digest(2))
        cache.insert(.init(claims: nil, askedAt: 12_000, life: 50_000), for: digest(3))
        #expect(cache.entry(digest(1), now: 12_000) != nil)
        #expect(cache.entry(digest(3), now: 12_000) != nil)
        #expect(cache.count == 2)
    }
}
