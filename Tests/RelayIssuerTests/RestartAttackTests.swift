// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayIssuer

/// An attacker uses again after a restart what was used before it.
@Suite struct RestartAttackTests {
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    @Test func proofThatWasUsedBeforeARestartIsRejected() async throws {
        let device = TestDevice()
        let tokens = try await device.join(test, code: try await test.invite())
        let proof = try device.proof(at: test.now)
        func refresh(_ token: Secret<String>?) async throws -> TokenResponse {
            let form = try device.form(["grant_type": "refresh_token", "refresh_token": try #require(token).exposed])
            return try await test.issuer.tokens.exchange(form, proof: proof, at: TestIssuer.url)
        }
        let next = try await refresh(tokens.refreshToken)
        await #expect(throws: OAuthError.self) { try await refresh(next.refreshToken) }
        try test.reopen()
        let error = await #expect(throws: OAuthError.self) { try await refresh(next.refreshToken) }
        #expect(error?.code == .invalidDPoPProof)
        // A new proof counts.
        _ = try await device.refresh(test, next.refreshToken)
    }

    @Test func passkeyAnswerThatWasUsedBeforeARestartIsRejected() async throws {
        let (key, owner) = (TestAuthenticator(), try await test.ada())
        let (cookies, code, fields) = try await test.browse { client in
            let browser = TestBrowser(client)
            try await browser.setUp(test, subject: owner)
            let challenge = try TestAuthenticator.challenge(try await browser.get("/account"), "create")
            #expect(try await browser.post("/account/passkey", try key.create(challenge)).status == 303)
            let visitor = TestBrowser(client)
            let fields = try key.get(try TestAuthenticator.challenge(try await visitor.get("/login"), "get"))
            let (cookies, code) = (visitor.cookies, visitor.code)
            #expect(try await visitor.post("/login/passkey", fields).status == 303)
            return (cookies, code, fields)
        }
        try test.reopen()
        try await test.browse { client in
            let attacker = TestBrowser(client)
            attacker.cookies = cookies
            let page = try await attacker.post("/login/passkey", fields.merging(["form_code": code]) { $1 })
            #expect(page.status == 403)
            #expect(try await !attacker.isSignedIn)
        }
    }
}
