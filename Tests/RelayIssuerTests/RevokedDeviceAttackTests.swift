// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import RelayIssuer

/// A device was stolen and revoked. The thief tries to stay signed in, or to return with another device.
@Suite struct RevokedDeviceAttackTests {
    let routes: InvitationRouteTests
    var test: TestIssuer { routes.test }
    /// The stolen device.
    var device: TestDevice { routes.device }

    init() throws { self.routes = try InvitationRouteTests() }

    func revoke(_ joined: TokenResponse) async throws {
        let claims = try SignedJSON(parsing: joined.accessToken.exposed).claims(AccessTokenClaims.self)
        try await test.issuer.endLogins(boundTo: device.key.publicKey.jwkThumbprint, session: claims.sid)
    }

    func refused(_ body: () async throws -> Void) async throws {
        let error = try await #require(throws: OAuthError.self) { try await body() }
        #expect(error.code == .invalidGrant)
    }

    @Test func revokedDeviceCannotRefresh() async throws {
        let joined = try await routes.joined()
        let next = try await device.refresh(test, joined.refreshToken)
        try await revoke(joined)
        for token in [joined.refreshToken, next.refreshToken] { try await refused { _ = try await device.refresh(test, token) } }
        // The relay is notified, so that it closes the channel and rejects the access token.
        let claims = try SignedJSON(parsing: joined.accessToken.exposed).claims(AccessTokenClaims.self)
        #expect(test.revoked.map(\.session) == [claims.sid])
        try test.reopen()
        #expect(try await test.issuer.revokedLogins().map(\.session) == [claims.sid])
    }

    /// The revoked device gets the reason. A login that ended otherwise does not.
    @Test func revokedDeviceGetsTheReason() async throws {
        let joined = try await routes.joined()
        let next = try await device.refresh(test, joined.refreshToken)
        let subject = try #require(try await test.issuer.users().first?.subject)
        let over = try await device.join(test, code: try await test.issuer.invite(subject: subject))
        func reason(_ response: TokenResponse) async throws -> OAuthError.Reason? {
            let error = try await #require(throws: OAuthError.self) { _ = try await device.refresh(test, response.refreshToken) }
            #expect(error.code == .invalidGrant)
            return error.reason
        }
        try await test.issuer.tokens.revoke(try #require(over.refreshToken?.exposed), client: device.client)
        #expect(try await reason(over) == nil)
        try await revoke(joined)
        for response in [joined, next, over] { #expect(try await reason(response) == .endpointRevoked) }
    }

    @Test func revokedDeviceCannotInvite() async throws {
        let joined = try await routes.joined()
        try await revoke(joined)
        let token = joined.accessToken.exposed
        let answer = try await routes.ask(token, routes.proof(token))
        #expect(answer.status == 401)
        #expect(answer.error == "invalid_token")
        #expect(answer.code == nil)
    }

    @Test func unusedInvitationsOfARevokedDeviceAreRejected() async throws {
        let joined = try await routes.joined()
        let token = joined.accessToken.exposed
        var codes: [String] = []
        for _ in 0..<3 { codes.append(try #require(try await routes.ask(token, routes.proof(token)).code)) }
        try await revoke(joined)
        for code in codes { try await refused { _ = try await TestDevice().join(test, code: Secret(code)) } }
    }

    /// The device's other logins end, too: one by another link, and one that is not bound to a key.
    @Test func revocationEndsAllLoginsOfTheDevice() async throws {
        let joined = try await routes.joined()
        let subject = try #require(try await test.issuer.users().first?.subject)
        let second = try await device.join(test, code: try await test.issuer.invite(subject: subject))
        let unbound = try await device.join(test, code: try await test.issuer.invite(subject: subject), isBound: false)
        let other = TestDevice()
        let others = try await other.join(test, code: try await test.issuer.invite(subject: subject))
        try await revoke(unbound)
        for token in [joined, second].map(\.refreshToken) { try await refused { _ = try await device.refresh(test, token) } }
        try await refused { _ = try await device.refresh(test, unbound.refreshToken, isBound: false) }
        #expect(Set(test.revoked.map(\.session)).count == 3)
        _ = try await other.refresh(test, others.refreshToken)
    }

    @Test func endingLoginsTwiceReportsThemOnce() async throws {
        let joined = try await routes.joined()
        try await revoke(joined)
        try await revoke(joined)
        try await test.issuer.endLogins(boundTo: TestDevice().key.publicKey.jwkThumbprint, session: nil)
        #expect(test.revoked.count == 1)
    }

    /// A token that is not bound to a key belongs to no device that could be revoked.
    @Test func unboundTokenCannotInvite() async throws {
        let token = try await routes.joined(isBound: false).accessToken.exposed
        for authorization in ["Bearer \(token)", "DPoP \(token)"] {
            let answer = try await routes.ask([authorization], [routes.proof(token)])
            #expect(answer.status == 403)
            #expect(answer.error == "access_denied")
            #expect(answer.code == nil)
        }
    }

    @Test func unapprovedDeviceCannotInvite() async throws {
        let thumbprint = device.key.publicKey.jwkThumbprint
        let issuer = try test.make { $0 != thumbprint }
        let token = try await routes.joined().accessToken.exposed
        let answer = try await routes.ask(["DPoP \(token)"], [routes.proof(token)], issuer: issuer)
        #expect(answer.status == 403)
        #expect(answer.error == "access_denied")
        #expect(answer.description?.contains("approve this device on another one first") == true)
        try issuer.close()
    }

    @Test func tokensOfAnInvitedDeviceNameTheInviter() async throws {
        let joined = try await routes.joined()
        let inviter = EndpointID(device.key.publicKey)
        func claims(_ response: TokenResponse) throws -> AccessTokenClaims {
            try SignedJSON(parsing: response.accessToken.exposed).claims(AccessTokenClaims.self)
        }
        #expect(try claims(joined).invitedBy == nil)
        let token = joined.accessToken.exposed
        let code = try #require(try await routes.ask(token, routes.proof(token)).code)
        let newcomer = TestDevice()
        var response = try await newcomer.join(test, code: Secret(code))
        for _ in 0..<3 {
            #expect(try claims(response).invitedBy == "\(inviter)")
            try test.reopen()
            response = try await newcomer.refresh(test, response.refreshToken)
        }
        #expect(try claims(response).invitedBy == "\(inviter)")
    }

    /// The owner used the stolen link later, which ends the thief's login and the thief's invitations.
    @Test func revokedThiefOfALinkHasNoInvitationsLeft() async throws {
        let subject = try await test.issuer.createUser(name: "Ada")
        let stolen = try await test.issuer.invite(subject: subject)
        let token = try await device.join(test, code: stolen).accessToken.exposed
        let code = try #require(try await routes.ask(token, routes.proof(token)).code)
        try await refused { _ = try await TestDevice().join(test, code: stolen) }
        #expect(test.revoked.count == 1)
        try await refused { _ = try await TestDevice().join(test, code: Secret(code)) }
    }
}
