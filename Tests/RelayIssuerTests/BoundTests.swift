// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayIssuer

@Suite struct BoundTests {
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

    /// So that only an attempt that costs a hash fills the store.
    @Test func passwordAttemptThatIsRefusedIsNotCounted() async throws {
        let test = try TestIssuer()
        let (context, limits) = (try test.issuer.context, SignInLimits(.password, attemptsPerHour: AttemptLimit.free + 1))
        func attempt(_ client: Int) async throws -> OAuthError? {
            let limits = limits.limits(of: .user(subject: "a"), by: .new(ClientNetworks(["\(client)"])))
            do throws(OAuthError) {
                try await context.countAttempt(limits)
                return nil
            } catch { return error }
        }
        for _ in 0..<AttemptLimit.free { #expect(try await attempt(1) == nil) }
        #expect(try await attempt(1) == .tooManyAttempts(1_000))
        #expect(try await attempt(2) == nil)
        for client in 3..<100 { #expect(try await attempt(client) == .tooManyAttempts(3_600_000)) }
        #expect(try await test.attemptRows() == 5)
    }

    /// Requests delete them, so that they do not fill the store.
    @Test func whatHasEndedIsDeleted() async throws {
        let (test, device) = (try TestIssuer(), TestDevice())
        _ = try await device.join(test, code: try await test.invite())
        let limits = [AttemptLimit("a", "b")]
        try await test.issuer.context.countAttempt(limits)
        func rows() async throws -> [Int] { [try await test.count("issuer_used"), try await test.attemptRows()] }
        #expect(try await rows() == [1, 1])
        func request() async throws { try await test.browse { _ = try await TestBrowser($0).get("/login") } }
        for (step, left) in [(59_999, [1, 1]), (120_000, [0, 1]), (Attempts.memory, [0, 0])] as [(Int64, [Int])] {
            test.pass(step)
            try await request()
            #expect(try await rows() == left)
        }
    }

    /// A database repeats transactions that met others.
    @Test func requestWhoseTransactionRunsAgainCountsOnce() throws {
        let test = try TestIssuer()
        let (issuer, request) = (try test.make(grantsPerMinute: 1), IssuerLimits.Request())
        func rejection(of request: IssuerLimits.Request) -> OAuthError? {
            issuer.limits.rejection(of: request, .tokens, subject: "a", login: "b", now: test.now)
        }
        for _ in 0..<2 { #expect(rejection(of: request) == nil) }
        #expect(rejection(of: .init())?.status == 429)
        try issuer.close()
    }

    @Test func clockSetBackResetsTheCount() {
        var counts = RateLimiter(perWindow: 1, capacity: 10)
        #expect(counts.add("a", now: 2_000_000) == nil)
        #expect(counts.add("a", now: 1_000_000) == nil)
    }
}
