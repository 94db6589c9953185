// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import HummingbirdTesting
import RelayProtocol
import Testing

@testable import RelayIssuer

/// Attacks on an account by another user, by a visitor, and at an unattended browser.
@Suite struct AccountAttackTests {
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    @Test func loginsAndBrowsersOfAnotherAccountAreProtected() async throws {
        let device = TestDevice()
        var joined = try await device.join(test, code: try await test.invite())
        let bob = try await test.issuer.createUser(name: "Bob")
        let page = try await test.browse { client in
            let (ada, adas, attacker) = (TestBrowser(client), TestBrowser(client), TestBrowser(client))
            try await ada.setUp(test)
            _ = try await adas.signIn()
            try await attacker.setUp(test, subject: bob)
            let page = try await ada.get("/account")
            let session = try AccountRouteTests.field("session", after: "Apps and devices", in: page)
            let browser = try AccountRouteTests.field("browser", after: "Browsers", in: page)
            _ = try await attacker.get("/account")
            _ = try await attacker.post("/account/login", ["session": session, "confirmed": "yes"])
            _ = try await attacker.post("/account/browser", ["browser": browser])
            for text in ["", "x", String(repeating: "A", count: 43)] {
                #expect(try await attacker.post("/account/login", ["session": text, "confirmed": "yes"]).location == "/auth/account")
                #expect(try await attacker.post("/account/browser", ["browser": text]).location == "/auth/account")
            }
            #expect(try await adas.isSignedIn)
            return try await attacker.get("/account")
        }
        joined = try await device.refresh(test, joined.refreshToken)
        #expect(test.revoked.isEmpty)
        #expect(!page.text.contains("com.example.app"))
    }

    @Test func accountFormsNeedTheirCodeAndSession() async throws {
        try await test.browse { client in
            let (browser, visitor) = (TestBrowser(client), TestBrowser(client))
            try await browser.setUp(test)
            _ = try await browser.get("/account")
            _ = try await visitor.get("/login")
            let password = ["password": "another long password", "repeated": "another long password"]
            for place in ["/account/password", "/account/codes", "/account/login", "/account/browser"] {
                #expect(try await browser.post(place, password.merging(["form_code": visitor.code]) { $1 }).status == 403)
                #expect(try await browser.post(place, password, origin: "https://evil.example").status == 403)
                #expect(try await visitor.post(place, password).location == "/auth/login")
            }
            #expect(try await TestBrowser(client).signIn().status == 303)
            #expect(try await browser.get("/account").text.contains("0 unused codes"))
        }
    }

    /// A person who finds a signed-in browser cannot take the account over.
    @Test func staleSessionCannotChangeCredentials() async throws {
        try await test.browse { client in
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            test.pass(WebSession.freshness)
            let page = try await browser.get("/account")
            #expect(!page.text.contains("New password") && page.text.contains("sign in again"))
            let password = ["password": "another long password", "repeated": "another long password"]
            for place in ["/account/password", "/account/codes"] { #expect(try await browser.post(place, password).status == 403) }
            #expect(try await TestBrowser(client).signIn().status == 303)
        }
    }

    /// A login that nobody uses any more.
    func idle(_ subject: String, client: String = "com.example.idle", revoked: Milliseconds? = nil) -> RefreshFamily {
        RefreshFamily(
            id: .random(),
            subject: subject,
            client: client,
            scopes: .all,
            key: nil,
            invitedBy: nil,
            created: test.now,
            rotated: test.now,
            revoked: revoked
        )
    }

    @Test func loginsPerUserAreBounded() async throws {
        let (used, unused, new) = (TestDevice(), TestDevice(), TestDevice())
        var first = try await used.join(test, code: try await test.invite())
        let second = try await unused.join(test, code: try await test.invite())
        test.pass(1)
        let subject = try await test.ada()
        let others = (2..<RefreshFamily.maximum).map { _ in idle(subject) }
        try await test.issuer.store.write { records in for login in others { try records.insert(login) } }
        test.pass(1)
        first = try await used.refresh(test, first.refreshToken)
        #expect(test.revoked.isEmpty)
        var third = try await new.join(test, code: try await test.invite())
        // The relay hears of it, as of each revoked login.
        let session = try SignedJSON(parsing: second.accessToken.exposed).claims(AccessTokenClaims.self).sid
        #expect(test.revoked.map(\.session) == [session])
        await #expect(throws: OAuthError.self) { try await unused.refresh(test, second.refreshToken) }
        first = try await used.refresh(test, first.refreshToken)
        third = try await new.refresh(test, third.refreshToken)
        let open = try await test.issuer.store.read { try $0.openLogins(of: subject) }
        #expect(open.count == RefreshFamily.maximum)
        #expect(Set(open.map(\.id)).isSuperset(of: others.map(\.id)))
        #expect(try await test.issuer.events(of: subject).contains { $0.kind == .loginRevoked })
    }

    @Test func revokedLoginsPerUserAreBounded() async throws {
        let subject = try await test.ada()
        let (long, lately) = (test.now, Milliseconds(clamping: test.now.count + 1))
        let former = (0...RefreshFamily.maximumRevoked).map { _ in idle(subject, revoked: long) }
        let latest = (0..<10).map { _ in idle(subject, revoked: lately) }
        try await test.issuer.store.write { records in for login in former + latest { try records.insert(login) } }
        func left() async throws -> [RefreshFamily] { try await test.issuer.store.read { try $0.revoked(since: 0) } }
        // The access tokens of all of them may be valid.
        test.pass(RevokedLogin.memory - 1)
        _ = try await TestDevice().join(test, code: try await test.invite())
        #expect(try await left().count == former.count + latest.count)
        test.pass(1)
        _ = try await TestDevice().join(test, code: try await test.invite())
        let kept = try await left()
        #expect(kept.count == RefreshFamily.maximumRevoked)
        #expect(Set(kept.map(\.id)).isSuperset(of: latest.map(\.id)))
    }

    @Test func loginsOnAPageAreBounded() async throws {
        let subject = try await test.ada()
        let logins = (0..<RefreshFamily.maximum).map { _ in idle(subject) } + [idle(subject, client: "com.example.one-too-many")]
        try await test.issuer.store.write { records in
            for (number, login) in logins.enumerated() {
                var login = login
                login.rotated = Milliseconds(clamping: login.rotated.count - Int64(number))
                try records.insert(login)
            }
        }
        try await test.browse { client in
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            let page = try await browser.get("/account")
            #expect(page.text.matches(of: /name="session"/).count == RefreshFamily.maximum)
            #expect(!page.text.contains("one-too-many"))
        }
    }

    @Test func guessedRecoveryCodesAreDelayed() async throws {
        try await test.browse { client in
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            _ = try await browser.get("/account")
            let page = try await browser.post("/account/codes")
            let code = String(try #require(page.text.firstMatch(of: /<li class="code">([A-Z-]+)<\/li>/)).1)
            let attacker = TestBrowser(client, address: "203.0.113.9")
            let first = try await attacker.get("/recover")
            #expect(first.status == 200)
            func attempt(_ name: String, _ code: String) async throws -> TestBrowser.Page {
                try await attacker.post("/recover", ["name": name, "code": code])
            }
            let wrong = try await attempt("Ada", RecoveryCode().text.exposed)
            #expect(wrong.status == 401)
            #expect(try await attempt("Eve", code).text == wrong.text)
            for text in ["", "x", String(repeating: "B", count: 10_000)] { #expect(try await attempt("Ada", text).text == wrong.text) }
            #expect(try await attempt("Ada", RecoveryCode().text.exposed).status == 401)
            #expect(try await attempt("Ada", code).status == 429)
            let owner = TestBrowser(client)
            _ = try await owner.get("/recover")
            #expect(try await owner.post("/recover", ["name": "Ada", "code": code, "form_code": attacker.code]).status == 403)
            #expect(try await owner.post("/recover", ["name": "Ada", "code": code]).location == "/auth/setup")
        }
    }
}
