// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayIssuer

/// A used join link remains in chats and shell histories. Its finder tries to join, or to end its user's login.
@Suite struct UsedLinkAttackTests {
    let test: TestIssuer
    let device = TestDevice()
    let finder = TestDevice()

    init() throws { self.test = try TestIssuer() }

    func invite() async throws -> Secret<String> {
        let subject = try await test.issuer.createUser(name: "Ada")
        return try await test.issuer.invite(subject: subject)
    }

    /// Presents a code that was used before.
    func present(_ code: Secret<String>, by device: TestDevice, isBound: Bool = true) async throws {
        let error = try await #require(throws: OAuthError.self) { try await device.join(test, code: code, isBound: isBound) }
        #expect(error.code == .invalidGrant)
    }

    @Test func useOfAUsedLinkWithoutAKeyRevokesNothing() async throws {
        let code = try await invite()
        let joined = try await device.join(test, code: code)
        try await present(code, by: finder, isBound: false)
        #expect(test.revoked.isEmpty)
        _ = try await device.refresh(test, joined.refreshToken)
    }

    @Test(arguments: [true, false]) func useOfAnExpiredLinkRevokesNothing(isBound: Bool) async throws {
        let code = try await invite()
        let joined = try await device.join(test, code: code)
        test.pass(600_000)
        try await present(code, by: finder, isBound: isBound)
        #expect(test.revoked.isEmpty)
        _ = try await device.refresh(test, joined.refreshToken)
        #expect(test.logged.contains("used again"))
        #expect(!test.logged.contains(code.exposed))
    }

    @Test(arguments: [true, false]) func ownersUseOfAStolenLinkRevokesTheThief(isBound: Bool) async throws {
        let code = try await invite()
        let stolen = try await finder.join(test, code: code, isBound: isBound)
        test.pass(599_000)
        try await present(code, by: device)
        #expect(test.revoked.count == 1)
        await #expect(throws: OAuthError.self) { try await finder.refresh(test, stolen.refreshToken, isBound: isBound) }
        #expect(!test.logged.contains(code.exposed))
    }

    /// The same key gets its login again while the link is valid. It is still the only login, and a revoked one stays revoked.
    @Test func onlyTheKeyOfTheFirstUseGetsItsLoginAgain() async throws {
        let code = try await invite()
        let joined = try await device.join(test, code: code)
        let again = try await device.join(test, code: code)
        #expect(again.refreshToken == joined.refreshToken)
        _ = try await device.refresh(test, joined.refreshToken)
        // It never goes back to a token that was replaced.
        #expect(try await device.join(test, code: code).refreshToken != joined.refreshToken)
        try await present(code, by: finder)
        #expect(test.revoked.count == 1)
        try await present(code, by: device)
        test.pass(600_000)
        try await present(code, by: device)
    }

    /// A person who pasted one link on two devices learns it on both.
    @Test func bothDevicesOfOneLinkAreTold() async throws {
        let code = try await invite()
        let joined = try await device.join(test, code: code)
        let second = try await #require(throws: OAuthError.self) { try await finder.join(test, code: code) }
        #expect(second.reason == .linkReused)
        try test.reopen()
        let first = try await #require(throws: OAuthError.self) { try await device.refresh(test, joined.refreshToken) }
        #expect(first.reason == .linkReused)
        let again = try await #require(throws: OAuthError.self) { try await device.join(test, code: code) }
        #expect(again.reason == .linkReused)
        // A login that ended otherwise has no such reason.
        let other = try await test.invite()
        let tablet = try await device.join(test, code: other)
        try await test.issuer.tokens.revoke(try #require(tablet.refreshToken).exposed, client: device.client)
        let ended = try await #require(throws: OAuthError.self) { try await device.refresh(test, tablet.refreshToken) }
        #expect(ended.reason == nil)
    }

    /// Even without a refresh token, the relay would accept the access token for a quarter of an hour.
    @Test func thiefWithoutARefreshTokenIsRevokedToo() async throws {
        let code = try await invite()
        let stolen = try await finder.join(test, code: code, scope: "relay.device.register", isBound: false)
        #expect(stolen.refreshToken == nil)
        try await present(code, by: device)
        #expect(test.revoked.count == 1)
    }
}
