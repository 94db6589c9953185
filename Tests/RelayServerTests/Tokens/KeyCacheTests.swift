// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import Synchronization
import Testing

@testable import RelayServer

/// A source of keys that the test turns on and off, and a clock.
private final class PlayedSource: Sendable {
    struct Failure: Error {}

    struct State {
        var keys: JSONWebKeySet?
        var freshFor: Milliseconds?
        var requests = 0
        var now: Milliseconds = 1_700_000_000_000
        var gate: CheckedContinuation<Void, Never>?
        var isGated = false
    }

    let state: Mutex<State>

    init(_ keys: JSONWebKeySet?) { self.state = Mutex(State(keys: keys)) }

    func fetch() async throws -> FetchedKeys {
        let isGated = state.withLock {
            $0.requests += 1
            return $0.isGated
        }
        if isGated { await withCheckedContinuation { gate in state.withLock { $0.gate = gate } } }
        let (keys, freshFor) = state.withLock { ($0.keys, $0.freshFor) }
        guard let keys else { throw Failure() }
        return FetchedKeys(keys, freshFor: freshFor)
    }

    var requests: Int { state.withLock { $0.requests } }

    func pass(_ milliseconds: Int64) { state.withLock { $0.now = Milliseconds(clamping: $0.now.count + milliseconds) } }
}

@Suite struct KeyCacheTests {
    let issuer = PlayedIssuer()

    private func verifier(_ source: PlayedSource) -> TokenVerifier {
        var trusted = issuer.trusted
        trusted.check = .keys { try await source.fetch() }
        return TokenVerifier(issuers: [trusted], now: { source.state.withLock { $0.now } }, logger: Logger(label: "test"))
    }

    private func outcome(_ verifier: TokenVerifier, kid: String = "one") async throws -> TokenError? {
        let token = try issuer.token(header: #"{"alg":"ES256","typ":"at+jwt","kid":"\#(kid)"}"#, ["exp": "1800000000"])
        do throws(TokenError) {
            _ = try await verifier.verify(token, key: issuer.endpoint.publicKey)
            return nil
        } catch {
            return error
        }
    }

    @Test func keysAreFetchedOnce() async throws {
        let source = PlayedSource(issuer.keySet)
        let verifier = verifier(source)
        for _ in 0..<5 { #expect(try await outcome(verifier) == nil) }
        #expect(source.requests == 1)
    }

    /// A provider that replaced its key, and gave the new one the same id.
    @Test func newKeyWithTheSameIdIsFetchedOnce() async throws {
        let source = PlayedSource(issuer.keySet)
        let verifier = verifier(source)
        #expect(try await outcome(verifier) == nil)
        let other = PlayedIssuer()
        source.state.withLock { $0.keys = other.keySet }
        @Sendable func new() async throws -> TokenError? {
            let token = try other.token(["exp": "1800000000"])
            do throws(TokenError) {
                _ = try await verifier.verify(token, key: issuer.endpoint.publicKey)
                return nil
            } catch {
                return error
            }
        }
        // The pause between two requests holds, so that forged tokens cause no more of them.
        for _ in 0..<10 { #expect(try await new() == .signature) }
        #expect(source.requests == 1)
        source.pass(30_000)
        try await withThrowingTaskGroup(of: TokenError?.self) { group in
            for _ in 0..<10 { group.addTask { try await new() } }
            for try await refused in group { #expect(refused == nil) }
        }
        #expect(source.requests == 2)
        for _ in 0..<10 { #expect(try await outcome(verifier) == .signature) }
        source.pass(30_000)
        for _ in 0..<10 { #expect(try await outcome(verifier) == .signature) }
        #expect(source.requests == 3)
    }

    @Test func unknownKeyIdsCauseOneRequestInThirtySeconds() async throws {
        let source = PlayedSource(issuer.keySet)
        let verifier = verifier(source)
        #expect(try await outcome(verifier) == nil)
        for attempt in 0..<20 { #expect(try await outcome(verifier, kid: "unknown\(attempt)") == .unknownKey) }
        #expect(source.requests == 1)
        source.pass(30_000)
        for attempt in 0..<20 { #expect(try await outcome(verifier, kid: "unknown\(attempt)") == .unknownKey) }
        #expect(source.requests == 2)
    }

    @Test func newKeyIsFoundAfterThirtySeconds() async throws {
        let source = PlayedSource(JSONWebKeySet(keys: []))
        let verifier = verifier(source)
        #expect(try await outcome(verifier) == .unknownKey)
        source.state.withLock { $0.keys = issuer.keySet }
        #expect(try await outcome(verifier) == .unknownKey)
        source.pass(30_000)
        #expect(try await outcome(verifier) == nil)
    }

    @Test func oldKeysWorkWhileTheIssuerIsDown() async throws {
        let source = PlayedSource(issuer.keySet)
        let verifier = verifier(source)
        #expect(try await outcome(verifier) == nil)
        source.state.withLock { $0.keys = nil }
        source.pass(48 * 3_600_000)
        #expect(try await outcome(verifier) == nil)
        #expect(source.requests == 2)
        #expect(try await outcome(verifier, kid: "new") == .issuerUnavailable)
        #expect(source.requests == 2)
    }

    @Test func anIssuerThatNeverAnsweredIsUnavailable() async throws {
        let source = PlayedSource(nil)
        let verifier = verifier(source)
        for _ in 0..<5 { #expect(try await outcome(verifier) == .issuerUnavailable) }
        #expect(source.requests == 1)
        source.state.withLock { $0.keys = issuer.keySet }
        source.pass(30_000)
        #expect(try await outcome(verifier) == nil)
    }

    @Test func revokedKeyWorksUntilTheCacheExpires() async throws {
        let source = PlayedSource(issuer.keySet)
        source.state.withLock { $0.freshFor = 1 }
        let verifier = verifier(source)
        #expect(try await outcome(verifier) == nil)
        source.state.withLock { $0.keys = JSONWebKeySet(keys: []) }
        source.pass(299_999)
        #expect(try await outcome(verifier) == nil)
        source.pass(1)
        #expect(try await outcome(verifier) == .unknownKey)
    }

    @Test func cacheExpiresAfterOneDay() async throws {
        let source = PlayedSource(issuer.keySet)
        source.state.withLock { $0.freshFor = 1_000_000_000_000 }
        let verifier = verifier(source)
        #expect(try await outcome(verifier) == nil)
        source.pass(24 * 3_600_000 - 1)
        #expect(try await outcome(verifier) == nil)
        #expect(source.requests == 1)
        source.pass(1)
        #expect(try await outcome(verifier) == nil)
        #expect(source.requests == 2)
    }

    @Test func concurrentTokensShareOneRequest() async throws {
        let source = PlayedSource(issuer.keySet)
        source.state.withLock { $0.isGated = true }
        let verifier = verifier(source)
        let outcomes = try await withThrowingTaskGroup(of: TokenError?.self) { group in
            for _ in 0..<16 { group.addTask { try await outcome(verifier) } }
            while source.state.withLock({ $0.gate == nil }) { await Task.yield() }
            source.state.withLock {
                $0.isGated = false
                $0.gate?.resume()
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count == 16)
        #expect(outcomes.allSatisfy { $0 == nil })
        #expect(source.requests == 1)
    }

    @Test func clockSetBackDoesNotStopTheRequests() async throws {
        let source = PlayedSource(JSONWebKeySet(keys: []))
        let verifier = verifier(source)
        #expect(try await outcome(verifier) == .unknownKey)
        source.state.withLock { $0.keys = issuer.keySet }
        source.pass(-10_000)
        #expect(try await outcome(verifier) == nil)
    }
}
