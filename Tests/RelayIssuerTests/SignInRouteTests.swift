// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import HummingbirdTesting
import RelayProtocol
import Testing

@testable import RelayIssuer

/// How a person sets up a password and signs in.
@Suite struct SignInRouteTests {
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    @Test func linkSetsAPasswordThatSignsIn() async throws {
        try await test.browse { client in
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            #expect(try await browser.isSignedIn)
            #expect(browser.cookies.keys.sorted() == ["__Host-relay-browser", "__Host-relay-known"])
            #expect(try await browser.post("/logout").location == "/auth/login")
            #expect(try await browser.get("/account").location == "/auth/login")
            let other = TestBrowser(client)
            #expect(try await other.signIn().location == "/auth/account")
            #expect(try await other.isSignedIn)
            #expect(try await other.get("/login").location == "/auth/account")
        }
        let kinds = try await test.issuer.events(of: test.ada()).map(\.kind)
        #expect(kinds == [.signedIn, .signedOut, .signedIn, .passwordSet, .setUpLinkMade])
    }

    @Test func passwordOfAnotherKeyboardSignsIn() async throws {
        try await test.browse { client in
            try await TestBrowser(client).setUp(test, password: "motde\u{301}passe")
            #expect(try await TestBrowser(client).signIn(password: "motd\u{E9}passe").location == "/auth/account")
        }
    }

    @Test func operatorSetsAPassword() async throws {
        let subject = try await test.ada()
        await #expect(throws: IssuerError.self) { try await test.issuer.setPassword(subject: subject, to: Secret("short")) }
        await #expect(throws: IssuerError.unknownUser) { try await test.issuer.setPassword(subject: "x", to: Secret("correct horse")) }
        try await test.issuer.setPassword(subject: subject, to: Secret(TestBrowser.password))
        let location = try await test.browse { try await TestBrowser($0).signIn().location }
        #expect(location == "/auth/account")
    }

    /// Programs that preview links open them, too.
    @Test func linkIsUsedUpByThePasswordNotByOpeningIt() async throws {
        let link = try await test.issuer.setUpLink(subject: test.ada(), origin: TestIssuer.origin).exposed
        let place = String(link.dropFirst(TestIssuer.url.count))
        try await test.browse { client in
            for _ in 0..<3 { #expect(try await TestBrowser(client).get(place).location == "/auth/setup") }
            let (browser, late) = (TestBrowser(client), TestBrowser(client))
            for one in [browser, late] {
                _ = try await one.get(place)
                _ = try await one.get("/setup")
            }
            let fields = ["password": TestBrowser.password, "repeated": TestBrowser.password]
            for (password, repeated) in [("short", "short"), (TestBrowser.password, "correct horse"), (TestBrowser.password, "")] {
                #expect(try await browser.post("/setup", ["password": password, "repeated": repeated]).status == 400)
            }
            #expect(try await browser.post("/setup", fields).location == "/auth/account")
            #expect(try await late.post("/setup", fields).status == 403)
            #expect(try await late.get(place).status == 403)
            #expect(try await late.isSignedIn == false)
        }
    }

    @Test func linkExpiresAfterADayOrWithTheNextLink() async throws {
        let subject = try await test.ada()
        func place() async throws -> String {
            String(try await test.issuer.setUpLink(subject: subject, origin: TestIssuer.origin).exposed.dropFirst(TestIssuer.url.count))
        }
        let (first, second) = (try await place(), try await place())
        try await test.browse { client in
            let old = try await TestBrowser(client).get(first)
            #expect(old.status == 403)
            #expect(try await TestBrowser(client).get(second).location == "/auth/setup")
            test.pass(SetUpToken.life)
            #expect(try await TestBrowser(client).get(second).status == 403)
            #expect(try await TestBrowser(client).get("/setup?token=wrong").status == 403)
            #expect(try await TestBrowser(client).get("/setup").status == 403)
        }
    }

    @Test func newPasswordEndsAllSessions() async throws {
        try await test.browse { client in
            let (browser, other) = (TestBrowser(client), TestBrowser(client))
            try await browser.setUp(test)
            try await other.setUp(test, password: "another long password")
            #expect(try await !browser.isSignedIn)
            #expect(try await other.isSignedIn)
            #expect(try await browser.signIn().status == 401)
        }
    }

    @Test func sessionEndsWhenIdleOrOld() async throws {
        try await test.browse { client in
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            test.pass(WebSession.idleLife - 1)
            #expect(try await browser.isSignedIn)
            test.pass(WebSession.idleLife)
            #expect(try await !browser.isSignedIn)
            _ = try await browser.signIn()
            for _ in 0..<4 {
                test.pass(WebSession.idleLife - 1)
                #expect(try await browser.isSignedIn)
            }
            test.pass(WebSession.idleLife - 1)
            #expect(try await !browser.isSignedIn)
        }
    }

    @Test func passwordIsRehashedWhenTheCostChanges() async throws {
        try await test.issuer.setPassword(subject: test.ada(), to: Secret(TestBrowser.password))
        let old = PasswordHash(Secret(TestBrowser.password), cost: .init(logRounds: 5))
        let subject = try await test.ada()
        try await test.issuer.store.write { try $0.setPassword(old, of: subject) }
        var status = try await test.browse { try await TestBrowser($0).signIn().status }
        #expect(status == 303)
        let stored = try await test.issuer.store.read { try $0.password(of: subject) }
        #expect(stored?.cost.logRounds == 4)
        status = try await test.browse { try await TestBrowser($0).signIn().status }
        #expect(status == 303)
    }

    @Test func noPasswordLinkOrCookieIsStoredOrLogged() async throws {
        let secrets = try await test.browse { client in
            let browser = TestBrowser(client)
            let link = try await test.issuer.setUpLink(subject: test.ada(), origin: TestIssuer.origin).exposed
            _ = try await browser.get(String(link.dropFirst(TestIssuer.url.count)))
            _ = try await browser.get("/setup")
            _ = try await browser.post("/setup", ["password": TestBrowser.password, "repeated": TestBrowser.password])
            _ = try await TestBrowser(client).signIn(password: "a wrong password")
            return [TestBrowser.password, "a wrong password", String(link.suffix(43)), browser.code] + browser.cookies.values
        }
        let dump = try await test.contents()
        for secret in secrets {
            #expect(!test.logged.contains(secret))
            #expect(!dump.contains(secret))
        }
        #expect(dump.contains("$scrypt$"))
    }
}
