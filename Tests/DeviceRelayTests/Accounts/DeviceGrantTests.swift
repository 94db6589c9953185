// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// The device grant at a real relay and its issuer, with a scripted browser of the user.
@Suite(.serialized, .timeLimit(.minutes(10))) struct DeviceGrantTests {
    /// A relay with the account Anna, who has a password and is signed in in her browser.
    static func bench() async throws -> (JoiningBench, SignInBrowser, RelayID) {
        let bench = try await JoiningBench()
        let browser = SignInBrowser(origin: bench.relayd.origin)
        try await browser.setUp(try await bench.relayd.run("account", "set-up", "Anna"))
        return (bench, browser, try await bench.link().relay)
    }

    static func provider(_ prompts: AsyncStream<DeviceGrantPrompt>.Continuation, issuer: URL? = nil) -> DeviceGrantAccessTokenProvider {
        // Real time: the relay's issuer accepts a request in each five seconds.
        DeviceGrantAccessTokenProvider(clientID: JoiningBench.clientID, issuer: issuer) { prompts.yield($0) }
    }

    @Test func userAllowsTheDevice() async throws {
        let (bench, browser, relay) = try await Self.bench()
        let endpoint = try bench.endpoint(relay: relay)
        let (prompts, continuation) = AsyncStream.makeStream(of: DeviceGrantPrompt.self)
        let provider = Self.provider(continuation)
        let request = try endpoint.request(device: "TV <living room>")
        async let token = provider.accessToken(for: request)
        for await prompt in prompts {
            #expect(prompt.accountID == "me")
            #expect(prompt.verificationURI.absoluteString == bench.relayd.origin + "/auth/device")
            #expect(prompt.verificationURIComplete?.absoluteString.hasSuffix(prompt.userCode) == true)
            try await browser.decide(device: prompt.verificationURI, code: prompt.userCode)
            break
        }
        let value = try await token.value
        // It is bound to the endpoint's key, and the login is stored.
        #expect(try boundKey(of: value) == endpoint.identityKey.publicKey.jwkThumbprint)
        let stored = try endpoint.stored()
        #expect(stored.accessToken.exposed == value && stored.isOtherIssuer == false)
        #expect(try await browser.get("/auth/account").text.contains("TV &lt;living room&gt;"))
        // It goes on without the user, by any provider of the SDK.
        try await endpoint.expire()
        #expect(try await provider.accessToken(for: request).value != value)
        try await endpoint.expire()
        #expect(try await tokenError(RefreshingTests.provider(), endpoint) == nil)
        continuation.finish()
        #expect(await prompts.first { _ in true } == nil)
    }

    @Test func userDoesNotAllowTheDevice() async throws {
        let (bench, browser, relay) = try await Self.bench()
        let endpoint = try bench.endpoint(relay: relay)
        let (prompts, continuation) = AsyncStream.makeStream(of: DeviceGrantPrompt.self)
        async let failure = tokenError(Self.provider(continuation), endpoint)
        for await prompt in prompts {
            try await browser.decide(device: prompt.verificationURI, code: prompt.userCode, "deny")
            break
        }
        #expect(try await failure == .declined)
        #expect(try endpoint.tokens.read() == nil)
    }

    @Test func endedLoginAsksTheUserAgain() async throws {
        let (bench, browser, relay) = try await Self.bench()
        let endpoint = try bench.endpoint(relay: relay)
        let (prompts, continuation) = AsyncStream.makeStream(of: DeviceGrantPrompt.self)
        let provider = Self.provider(continuation)
        var iterator = prompts.makeAsyncIterator()
        for round in 1...2 {
            async let failure = tokenError(provider, endpoint)
            let prompt = try #require(await iterator.next())
            try await browser.decide(device: prompt.verificationURI, code: prompt.userCode)
            #expect(try await failure == nil, "round \(round)")
            #expect(try await bench.revoke(try #require(endpoint.stored().refreshToken), at: endpoint) == 200)
            try await endpoint.expire()
        }
    }

    @Test func issuerThatTheRelayDoesNotNameIsNotAsked() async throws {
        let (bench, _, relay) = try await Self.bench()
        let endpoint = try bench.endpoint(relay: relay)
        let (prompts, continuation) = AsyncStream.makeStream(of: DeviceGrantPrompt.self)
        let provider = Self.provider(continuation, issuer: URL(string: "https://login.example"))
        #expect(try await tokenError(provider, endpoint) == .declined)
        continuation.finish()
        #expect(await prompts.first { _ in true } == nil)
    }

    @Test func cancelledSignInFreesTheStorage() async throws {
        let (bench, _, relay) = try await Self.bench()
        let endpoint = try bench.endpoint(relay: relay)
        let (prompts, continuation) = AsyncStream.makeStream(of: DeviceGrantPrompt.self)
        let task = Task { try await tokenError(Self.provider(continuation), endpoint) }
        _ = await prompts.first { _ in true }
        task.cancel()
        #expect(try await task.value == .cancelled)
        try await endpoint.tokens.withExclusiveAccess { _ in }
    }
}

/// The thumbprint of the key that a token is bound to.
func boundKey(of token: String) throws -> String {
    let claims = try SignedJSON(parsing: token).claims(JSONValue.self)
    return try (claims.member("cnf") as JSONValue).member("jkt")
}
