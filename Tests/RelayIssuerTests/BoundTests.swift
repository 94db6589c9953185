// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayIssuer

@Suite struct BoundTests {
    func proof(_ name: UInt8, at time: Milliseconds = 1_000_000) throws -> DPoPProof {
        try DPoPProof(checking: Self.text(name, at: time), method: "POST", urls: ["u"], now: time)
    }

    static let key = P256SigningKey()

    static func text(_ name: UInt8, at time: Milliseconds) throws -> String {
        try DPoPProof.make(method: "POST", url: "u", jti: [name], now: time, with: key)
    }

    @Test func proofIsRejectedAsReplayedUntilItExpires() throws {
        var cache = ReplayCache(began: 1_000_000)
        let first = try proof(1)
        #expect(cache.use(first, now: 1_000_000) == .fresh)
        #expect(cache.use(first, now: 1_000_000) == .replayed)
        #expect(cache.use(first, now: 1_060_000) == .replayed)
        // From here on the proof itself is too old.
        #expect(throws: DPoPError.time) {
            try DPoPProof(checking: Self.text(1, at: 1_000_000), method: "POST", urls: ["u"], now: first.ends)
        }
    }

    /// Its use by the process before this one is not known.
    @Test func proofFromBeforeTheStartIsRejected() throws {
        var cache = ReplayCache(began: 1_000_500)
        #expect(cache.use(try proof(1, at: 999_000), now: 1_000_500) == .replayed)
        #expect(cache.use(try proof(1, at: 1_000_000), now: 1_000_500) == .fresh)
    }

    @Test func fullCacheKeepsUnexpiredProofs() throws {
        var cache = ReplayCache(began: 1_000_000, capacity: 2)
        #expect(cache.use(try proof(1), now: 1_000_000) == .fresh)
        #expect(cache.use(try proof(2), now: 1_000_000) == .fresh)
        #expect(cache.use(try proof(3), now: 1_000_000) == .full)
        #expect(cache.use(try proof(1), now: 1_000_000) == .replayed)
        #expect(cache.use(try proof(3, at: 1_061_000), now: 1_061_000) == .fresh)
        #expect(cache.count == 1)
    }

    @Test func countIsResetEachMinute() {
        var counts = RateLimiter(perWindow: 2, capacity: 10)
        #expect(counts.add("a", now: 1_000_000) == nil)
        #expect(counts.add("a", now: 1_000_001) == nil)
        #expect(counts.add("a", now: 1_010_000) == 50_000)
        #expect(counts.add("b", now: 1_010_000) == nil)
        #expect(counts.add("a", now: 1_060_000) == nil)
    }

    @Test func fullTableDoesNotBlockNewNames() {
        var counts = RateLimiter(perWindow: 1, capacity: 10_000)
        for number in 0..<50_000 {
            #expect(counts.add("\(number)", now: 1_000_000) == nil)
            #expect(counts.count <= 10_000)
        }
        #expect(counts.add("fresh", now: 1_000_000) == nil)
        #expect(counts.add("fresh", now: 1_000_000) != nil)
        // The latest names are still in memory.
        #expect(counts.add("49999", now: 1_000_000) != nil)
    }

    @Test func frequentNameStaysInTheTable() {
        var counts = RateLimiter(perWindow: 3, capacity: 10)
        for round in 0..<3 {
            #expect(counts.add("a", now: 1_000_000) == nil)
            for number in 0..<4 { #expect(counts.add("\(round) \(number)", now: 1_000_000) == nil) }
        }
        #expect(counts.add("a", now: 1_000_000) != nil)
    }

    /// So that only an attempt that costs a hash fills the tables.
    @Test func passwordAttemptThatIsRefusedIsNotCounted() {
        var limits = SignInLimits(attemptsPerHour: BackOff.free + 1)
        let account = SignInLimits.Account.user(subject: "a")
        func client(_ number: Int) -> SignInLimits.Client { .new(ClientNetworks(["\(number)"])) }
        for _ in 0..<BackOff.free { #expect(limits.attempt(account, by: client(1), now: 1_000_000) == nil) }
        #expect(limits.attempt(account, by: client(1), now: 1_000_000) == 1_000)
        #expect(limits.attempt(account, by: client(2), now: 1_000_000) == nil)
        for number in 3..<100 { #expect(limits.attempt(account, by: client(number), now: 1_000_000) == 3_600_000) }
        #expect(limits.count == 5)
    }

    @Test func clockSetBackResetsTheCount() {
        var counts = RateLimiter(perWindow: 1, capacity: 10)
        #expect(counts.add("a", now: 2_000_000) == nil)
        #expect(counts.add("a", now: 1_000_000) == nil)
    }
}
