// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import Testing

@testable import RelayIssuer

@Suite struct IssuerTests {
    let test: TestIssuer
    let device = TestDevice()

    init() throws { self.test = try TestIssuer() }

    func invite() async throws -> Secret<String> { try await test.invite() }

    /// The code of the error; `nil` on success.
    func refused(_ body: () async throws -> TokenResponse) async -> OAuthError.Code? {
        do {
            _ = try await body()
            return nil
        } catch {
            return (error as? OAuthError)?.code ?? .serverError
        }
    }

    func claims(_ response: TokenResponse) throws -> AccessTokenClaims {
        try SignedJSON(parsing: response.accessToken.exposed).claims(AccessTokenClaims.self)
    }

    // MARK: Invitations

    @Test func anInvitationGivesTokensForItsUser() async throws {
        let subject = try await test.issuer.createUser(name: "Ada")
        let response = try await device.join(test, code: test.issuer.invite(subject: subject))
        let claims = try claims(response)
        #expect(claims.sub == subject)
        #expect(claims.iss == TestIssuer.url)
        #expect(claims.aud == "the-relay")
        #expect(claims.clientID == "com.example.app")
        #expect(claims.exp.time.count - claims.iat.time.count == 900_000)
        #expect(claims.cnf?.jkt == device.key.publicKey.jwkThumbprint)
        #expect(response.isBound && response.refreshToken != nil)
        let header = try SignedJSON(parsing: response.accessToken.exposed).header
        #expect(header.typ == "at+jwt" && header.alg == "ES256")
        #expect(try await test.issuer.publishedKeys().keys.map(\.kid) == [header.kid])
    }

    @Test func tokenWithoutAProofIsUnbound() async throws {
        let response = try await device.join(test, code: invite(), isBound: false)
        #expect(try claims(response).cnf == nil)
        #expect(!response.isBound)
    }

    @Test func aCodeStartsOneLogin() async throws {
        let code = try await invite()
        let first = try await device.join(test, code: code)
        // The same device may have lost the response, so its key gets the same login again while the code is valid.
        test.pass(Invitation.life - 1)
        let again = try await device.join(test, code: code)
        let session = try #require(try claims(first).sid)
        #expect(try claims(again).sid == session)
        #expect(again.refreshToken?.exposed == first.refreshToken?.exposed)
        // Not without its key, not for another client, and not when the code has expired.
        #expect(await refused { try await device.join(test, code: code, isBound: false) } == .invalidGrant)
        var other = device
        other.client = "com.example.other"
        let refusal = await refused { [other] in try await other.join(test, code: code) }
        #expect(refusal == .invalidGrant)
        test.pass(1)
        #expect(await refused { try await device.join(test, code: code) } == .invalidGrant)
        #expect(test.revoked.isEmpty)
        _ = try await device.refresh(test, first.refreshToken)
    }

    @Test func secondUseOfACodeByAnotherKeyEndsTheLogin() async throws {
        let code = try await invite()
        let first = try await device.join(test, code: code)
        #expect(await refused { try await TestDevice().join(test, code: code) } == .invalidGrant)
        #expect(test.revoked.map(\.session) == [try #require(try claims(first).sid)])
        #expect(await refused { try await device.refresh(test, first.refreshToken) } == .invalidGrant)
    }

    @Test func concurrentUsesOfACodeSucceedOnce() async throws {
        let code = try await invite()
        let outcomes = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 { group.addTask { await refused { try await TestDevice().join(test, code: code) } == nil } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count { $0 } == 1)
    }

    @Test func expiredCodeIsRejected() async throws {
        let code = try await invite()
        test.pass(600_000)
        #expect(await refused { try await device.join(test, code: code) } == .invalidGrant)
    }

    @Test func aCodeSurvivesARestart() async throws {
        let code = try await invite()
        try test.reopen()
        _ = try await device.join(test, code: code)
    }

    @Test func unknownCodeIsRejected() async throws {
        for code in ["", "a", String(repeating: "A", count: 22), String(repeating: "A", count: 5_000), "' OR 1=1 --"] {
            let error = await refused { try await device.join(test, code: Secret(code)) }
            #expect(error == (code.isEmpty ? .invalidRequest : .invalidGrant))
        }
    }

    @Test func openInvitationsAreLimited() async throws {
        let subject = try await test.issuer.createUser(name: "Ada")
        for _ in 0..<Invitation.maximumOpen { _ = try await test.issuer.invite(subject: subject) }
        await #expect(throws: IssuerError.tooManyInvitations) { try await test.issuer.invite(subject: subject) }
        test.pass(600_000)
        _ = try await test.issuer.invite(subject: subject)
        await #expect(throws: IssuerError.unknownUser) { try await test.issuer.invite(subject: "nobody") }
    }

    @Test func usersAreListedInOrderAndNamesAreChecked() async throws {
        for name in ["Ada", "Bob", "Cy"] {
            _ = try await test.issuer.createUser(name: name)
            test.pass(1)
        }
        #expect(try await test.issuer.users().map(\.name) == ["Ada", "Bob", "Cy"])
        for name in ["", " ", String(repeating: "n", count: 65), "a\nb", "a\u{202E}b", "\u{7F}"] {
            await #expect(throws: IssuerError.nameInvalid) { try await test.issuer.createUser(name: name) }
        }
        await #expect(throws: IssuerError.nameTaken) { try await test.issuer.createUser(name: "Bob") }
    }

    @Test func accountIDNeverBeginsWithAHyphen() async throws {
        // Without the check, one in 64 would begin with a hyphen.
        let name = try #require(AccountName("Ada"))
        for _ in 0..<2_000 { #expect(!IssuerUser(name: name).subject.hasPrefix("-")) }
    }

    // MARK: Refresh

    @Test func aRenewedTokenSaysWhenTheLoginBegan() async throws {
        let begun = test.now.count / 1_000
        let joined = try await device.join(test, code: invite())
        test.pass(600_000)
        let renewed = try await device.refresh(test, joined.refreshToken)
        for (token, issued) in [(joined.accessToken, begun), (renewed.accessToken, begun + 600)] {
            let claims = try SignedJSON(parsing: token.exposed).claims(RelayIssuer.AccessTokenClaims.self)
            #expect(claims.authTime?.time.count == begun * 1_000)
            #expect(claims.iat.time.count == issued * 1_000)
        }
    }

    @Test func repeatedRefreshReturnsTheSameSuccessorAfterARestart() async throws {
        let joined = try await device.join(test, code: invite())
        let first = try await device.refresh(test, joined.refreshToken)
        test.pass(7 * 86_400_000)
        try test.reopen()
        let again = try await device.refresh(test, joined.refreshToken)
        #expect(again.refreshToken == first.refreshToken)
        #expect(again.refreshToken != joined.refreshToken)
        #expect(again.accessToken != first.accessToken)
        #expect(test.revoked.isEmpty)
    }

    @Test func useOfATokenReplacedTwiceRevokesTheLogin() async throws {
        let joined = try await device.join(test, code: invite())
        let first = try await device.refresh(test, joined.refreshToken)
        _ = try await device.refresh(test, first.refreshToken)
        #expect(await refused { try await device.refresh(test, joined.refreshToken) } == .invalidGrant)
        #expect(test.revoked.map(\.session) == [try #require(try claims(joined).sid)])
        #expect(await refused { try await device.refresh(test, first.refreshToken) } == .invalidGrant)
        // The revocation is reported once, and again to a relay that starts before the login's access tokens have expired.
        #expect(test.revoked.count == 1)
        try test.reopen()
        #expect(try await test.issuer.revokedLogins() == test.revoked)
        #expect(try await test.issuer.revokedLogins().map(\.tokensEnd.count) == [test.now.count + 1_020_000])
        #expect(await refused { try await device.refresh(test, first.refreshToken) } == .invalidGrant)
    }

    @Test func revocationOfALoginDoesNotAffectOthers() async throws {
        let subject = try await test.issuer.createUser(name: "Ada")
        let joined = try await device.join(test, code: test.issuer.invite(subject: subject))
        let other = TestDevice()
        let otherJoined = try await other.join(test, code: test.issuer.invite(subject: subject))
        let first = try await device.refresh(test, joined.refreshToken)
        _ = try await device.refresh(test, first.refreshToken)
        #expect(await refused { try await device.refresh(test, joined.refreshToken) } == .invalidGrant)
        _ = try await other.refresh(test, otherJoined.refreshToken)
    }

    @Test func concurrentRefreshesGetTheSameSuccessor() async throws {
        let joined = try await device.join(test, code: invite())
        let successors = try await withThrowingTaskGroup(of: Secret<String>?.self) { group in
            for _ in 0..<16 { group.addTask { try await device.refresh(test, joined.refreshToken).refreshToken } }
            return try await group.reduce(into: Set<Secret<String>?>()) { $0.insert($1) }
        }
        #expect(successors.count == 1)
        _ = try await device.refresh(test, try #require(successors.first ?? nil))
        #expect(test.revoked.isEmpty)
    }

    @Test func aChainOfRefreshesWorks() async throws {
        var token = try await device.join(test, code: invite()).refreshToken
        for step in 0..<30 {
            test.pass(14 * 60_000)
            if step % 10 == 0 { try test.reopen() }
            token = try await device.refresh(test, token).refreshToken
        }
    }

    @Test func stolenRefreshTokenIsRejectedWithoutTheKey() async throws {
        let joined = try await device.join(test, code: invite())
        #expect(await refused { try await TestDevice().refresh(test, joined.refreshToken) } == .invalidGrant)
        #expect(await refused { try await device.refresh(test, joined.refreshToken, isBound: false) } == .invalidGrant)
        var other = TestDevice()
        other.client = "com.example.other"
        #expect(await refused { try await other.refresh(test, joined.refreshToken) } == .invalidGrant)
        #expect(test.revoked.isEmpty)
        _ = try await device.refresh(test, joined.refreshToken)
    }

    @Test func idleLoginExpires() async throws {
        let joined = try await device.join(test, code: invite())
        test.pass(RefreshFamily.idleLife)
        #expect(await refused { try await device.refresh(test, joined.refreshToken) } == .invalidGrant)
    }

    @Test func revokedLoginsAreForgottenWhenTheirTokensHaveExpired() async throws {
        let joined = try await device.join(test, code: invite())
        try await test.issuer.tokens.revoke(try #require(joined.refreshToken).exposed, client: device.client)
        test.pass(AccessTokenClaims.life + 119_999)
        #expect(try await test.issuer.revokedLogins().count == 1)
        test.pass(1)
        #expect(try await test.issuer.revokedLogins().isEmpty)
        #expect(await refused { try await device.refresh(test, joined.refreshToken) } == .invalidGrant)
    }

    // MARK: Scopes

    @Test func refreshMayReduceScopesButNotExtendThem() async throws {
        let joined = try await device.join(test, code: invite(), scope: "offline_access relay.command")
        #expect(try claims(joined).scope == "offline_access relay.command")
        let less = try await device.refresh(test, joined.refreshToken, scope: "relay.command")
        #expect(try claims(less).scope == "relay.command")
        #expect(await refused { try await device.refresh(test, less.refreshToken, scope: "relay.push") } == .invalidScope)
        let whole = try await device.refresh(test, less.refreshToken)
        #expect(try claims(whole).scope == "offline_access relay.command")
    }

    @Test func withoutOfflineAccessThereIsNoRefreshToken() async throws {
        let joined = try await device.join(test, code: invite(), scope: "relay.command")
        #expect(joined.refreshToken == nil)
        // The login can be revoked nevertheless.
        try await test.issuer.endLogins(boundTo: device.key.publicKey.jwkThumbprint, session: nil)
        #expect(test.revoked.map(\.session) == [try #require(try claims(joined).sid)])
    }

    /// As clients of OpenID Connect ask for `openid`.
    @Test func unknownScopesAreNotGranted() async throws {
        let code = try await invite()
        for scope in ["admin", "openid profile"] {
            #expect(await refused { try await device.join(test, code: code, scope: scope) } == .invalidScope)
        }
        let joined = try await device.join(test, code: code, scope: "openid relay.command admin")
        #expect(joined.scopes.description == "relay.command")
        #expect(try claims(joined).scope == "relay.command")
    }

    // MARK: Proofs

    @Test func aProofWorksOnce() async throws {
        let joined = try await device.join(test, code: invite())
        let proof = try device.proof(at: test.now)
        let form = try device.form(["grant_type": "refresh_token", "refresh_token": try #require(joined.refreshToken).exposed])
        _ = try await test.issuer.tokens.exchange(form, proof: proof, at: TestIssuer.url)
        #expect(await refused { try await test.issuer.tokens.exchange(form, proof: proof, at: TestIssuer.url) } == .invalidDPoPProof)
    }

    @Test func rejectedProofDoesNotUseUpTheCode() async throws {
        let code = try await invite()
        let form = try device.form(["grant_type": TokenRequest.preAuthorizedCode, "pre-authorized_code": code.exposed])
        for proof in [
            "", "a.b.c", try device.proof(at: 0), try device.proof(at: test.now, url: "https://evil.example/auth/token"),
            try device.proof(at: Milliseconds(clamping: test.now.count + 3_600_000)),
        ] {
            #expect(await refused { try await test.issuer.tokens.exchange(form, proof: proof, at: TestIssuer.url) } == .invalidDPoPProof)
        }
        _ = try await device.join(test, code: code)
    }

    @Test func proofForAnyAddressOfTheIssuerWorks() async throws {
        let code = try await invite()
        let form = try device.form(["grant_type": TokenRequest.preAuthorizedCode, "pre-authorized_code": code.exposed])
        let proof = try device.proof(at: test.now, url: "http://127.0.0.1:8080/auth/token")
        _ = try await test.issuer.tokens.exchange(form, proof: proof, at: "http://127.0.0.1:8080/auth")
    }

    // MARK: Revocation

    @Test func revokedTokenIsRejected() async throws {
        let joined = try await device.join(test, code: invite())
        let token = try #require(joined.refreshToken)
        await #expect(throws: OAuthError.self) { try await test.issuer.tokens.revoke(token.exposed, client: "com.example.other") }
        try await test.issuer.tokens.revoke(token.exposed, client: device.client)
        try await test.issuer.tokens.revoke(token.exposed, client: device.client)
        #expect(test.revoked.count == 1)
        #expect(await refused { try await device.refresh(test, token) } == .invalidGrant)
    }

    @Test func revokingAnInvalidTokenDoesNothing() async throws {
        let joined = try await device.join(test, code: invite())
        let token = try #require(joined.refreshToken).exposed
        try await test.issuer.tokens.revoke("nonsense", client: device.client)
        // The right login with a wrong MAC.
        try await test.issuer.tokens.revoke(String(token.prefix(32)) + String(repeating: "A", count: 43), client: device.client)
        await #expect(throws: OAuthError.self) { try await test.issuer.tokens.revoke(joined.accessToken.exposed, client: device.client) }
        #expect(test.revoked.isEmpty)
        _ = try await device.refresh(test, joined.refreshToken)
    }

    // MARK: Keys

    @Test func keysRotateAndOldTokensStayVerifiable() async throws {
        var seen: Set<String> = []
        for _ in 0..<40 {
            let published = Set(try await test.issuer.publishedKeys().keys.compactMap(\.kid))
            let response = try await device.join(test, code: invite(), scope: "relay.command")
            let kid = try #require(try SignedJSON(parsing: response.accessToken.exposed).header.kid)
            #expect(published.contains(kid))
            seen.insert(kid)
            test.pass(AccessTokenClaims.life)
            #expect(try await test.issuer.publishedKeys().keys.contains { $0.kid == kid })
            test.pass(5 * 86_400_000)
            try test.reopen()
        }
        #expect(seen.count == 3)
    }

    @Test func twoProcessesShareOneKeyRing() async throws {
        let other = try test.make()
        async let first = test.issuer.publishedKeys()
        async let second = other.publishedKeys()
        let (left, right) = try await (first, second)
        #expect(left == right)
        #expect(left.keys.count == 1)
        try other.close()
    }
}
