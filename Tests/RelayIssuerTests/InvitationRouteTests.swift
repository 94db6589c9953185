// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Hummingbird
import HummingbirdTesting
import NIOCore
import RelayProtocol
import Testing

@testable import RelayIssuer

/// Invitations by endpoints of the account.
@Suite struct InvitationRouteTests {
    let test: TestIssuer
    let device = TestDevice()
    static let url = TestIssuer.url + "/invitations"

    init() throws { self.test = try TestIssuer() }

    struct Answer: Decodable, Sendable {
        var status = 0
        var challenge: String?
        var retryAfter: String?
        var code: String?
        var expiresIn: Int?
        var error: String?
        var description: String?

        enum CodingKeys: String, CodingKey {
            case code, error
            case description = "error_description"
            case expiresIn = "expires_in"
        }
    }

    func joined(scope: String? = nil, isBound: Bool = true) async throws -> TokenResponse {
        return try await device.join(test, code: try await test.invite(), scope: scope, isBound: isBound)
    }

    func proof(_ token: String, key: P256SigningKey? = nil, url: String = url, method: String = "POST", time: Milliseconds? = nil) throws
        -> String
    {
        try DPoPProof.make(
            method: method,
            url: url,
            jti: randomBytes(16),
            now: time ?? test.now,
            accessToken: token,
            with: key ?? device.key
        )
    }

    func ask(_ authorization: [String], _ proofs: [String] = [], issuer: Issuer? = nil) async throws -> Answer {
        let router = Router()
        try (issuer ?? test.issuer).addRoutes(to: router) { _, _ in ClientNetworks(["client"]) }
        let application = Application(router: router, configuration: .init(address: .hostname("127.0.0.1", port: 0)), logger: test.logger)
        return try await application.test(.live) { client in
            var headers = HTTPFields()
            let name = try #require(HTTPFields.Element.Name("DPoP"))
            for text in authorization { headers.append(HTTPFields.Element(name: .authorization, value: text)) }
            for proof in proofs { headers.append(HTTPFields.Element(name: name, value: proof)) }
            return try await client.execute(uri: "/auth/invitations", method: .post, headers: headers) { response in
                var answer = try JSONDecoder().decode(Answer.self, from: Data(Array(response.body.readableBytesView)))
                answer.status = response.status.code
                answer.challenge = response.headers[.wwwAuthenticate]
                answer.retryAfter = response.headers[.retryAfter]
                #expect(response.headers[.cacheControl] == "no-store")
                return answer
            }
        }
    }

    func ask(_ token: String, _ proof: String) async throws -> Answer { try await ask(["DPoP \(token)"], [proof]) }

    @Test func tokenWithItsKeyGivesACodeThatWorksForOneKey() async throws {
        let token = try await joined().accessToken.exposed
        let answer = try await ask(token, proof(token))
        #expect(answer.status == 200)
        #expect(answer.expiresIn == 600)
        let newcomer = TestDevice()
        let code = Secret(try #require(answer.code))
        let first = try await newcomer.join(test, code: code)
        // The answer may have been lost, so the same key gets the same login again. No other key does.
        let again = try await newcomer.join(test, code: code)
        #expect(first.refreshToken != nil && again.refreshToken?.exposed == first.refreshToken?.exposed)
        let error = try await #require(throws: OAuthError.self) { try await TestDevice().join(test, code: code) }
        #expect(error.code == .invalidGrant)
    }

    @Test func stolenTokenIsRejectedWithoutItsKey() async throws {
        let token = try await joined().accessToken.exposed
        let foreign = P256SigningKey()
        let used = try proof(token)
        #expect(try await ask(token, used).status == 200)
        let cases: [(authorization: [String], proofs: [String], error: String)] = [
            (["Bearer \(token)"], [], "invalid_token"),
            (["DPoP \(token)"], [], "invalid_dpop_proof"),
            (["DPoP \(token)"], [try proof(token, key: foreign)], "invalid_token"),
            (["DPoP \(token)"], [used], "invalid_dpop_proof"),
            (["DPoP \(token)"], [try proof(token), try proof(token)], "invalid_dpop_proof"),
            (["DPoP \(token)"], [try proof("another")], "invalid_dpop_proof"),
            (["DPoP \(token)"], [try proof(token, url: TestIssuer.url + "/token")], "invalid_dpop_proof"),
            (["DPoP \(token)"], [try proof(token, method: "GET")], "invalid_dpop_proof"),
            (["DPoP \(token)"], [try proof(token, time: Milliseconds(clamping: test.now.count - 60_001))], "invalid_dpop_proof"),
            (["DPoP \(token)", "DPoP \(token)"], [try proof(token)], "invalid_token"),
            ([], [try proof(token)], "invalid_token"),
            (["Basic abc"], [], "invalid_token"),
            (["DPoP"], [try proof(token)], "invalid_token"),
        ]
        for (number, one) in cases.enumerated() {
            let answer = try await ask(one.authorization, one.proofs)
            #expect(answer.error == one.error, "case \(number)")
            #expect(answer.code == nil)
            #expect(answer.status == 401)
            #expect(answer.challenge == "DPoP error=\"\(one.error)\"")
        }
    }

    @Test func onlyAValidTokenOfThisIssuerIsAccepted() async throws {
        let token = try await joined().accessToken.exposed
        let (id, key) = try await test.issuer.keyRing.signer(at: test.now)
        let thumbprint = device.key.publicKey.jwkThumbprint
        let subject = try await test.ada()
        let session = try SignedJSON(parsing: token).claims(RelayIssuer.AccessTokenClaims.self).sid
        func claims(
            issuer: String = TestIssuer.url,
            audience: String = "the-relay",
            subject: String? = nil,
            scopes: Scopes = .all,
            now: Milliseconds? = nil,
            login: String? = "own"
        )
            -> RelayIssuer.AccessTokenClaims
        {
            .init(
                issuer: issuer,
                audience: audience,
                subject: subject ?? "nobody",
                client: "com.example.app",
                scopes: scopes,
                session: login == "own" ? session : login,
                key: thumbprint,
                id: randomBytes(16),
                now: now ?? test.now
            )
        }
        let made: [(name: String, token: String)] = [
            ("good", try claims(subject: subject).signed(by: key, id: id).exposed),
            ("another key under this name", try claims(subject: subject).signed(by: P256SigningKey(), id: id).exposed),
            ("another key", try claims(subject: subject).signed(by: P256SigningKey(), id: "other").exposed),
            ("issuer", try claims(issuer: "https://login.example", subject: subject).signed(by: key, id: id).exposed),
            ("audience", try claims(audience: "other", subject: subject).signed(by: key, id: id).exposed),
            ("subject", try claims().signed(by: key, id: id).exposed),
            (
                "not yet",
                try claims(subject: subject, now: Milliseconds(clamping: test.now.count + 120_000)).signed(by: key, id: id).exposed
            ),
            ("over", try claims(subject: subject, now: Milliseconds(clamping: test.now.count - 900_000)).signed(by: key, id: id).exposed),
            ("kind", try SignedJSON.sign(claims(subject: subject), header: .init(alg: "ES256", typ: "JWT", kid: id), with: key)),
            ("algorithm", try SignedJSON.sign(claims(subject: subject), header: .init(alg: "none", typ: "at+jwt", kid: id), with: key)),
            ("unknown login", try claims(subject: subject, login: "unknown").signed(by: key, id: id).exposed),
            ("no login", try claims(subject: subject, login: nil).signed(by: key, id: id).exposed),
            ("nonsense", "x.y.z"),
        ]
        for one in made {
            let answer = try await ask(one.token, proof(one.token))
            #expect(answer.status == (one.name == "good" ? 200 : 401), "\(one.name)")
            #expect(answer.error == (one.name == "good" ? nil : "invalid_token"), "\(one.name)")
        }
        let narrow = try claims(subject: subject, scopes: try #require(Scopes(parsing: "relay.device.read"))).signed(by: key, id: id)
            .exposed
        let answer = try await ask(narrow, proof(narrow))
        #expect(answer.status == 403)
        #expect(answer.error == "insufficient_scope")
        test.pass(900_000)
        #expect(try await ask(token, proof(token)).error == "invalid_token")
    }

    @Test func revokedLoginCannotInvite() async throws {
        let login = try await joined()
        try await test.issuer.tokens.revoke(try #require(login.refreshToken).exposed, client: device.client)
        let token = login.accessToken.exposed
        #expect(try await ask(token, proof(token)).error == "invalid_token")
    }

    @Test func openInvitationsAreBounded() async throws {
        let token = try await joined().accessToken.exposed
        let subject = try await test.ada()
        for _ in 0..<(Invitation.maximumOpen - 1) { _ = try await test.issuer.invite(subject: subject) }
        #expect(try await ask(token, proof(token)).status == 200)
        let answer = try await ask(token, proof(token))
        #expect(answer.status == 429)
        #expect(answer.error == "temporarily_unavailable")
        #expect(answer.retryAfter == "600")
    }

    @Test func invitationsPerMinuteAreLimited() async throws {
        let tokens = try await joined()
        let token = tokens.accessToken.exposed
        let issuer = try test.make(grantsPerMinute: 1)
        #expect(try await ask(["DPoP \(token)"], [proof(token)], issuer: issuer).status == 200)
        let refused = try await ask(["DPoP \(token)"], [proof(token)], issuer: issuer)
        #expect(refused.status == 429 && refused.description == "too many invitations in a minute for this login; wait as Retry-After says")
        // A login's invitations do not use up its tokens.
        func refresh(_ text: Secret<String>?) async throws -> TokenResponse {
            let form = try device.form(["grant_type": "refresh_token", "refresh_token": try #require(text).exposed])
            return try await issuer.tokens.exchange(form, proof: device.proof(at: test.now), at: TestIssuer.url)
        }
        let next = try await refresh(tokens.refreshToken)
        do {
            _ = try await refresh(next.refreshToken)
            Issue.record("a second refresh within the minute is not refused")
        } catch let error as OAuthError {
            #expect(error.description == "too many tokens in a minute for this login; wait as Retry-After says")
        }
        try issuer.close()
    }

    @Test func noSecretReachesTheLog() async throws {
        let token = try await joined().accessToken.exposed
        let made = try proof(token)
        let code = try #require(try await ask(token, made).code)
        for secret in [token, made, code] { #expect(!test.logged.contains(secret)) }
        #expect(test.logged.contains("made an invitation"))
    }
}
