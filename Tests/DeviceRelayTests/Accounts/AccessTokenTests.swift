// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Testing

@Suite struct AccessTokenTests {
    @Test func accessTokenIsNotPrinted() {
        let token = AccessToken("eyJ-canary")
        var dumped = ""
        dump(token, to: &dumped)
        for text in ["\(token)", String(reflecting: token), dumped, "\([token])"] { #expect(!text.contains("canary")) }
    }

    @Test func errorDescriptionOmitsItsCause() {
        struct Cause: Error { let secret = "canary" }
        let error = AccessTokenError(.serviceFailed, message: "the issuer answered 500", cause: Cause())
        #expect(error.description == "serviceFailed: the issuer answered 500")
        #expect(error.isTransient)
        #expect(!AccessTokenError(.signInRequired, message: "").isTransient)
    }

    @Test func staticProviderReturnsTheNextTokenAfterInvalidation() async throws {
        let provider = StaticAccessTokenProvider(AccessToken("one"), AccessToken("two"))
        let request = AccessTokenRequest(accountID: "me", relay: try #require(URL(string: "https://relay.example")))
        #expect(try await provider.accessToken(for: request).value == "one")
        #expect(try await provider.accessToken(for: request).value == "one")
        await provider.accessTokenInvalidated(request)
        #expect(try await provider.accessToken(for: request).value == "two")
        await provider.accessTokenInvalidated(request)
        await provider.accessTokenInvalidated(request)
        await #expect { _ = try await provider.accessToken(for: request) } throws: { ($0 as? AccessTokenError)?.code == .signInRequired }
    }
}
