// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import HummingbirdTesting
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayIssuer

#if Postgres
import RelayPostgres
#endif

/// Two issuers serve one database. An attacker goes to one with what the other one refuses.
@Suite struct SharedStoreAttackTests {
    typealias Kind = IssuerStoreTests.Kind

    static let kinds = Kind.all.filter { $0 != .memory }

    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    private func issuers(_ kind: Kind, passwordAttemptsPerHour: Int = 100) async throws -> [Issuer] {
        let master = try test.issuer.master
        #if Postgres
        if kind == .postgres {
            let database = try await PostgresServer.shared.makeDatabase()
            return try (0..<2).map { _ in
                try test.make(on: PostgresIssuerStore(database, master: master), passwordAttemptsPerHour: passwordAttemptsPerHour)
            }
        }
        #endif
        return try (0..<2).map { _ in try test.make(passwordAttemptsPerHour: passwordAttemptsPerHour) }
    }

    /// Runs the routes of both issuers. The user Ada has a password.
    private func browse(
        _ kind: Kind,
        passwordAttemptsPerHour: Int = 100,
        _ body: @escaping @Sendable ([any TestClientProtocol]) async throws -> Void
    ) async throws {
        let issuers = try await issuers(kind, passwordAttemptsPerHour: passwordAttemptsPerHour)
        let subject = try await issuers[0].createUser(name: "Ada")
        try await issuers[1].setPassword(subject: subject, to: Secret(TestBrowser.password))
        let test = test
        try await test.browse(issuers[0]) { first in try await test.browse(issuers[1]) { try await body([first, $0]) } }
        for issuer in issuers { try issuer.close() }
    }

    /// The browser with its cookies, at the other issuer.
    private static func same(_ browser: TestBrowser, at client: any TestClientProtocol) -> TestBrowser {
        let moved = TestBrowser(client, address: browser.address)
        moved.cookies = browser.cookies
        return moved
    }

    @Test(arguments: kinds) func proofIsUsedAtOneIssuer(_ kind: Kind) async throws {
        let (issuers, device) = (try await issuers(kind), TestDevice())
        let subject = try await issuers[0].createUser(name: "Ada")
        for number in 0..<5 {
            let codes = [try await issuers[0].invite(subject: subject).exposed, try await issuers[1].invite(subject: subject).exposed]
            let proof = try device.proof(at: test.now)
            @Sendable func join(_ index: Int) async -> OAuthError.Code? {
                do throws(OAuthError) {
                    let fields = ["grant_type": TokenRequest.preAuthorizedCode, "pre-authorized_code": codes[index]]
                    guard let form = try? device.form(fields) else { return .invalidRequest }
                    _ = try await issuers[index].tokens.exchange(form, proof: proof, at: TestIssuer.url)
                    return nil
                } catch { return error.code }
            }
            // First one after the other, then at the same time.
            let outcomes =
                if number == 0 {
                    [await join(0), await join(1)]
                } else {
                    await withTaskGroup { group in
                        for index in 0..<2 { group.addTask { await join(index) } }
                        return await group.reduce(into: []) { $0.append($1) }
                    }
                }
            #expect(Set(outcomes) == [nil, .invalidDPoPProof])
        }
        for issuer in issuers { try issuer.close() }
    }

    @Test(arguments: kinds) func guessesOfAPasswordCountTogether(_ kind: Kind) async throws {
        try await browse(kind) { clients throws in
            let attackers = clients.map { TestBrowser($0, address: "203.0.113.9") }
            for number in 0..<AttemptLimit.free {
                #expect(try await attackers[number % 2].signIn(password: "guess number \(number)").status == 401)
            }
            for attacker in attackers { #expect(try await attacker.signIn().status == 429) }
            for client in clients { #expect(try await TestBrowser(client).signIn().status == 303) }
        }
    }

    @Test(arguments: kinds) func guessesFromManyAddressesCountTogether(_ kind: Kind) async throws {
        try await browse(kind, passwordAttemptsPerHour: 10) { clients throws in
            for number in 0..<10 {
                let attacker = TestBrowser(clients[number % 2], address: "203.0.113.\(number)")
                #expect(try await attacker.signIn(password: "a wrong password").status == 401)
            }
            for client in clients { #expect(try await TestBrowser(client).signIn().status == 429) }
        }
    }

    @Test(arguments: kinds) func guessesOfARecoveryCodeCountTogether(_ kind: Kind) async throws {
        try await browse(kind) { clients throws in
            let owner = TestBrowser(clients[0])
            #expect(try await owner.signIn().status == 303)
            let code = try #require(try await owner.makeCodes().first)
            let attackers = clients.map { TestBrowser($0, address: "203.0.113.9") }
            for attacker in attackers { _ = try await attacker.get("/recover") }
            for number in 0..<AttemptLimit.free {
                let fields = ["name": "Ada", "code": RecoveryCode().text.exposed]
                #expect(try await attackers[number % 2].post("/recover", fields).status == 401)
            }
            for attacker in attackers {
                #expect(try await attacker.post("/recover", ["name": "Ada", "code": code]).status == 429)
            }
            let other = Self.same(owner, at: clients[1])
            _ = try await other.get("/recover")
            #expect(try await other.post("/recover", ["name": "Ada", "code": code]).location == "/auth/setup")
        }
    }

    @Test(arguments: kinds) func guessesOfAUserCodeCountTogether(_ kind: Kind) async throws {
        try await browse(kind) { clients throws in
            let first = TestBrowser(clients[0])
            #expect(try await first.signIn().status == 303)
            let browsers = [first, Self.same(first, at: clients[1])]
            for browser in browsers { _ = try await browser.get("/device") }
            let begun = try await TestApp(clients[1]).post("/device_authorization", DeviceGrantRouteTests.fields)
            for number in 0..<AttemptLimit.free {
                #expect(try await browsers[number % 2].post("/device", ["user_code": UserCode().text]).status == 400)
            }
            for browser in browsers { #expect(try await browser.post("/device", ["user_code": begun.userCode ?? ""]).status == 429) }
        }
    }

    @Test(arguments: kinds) func answerOfAPasskeyWorksOnce(_ kind: Kind) async throws {
        try await browse(kind) { clients throws in
            let (owner, key) = (TestBrowser(clients[0]), TestAuthenticator())
            #expect(try await owner.signIn().status == 303)
            let challenge = try TestAuthenticator.challenge(try await owner.get("/account"), "create")
            #expect(try await owner.post("/account/passkey", key.create(challenge)).status == 303)
            let visitor = TestBrowser(clients[0])
            let fields = try key.get(try TestAuthenticator.challenge(try await visitor.get("/login"), "get"))
            let answer = fields.merging(["form_code": visitor.code]) { $1 }
            // The page is of one issuer, and the other one takes the answer.
            let (moved, thief) = (Self.same(visitor, at: clients[1]), Self.same(visitor, at: clients[0]))
            #expect(try await moved.post("/login/passkey", answer).status == 303)
            #expect(try await moved.isSignedIn)
            #expect(try await thief.post("/login/passkey", answer).status == 403)
            #expect(try await !thief.isSignedIn)
        }
    }
}
