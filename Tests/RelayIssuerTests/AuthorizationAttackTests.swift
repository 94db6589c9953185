// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import HummingbirdTesting
import RelayProtocol
import Testing

@testable import RelayIssuer

/// Attacks on the authorization code grant.
@Suite struct AuthorizationAttackTests {
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    /// Runs with an app, and a browser in which its user is signed in.
    func attack(_ body: @escaping @Sendable (TestApp, TestBrowser) async throws -> Void) async throws {
        try await test.browse { client in
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            try await body(try await TestApp(registeredAt: client), browser)
        }
    }

    @Test func codeOfAnotherRequestIsRejected() async throws {
        try await attack { app, browser in
            let code = try #require(try await app.decide(browser)["code"])
            var other = TestApp(app.client)
            other.id = try #require(try await other.register(#"{"redirect_uris": ["\#(TestApp.redirect)"]}"#).clientID)
            let wrong = [
                ["code_verifier": other.verifier], ["redirect_uri": "http://127.0.0.1:49153/done"], ["redirect_uri": TestApp.redirect],
                ["redirect_uri": "https://evil.example/"], ["client_id": other.id], ["client_id": "com.example.app"],
                ["code": code + "A"], ["code": String(code.dropLast())],
            ]
            for changes in wrong {
                let answer = try await app.redeem(code, test, changes)
                #expect(answer.error == "invalid_grant" && answer.status == 400 && answer.accessToken == nil, "\(changes)")
            }
            for changes in [["code_verifier": ""], ["code_verifier": "short"], ["redirect_uri": ""], ["code": ""]] {
                #expect(try await app.redeem(code, test, changes).error == "invalid_request", "\(changes)")
            }
            // None of them used the code up, or ended anything.
            let answer = try await app.redeem(code, test)
            #expect(answer.status == 200)
            #expect(try await app.redeem(code, test, ["code_verifier": other.verifier]).error == "invalid_grant")
            let fields = ["grant_type": "refresh_token", "refresh_token": answer.refreshToken ?? "", "client_id": app.id]
            #expect(try await app.post("/token", fields, proof: app.device.proof(at: test.now)).status == 200)
        }
    }

    @Test func replayedCodeRevokesItsLogin() async throws {
        try await attack { app, browser in
            let code = try #require(try await app.decide(browser)["code"])
            let tokens = try await app.redeem(code, test)
            #expect(tokens.status == 200)
            // The response was lost, and the app tries again.
            #expect(try await app.redeem(code, test).error == "invalid_grant")
            #expect(test.revoked.isEmpty)
            #expect(try await app.redeem(code, test, isBound: false).error == "invalid_grant")
            #expect(test.revoked.count == 1)
            let fields = ["grant_type": "refresh_token", "refresh_token": tokens.refreshToken ?? "", "client_id": app.id]
            #expect(try await app.post("/token", fields, proof: app.device.proof(at: test.now)).error == "invalid_grant")
        }
        #expect(try await test.issuer.events(of: test.ada()).contains { $0.kind == .codeReplayed })
    }

    @Test func redirectToAnUnregisteredURIIsRejected() async throws {
        try await attack { app, browser in
            for redirect in [
                "", "https://evil.example/done", "http://127.0.0.1:80@evil.example/done", "http://evil@127.0.0.1/done",
                "http://localhost/done",
                "http://[::1]/done", "http://127.0.0.1/done/", "http://127.0.0.1/other", "http://127.0.0.1/done?x=1",
                "http://127.0.0.1/done#x",
                "https://127.0.0.1/done", "com.example.app:/done", "com.example.app:/done?x=2", "com.evil.app:/done?x=1", "//evil.example",
                "javascript:alert(1)",
            ] {
                for changes in [["redirect_uri": redirect], ["redirect_uri": redirect, "response_type": "wrong"]] {
                    let page = try await browser.get("/authorize?" + app.query(changes))
                    #expect(page.status == 400 && page.location == nil, "\(redirect)")
                }
            }
            for id in [
                "", "dynamic.unknown", "com.example.app", app.id + "A", String(app.id.dropLast()),
                "dynamic." + app.id.split(separator: ".")[2],
            ] {
                #expect(try await browser.get("/authorize?" + app.query(["client_id": id])).status == 400)
            }
            #expect(try await browser.get("/authorize?" + app.query() + "&redirect_uri=com.evil.app").status == 400)
            #expect(try await browser.get("/authorize?" + app.query(["redirect_uri": "com.example.app:/done?x=1"])).status == 200)
        }
    }

    @Test func consentNeedsTheUsersForm() async throws {
        try await attack { app, browser in
            _ = try await browser.get("/authorize?" + app.query())
            let fields = ["request": app.query(), "decision": "allow"]
            #expect(try await browser.post("/authorize", fields.merging(["form_code": ""]) { $1 }).status == 403)
            #expect(try await browser.post("/authorize", fields, origin: "https://evil.example").status == 403)
            // A form for another address.
            let changed = app.query(["redirect_uri": "https://evil.example/"])
            #expect(try await browser.post("/authorize", ["request": changed, "decision": "allow"]).status == 400)
            let visitor = TestBrowser(app.client)
            _ = try await visitor.get("/login")
            #expect(try await visitor.post("/authorize", fields).location == "/auth/login")
        }
        #expect(try await test.contents().contains("authorization_code: []"))
    }

    @Test func codesPerUserAreBounded() async throws {
        try await attack { app, browser in
            for _ in 0..<(AuthorizationCode.maximum + 3) { _ = try await app.decide(browser) }
        }
        let count = try await test.contents().split(separator: "\n").first { $0.hasPrefix("authorization_code") }?
            .matches(of: /redeemed:0/).count
        #expect(count == AuthorizationCode.maximum)
    }

    @Test func noCodeIsStoredOrLogged() async throws {
        try await attack { app, browser in
            let code = try #require(try await app.decide(browser)["code"])
            _ = try await app.redeem(code, test)
            let contents = try await test.contents()
            for secret in [code, app.verifier] { #expect(!contents.contains(secret) && !test.logged.contains(secret)) }
        }
    }
}
