// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Tokens that follow each other, at a real relay.
@Suite(.serialized, .timeLimit(.minutes(10))) struct RefreshingTests {
    static func provider() -> JoinLinkAccessTokenProvider { JoinLinkAccessTokenProvider(clientID: JoiningBench.clientID) }

    @Test func concurrentRequestsShareOneRefresh() async throws {
        let bench = try await JoiningBench()
        let endpoint = try await bench.joined()
        let first = try endpoint.stored()
        try await endpoint.expire()
        let shared = Self.provider()
        let tokens = try await withThrowingTaskGroup(of: AccessToken.self) { group in
            // By one provider and by several, which share nothing but the files, as processes do.
            for number in 0..<8 {
                let request = try endpoint.request()
                group.addTask { try await (number % 2 == 0 ? shared : Self.provider()).accessToken(for: request) }
            }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(tokens.count == 1)
        #expect(tokens.first?.value == (try endpoint.stored().accessToken.exposed))
        #expect(try endpoint.stored().refreshToken != first.refreshToken)
    }

    /// A process that is there for a long time discovers the issuer once. Each connection costs a device more bytes than an hour of silence.
    @Test func laterRefreshesAreOneRequest() async throws {
        let port = try FreePort.take()
        let bench = try await JoiningBench(arguments: ["--metrics-listen", "127.0.0.1:\(port)"])
        func requests() async throws -> Int {
            let text = try await SignInBrowser.request("GET", "http://127.0.0.1:\(port)/metrics").text
            let line = text.split(separator: "\n").first { $0.hasPrefix(#"relay_http_requests_total{status="200"}"#) }
            return try #require(line?.split(separator: " ").last.flatMap { Double($0) }.map { Int($0) })
        }
        let endpoint = try await bench.joined()
        let provider = Self.provider()
        try await endpoint.expire()
        _ = try await provider.accessToken(for: try endpoint.request())
        let before = try await requests()
        for _ in 0..<3 {
            try await endpoint.expire()
            _ = try await provider.accessToken(for: try endpoint.request())
        }
        #expect(try await requests() - before == 3)
        // A token that the relay does not take asks again whom it trusts.
        await provider.accessTokenInvalidated(try endpoint.request())
        _ = try await provider.accessToken(for: try endpoint.request())
        #expect(try await requests() - before == 6)
    }

    @Test(arguments: [900_000, 60_000, 3_000, 0] as [Int64]) func tokenIsReplacedInTheLastThirdOfItsLife(life: Int64) async throws {
        let bench = try await JoiningBench()
        let endpoint = try await bench.joined()
        try await endpoint.tokens.withExclusiveAccess { $0?.accessTokenLife = life }
        let first = try endpoint.stored()
        let early = endpoint.with { first.accessTokenExpires - life / 3 - 1 }
        #expect(try await Self.provider().accessToken(for: try early.request()).value == first.accessToken.exposed)
        let late = endpoint.with { first.accessTokenExpires - life / 3 }
        #expect(try await Self.provider().accessToken(for: try late.request()).value != first.accessToken.exposed)
    }

    @Test func refreshIsRepeatedAfterALostResponse() async throws {
        let bench = try await JoiningBench()
        let endpoint = try await bench.joined()
        try await endpoint.expire()
        // Another process of the endpoint refreshes, and ends before it stores the tokens.
        let copy = try bench.tokens("lost")
        let stored = try endpoint.stored()
        try await copy.withExclusiveAccess { $0 = stored }
        let lost = endpoint.with(tokens: copy)
        _ = try await Self.provider().accessToken(for: try lost.request())
        _ = try await Self.provider().accessToken(for: try endpoint.request())
        #expect(try endpoint.stored().refreshToken == lost.stored().refreshToken)
        #expect(try endpoint.stored().refreshToken != stored.refreshToken)
        // The login stays valid.
        try await endpoint.expire()
        #expect(try await tokenError(Self.provider(), endpoint) == nil)
    }

    @Test func invalidatedTokenIsReplacedOnce() async throws {
        let bench = try await JoiningBench()
        let endpoint = try await bench.joined()
        let (one, other) = (Self.provider(), Self.provider())
        let request = try endpoint.request()
        let first = try await one.accessToken(for: request)
        #expect(try await other.accessToken(for: request) == first)
        await one.accessTokenInvalidated(request)
        let second = try await one.accessToken(for: request)
        #expect(second != first)
        // A late invalidation of the first token does not invalidate the second.
        await other.accessTokenInvalidated(request)
        #expect(try await other.accessToken(for: request) == second)
        await other.accessTokenInvalidated(request)
        #expect(try await one.accessToken(for: request) != second)
    }

    @Test func revokedLoginRequiresSignIn() async throws {
        let bench = try await JoiningBench()
        let endpoint = try await bench.joined()
        let stored = try endpoint.stored()
        #expect(try await bench.revoke(try #require(stored.refreshToken), at: endpoint) == 200)
        try await endpoint.expire()
        #expect(try await tokenError(Self.provider(), endpoint) == .signInRequired)
        // A new link helps.
        try await redeem(try await bench.link(), clientID: JoiningBench.clientID, as: endpoint)
        #expect(try await tokenError(Self.provider(), endpoint) == nil)
    }

    @Test func refreshTokenRequiresItsKey() async throws {
        let bench = try await JoiningBench()
        let endpoint = try await bench.joined()
        try await endpoint.expire()
        #expect(try await tokenError(Self.provider(), endpoint.with(key: P256SigningKey())) == .signInRequired)
        #expect(try await tokenError(Self.provider(), endpoint) == nil)
    }

    @Test func missingLoginRequiresSignIn() async throws {
        let directory = try TemporaryDirectory()
        let relay = MachineBench.relay
        let endpoint = EndpointCredentials(
            identityKey: P256SigningKey(),
            tokens: FileTokenStorage(directory: directory.path),
            relay: relay,
            address: try RelayAddress(try #require(URL(string: "https://relay.example"))),
            trust: RelayTrust(relay: relay)
        )
        #expect(try await tokenError(Self.provider(), endpoint) == .signInRequired)
        var sample = StoredTokens.sample
        sample.refreshToken = nil
        let stored = sample
        try await endpoint.tokens.withExclusiveAccess { $0 = stored }
        #expect(try await tokenError(Self.provider(), endpoint) == .signInRequired)
    }

    @Test func accessTokenRequestMakesDPoPProofs() async throws {
        let key = P256SigningKey()
        let relay = MachineBench.relay
        let endpoint = EndpointCredentials(
            identityKey: key,
            tokens: FileTokenStorage(directory: "/nowhere"),
            relay: relay,
            address: try RelayAddress(try #require(URL(string: "https://relay.example"))),
            trust: RelayTrust(relay: relay),
            now: { 1_700_000_000_000 }
        )
        let url = try #require(URL(string: "https://login.example/token?x=1#y"))
        let request = try endpoint.request()
        for (time, now) in [(nil, 1_700_000_000_000), (Date(timeIntervalSince1970: 1_600_000_000), 1_600_000_000_000)] as [(Date?, Int64)] {
            let proof = try request.proof(method: "POST", url: url, accessToken: AccessToken("token"), time: time)
            let checked = try DPoPProof(
                checking: proof,
                method: "POST",
                urls: ["https://login.example/token"],
                now: Milliseconds(clamping: now),
                accessToken: "token"
            )
            #expect(checked.key == key.publicKey)
        }
        let unknown = AccessTokenRequest(accountID: "me", relay: url)
        #expect(throws: AccessTokenError.self) { try unknown.proof(method: "POST", url: url) }
    }
}
