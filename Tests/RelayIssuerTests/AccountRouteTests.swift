// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import HummingbirdTesting
import RelayProtocol
import Testing

@testable import RelayIssuer

/// A user's account page: devices, browsers, password, recovery codes, what happened.
@Suite struct AccountRouteTests {
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    /// The value of a hidden field in the part of a page that begins with a text.
    static func field(_ name: String, after text: String, in page: TestBrowser.Page) throws -> String {
        let start = try #require(page.text.firstRange(of: text)).upperBound
        let rest = String(page.text[start...])
        return String(try #require(rest.firstMatch(of: try Regex("name=\"\(name)\" value=\"([^\"]+)\"")))[1].substring ?? "")
    }

    @Test func headerNamesHostAndOperator() async throws {
        let issuer = try test.make(operatorName: "Anna & <Co>")
        try await test.browse(issuer) { client in
            let page = try await TestBrowser(client).get("/login")
            #expect(page.text.contains("<b>Anna &amp; &lt;Co&gt;</b><span>relay.example:8443</span>"))
        }
    }

    @Test func userSeesDevicesAndSignsThemOut() async throws {
        let device = TestDevice()
        let joined = try await device.join(test, code: try await test.invite())
        try await test.browse { client in
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            let page = try await browser.get("/account")
            #expect(page.text.contains("com.example.app") && page.text.contains("2023-11-14 22:13:20 UTC"))
            #expect(page.text.contains("TestBrowser/1, this one"))
            let session = try Self.field("session", after: "com.example.app", in: page)
            // A button that cannot be undone asks first, and looks different.
            let question = try await browser.post("/account/login", ["session": session])
            #expect(question.status == 200 && question.text.contains("class=\"destructive\"") && question.text.contains("com.example.app"))
            #expect(test.revoked.isEmpty)
            #expect(try await browser.post("/account/login", ["session": session, "confirmed": "yes"]).location == "/auth/account")
            #expect(try await !browser.get("/account").text.contains("name=\"session\""))
            #expect(test.revoked.map(\.session) == [session])
            await #expect(throws: OAuthError.self) { try await device.refresh(test, joined.refreshToken) }
        }
        #expect(try await test.issuer.events(of: test.ada()).first?.kind == .loginRevoked)
    }

    @Test func userSignsAnotherBrowserOut() async throws {
        try await test.browse { client in
            let (browser, other) = (TestBrowser(client), TestBrowser(client))
            try await browser.setUp(test)
            _ = try await other.signIn()
            let page = try await browser.get("/account")
            let id = try Self.field("browser", after: "Browsers", in: page)
            _ = try await browser.post("/account/browser", ["browser": id])
            #expect(try await !other.isSignedIn)
            #expect(try await browser.isSignedIn)
        }
    }

    @Test func userSetsAnotherPassword() async throws {
        try await test.browse { client in
            let (browser, other) = (TestBrowser(client), TestBrowser(client))
            try await browser.setUp(test)
            _ = try await other.signIn()
            _ = try await browser.get("/account")
            for (password, repeated) in [("short", "short"), ("another long password", "another"), ("", "")] {
                #expect(try await browser.post("/account/password", ["password": password, "repeated": repeated]).status == 400)
            }
            let former = browser.cookies
            let fields = ["password": "another long password", "repeated": "another long password"]
            #expect(try await browser.post("/account/password", fields).location == "/auth/account")
            #expect(browser.cookies != former)
            #expect(try await browser.isSignedIn)
            #expect(try await !other.isSignedIn)
            #expect(try await other.signIn().status == 401)
            #expect(try await other.signIn(password: "another long password").status == 303)
        }
    }

    @Test func recoveryCodeReplacesALostPassword() async throws {
        let codes = try await test.browse { client in
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            #expect(try await browser.get("/account").text.contains("0 unused codes"))
            let page = try await browser.post("/account/codes")
            let codes = page.text.matches(of: /<li class="code">([A-Z-]+)<\/li>/).map { String($0.1) }
            #expect(Set(codes).count == RecoveryCode.count)
            #expect(try await browser.get("/account").text.contains("10 unused codes"))
            let lost = TestBrowser(client)
            _ = try await lost.get("/recover")
            let fields = ["name": "Ada", "code": codes[3].lowercased().replacing("-", with: " ")]
            #expect(try await lost.post("/recover", fields).location == "/auth/setup")
            #expect(try await lost.get("/setup").status == 200)
            let password = ["password": "another long password", "repeated": "another long password"]
            #expect(try await lost.post("/setup", password).location == "/auth/account")
            #expect(try await lost.get("/account").text.contains("9 unused codes"))
            #expect(try await !browser.isSignedIn)
            let again = TestBrowser(client)
            _ = try await again.get("/recover")
            #expect(try await again.post("/recover", ["name": "Ada", "code": codes[3]]).status == 401)
            // New codes replace the old ones.
            _ = try await lost.post("/account/codes")
            #expect(try await again.post("/recover", ["name": "Ada", "code": codes[4]]).status == 401)
            return codes
        }
        let contents = try await test.contents()
        for code in codes { #expect(!contents.contains(code) && !test.logged.contains(code)) }
        let kinds = try await test.issuer.events(of: test.ada()).map(\.kind)
        #expect(Set(kinds).isSuperset(of: [.recoveryCodesMade, .recoveryCodeUsed, .passwordSet]))
    }

    @Test func accountPageShowsEvents() async throws {
        try await test.browse { client in
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            for _ in 0..<2 { _ = try await TestBrowser(client).signIn(password: "a wrong password") }
            let page = try await browser.get("/account")
            #expect(page.text.contains("signing in failed, 2 times: TestBrowser/1"))
            #expect(page.text.contains("the operator made a link"))
        }
    }

    @Test func sessionsPerUserAreBounded() async throws {
        try await test.issuer.setPassword(subject: test.ada(), to: Secret(TestBrowser.password))
        try await test.browse { client in
            let first = TestBrowser(client)
            _ = try await first.signIn()
            for _ in 0..<WebSession.maximum {
                test.pass(1)
                #expect(try await TestBrowser(client).signIn().status == 303)
            }
            #expect(try await !first.isSignedIn)
        }
        let subject = try await test.ada()
        #expect(try await test.issuer.store.read { try $0.sessions(of: subject).count } == WebSession.maximum)
    }
}
