// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayIssuer

/// The issuer's files are restored from a backup that is a day old. Devices stay signed in, and a thief of their tokens gains nothing.
@Suite struct RestoredBackupAttackTests {
    let test: TestIssuer
    let device = TestDevice()
    static let day: Int64 = 86_400_000

    init() throws { self.test = try TestIssuer() }

    func join(isBound: Bool = true) async throws -> TokenResponse {
        let subject = try await test.issuer.createUser(name: "Ada")
        return try await device.join(test, code: try await test.issuer.invite(subject: subject), isBound: isBound)
    }

    /// Refreshes for a day.
    /// - Returns: All refresh tokens, oldest first.
    func live(_ token: Secret<String>?, isBound: Bool = true) async throws -> [Secret<String>?] {
        var tokens = [token]
        for _ in 0..<5 {
            test.pass(Self.day / 5)
            tokens.append(try await device.refresh(test, tokens.last ?? nil, isBound: isBound).refreshToken)
        }
        return tokens
    }

    func refused(_ token: Secret<String>?, by device: TestDevice, isBound: Bool = true) async throws {
        let error = try await #require(throws: OAuthError.self) { try await device.refresh(test, token, isBound: isBound) }
        #expect(error.code == .invalidGrant)
    }

    @Test(arguments: [true, false]) func loginsContinueAfterARestore(isBound: Bool) async throws {
        let joined = try await join(isBound: isBound)
        let backup = try test.backup()
        let tokens = try await live(joined.refreshToken, isBound: isBound)
        try test.restore(backup)
        _ = try await live(tokens.last ?? nil, isBound: isBound)
        #expect(test.revoked.isEmpty)
    }

    @Test func loginContinuesAfterALostResponseAndARestore() async throws {
        let joined = try await join()
        let backup = try test.backup()
        let tokens = try await live(joined.refreshToken)
        try test.restore(backup)
        // The newest token was issued, but its response was lost.
        _ = try await live(tokens.dropLast().last ?? nil)
        #expect(test.revoked.isEmpty)
    }

    @Test func tokenStolenBeforeTheBackupRevokesTheLogin() async throws {
        let joined = try await join()
        let tokens = try await live(joined.refreshToken)
        let backup = try test.backup()
        let later = try await live(tokens.last ?? nil)
        try test.restore(backup)
        try await refused(tokens.first ?? nil, by: device)
        #expect(test.revoked.count == 1)
        // The revocation also covers tokens with higher numbers.
        for token in later { try await refused(token, by: device) }
    }

    @Test func stolenTokenIsRejectedWithoutTheKeyAfterARestore() async throws {
        let joined = try await join()
        let backup = try test.backup()
        let tokens = try await live(joined.refreshToken)
        try test.restore(backup)
        for token in tokens {
            try await refused(token, by: TestDevice())
            try await refused(token, by: TestDevice(), isBound: false)
        }
        #expect(test.revoked.isEmpty)
        _ = try await live(tokens.last ?? nil)
    }

    /// Without a key, the thief and the owner cannot be told apart until the second of them uses a token.
    @Test func theftOfAnUnboundLoginIsDetectedAfterARestore() async throws {
        let joined = try await join(isBound: false)
        let backup = try test.backup()
        let tokens = try await live(joined.refreshToken, isBound: false)
        try test.restore(backup)
        let stolen = try await device.refresh(test, tokens[2], isBound: false)
        _ = try await device.refresh(test, tokens.last ?? nil, isBound: false)
        try await refused(stolen.refreshToken, by: device, isBound: false)
        #expect(test.revoked.count == 1)
    }

    @Test func forgedTokenNumberIsRejected() async throws {
        let joined = try await join()
        let text = try #require(joined.refreshToken).exposed
        let bytes = try #require(Base64.url.decode(text))
        for index in bytes.indices {
            var forged = bytes
            forged[index] ^= 1
            try await refused(Secret(Base64.url.encode(forged)), by: device)
        }
        #expect(test.revoked.isEmpty)
        _ = try await live(joined.refreshToken)
    }

    @Test func loginLostByARestoreIsToldToJoinAgain() async throws {
        let subject = try await test.issuer.createUser(name: "Ada")
        let backup = try test.backup()
        let joined = try await device.join(test, code: try await test.issuer.invite(subject: subject))
        try test.restore(backup)
        let error = try await #require(throws: OAuthError.self) { try await device.refresh(test, joined.refreshToken) }
        #expect(error.code == .invalidGrant)
        #expect(error.description.contains("join again"))
        #expect(test.revoked.isEmpty)
    }
}
