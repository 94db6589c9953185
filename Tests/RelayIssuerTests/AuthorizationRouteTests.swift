// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Hummingbird
import HummingbirdTesting
import RelayProtocol
import Testing

@testable import RelayIssuer

/// The authorization code grant: registration, consent, token.
@Suite struct AuthorizationRouteTests {
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    @Test func appSignsItsUserIn() async throws {
        let subject = try await test.ada()
        try await test.browse { client in
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            let app = try await TestApp(registeredAt: client)
            let page = try await browser.get("/authorize?" + app.query())
            #expect(page.text.contains("Example &lt;App&gt;") && page.text.contains("<strong>Ada</strong>"))
            #expect(page.headers[.contentSecurityPolicy]?.contains("form-action 'self' http://127.0.0.1:49152") == true)
            let answer = try await app.decide(browser, "allow", ["scope": "offline_access relay.command"])
            #expect(answer["state"] == "a b&c")
            #expect(answer["iss"] == TestIssuer.url)
            let tokens = try await app.redeem(try #require(answer["code"]), test)
            #expect(tokens.status == 200)
            #expect(tokens.tokenType == "DPoP")
            #expect(tokens.scope == "offline_access relay.command")
            let claims = try SignedJSON(parsing: try #require(tokens.accessToken)).claims(AccessTokenClaims.self)
            #expect(claims.sub == subject && claims.clientID == app.id)
            #expect(claims.cnf?.jkt == app.device.key.publicKey.jwkThumbprint)
            let fields = ["grant_type": "refresh_token", "refresh_token": try #require(tokens.refreshToken), "client_id": app.id]
            #expect(try await app.post("/token", fields, proof: app.device.proof(at: test.now)).status == 200)
        }
        let event = try await test.issuer.events(of: subject).first { $0.kind == .appSignedIn }
        #expect(event?.detail == "Example <App>")
    }

    @Test func browserSignsInFirst() async throws {
        try await test.issuer.setPassword(subject: test.ada(), to: Secret(TestBrowser.password))
        try await test.browse { client in
            let (browser, app) = (TestBrowser(client), try await TestApp(registeredAt: client))
            let page = try await browser.get("/authorize?" + app.query())
            #expect(page.text.contains("Sign in"))
            let next = String(try #require(page.text.firstMatch(of: /name="next" value="([^"]+)"/)).1).replacing("&amp;", with: "&")
            let answer = try await browser.post("/login", ["name": "Ada", "password": TestBrowser.password, "next": next])
            let location = try #require(answer.location)
            #expect(location.hasPrefix("/auth/authorize?"))
            #expect(try await browser.get(String(location.dropFirst(5))).text.contains("Let an app in?"))
        }
    }

    @Test func userDeniesConsent() async throws {
        try await test.browse { client in
            let (browser, app) = (TestBrowser(client), try await TestApp(registeredAt: client))
            try await browser.setUp(test)
            for decision in ["deny", "", "Allow"] {
                let answer = try await app.decide(browser, decision)
                #expect(answer["error"] == "access_denied" && answer["code"] == nil && answer["iss"] == TestIssuer.url)
            }
        }
    }

    @Test func codeExpiresAfterAMinute() async throws {
        try await test.browse { client in
            let (browser, app) = (TestBrowser(client), try await TestApp(registeredAt: client))
            try await browser.setUp(test)
            let code = try #require(try await app.decide(browser)["code"])
            test.pass(AuthorizationCode.life)
            #expect(try await app.redeem(code, test).error == "invalid_grant")
            #expect(try await app.redeem(try #require(try await app.decide(browser)["code"]), test, isBound: false).tokenType == "Bearer")
            let narrow = try #require(try await app.decide(browser, "allow", ["scope": "relay.device.read"])["code"])
            #expect(try await app.redeem(narrow, test, ["scope": "relay.command"]).error == "invalid_scope")
        }
    }

    /// A request that is not right leads nowhere by itself: the page has a link to the app.
    @Test func invalidRequestIsReportedToTheAppByAClick() async throws {
        try await test.browse { client in
            let (browser, app) = (TestBrowser(client), try await TestApp(registeredAt: client))
            let cases = [
                (["response_type": "token"], "unsupported_response_type"), (["response_type": ""], "unsupported_response_type"),
                (["code_challenge": ""], "invalid_request"), (["code_challenge_method": "plain"], "invalid_request"),
                (["code_challenge_method": ""], "invalid_request"), (["code_challenge": "short"], "invalid_request"),
                (["scope": "admin"], "invalid_scope"),
            ]
            for (changes, expected) in cases {
                let page = try await browser.get("/authorize?" + app.query(changes))
                #expect(page.status == 400 && page.location == nil, "\(changes)")
                let link = String(try #require(page.text.firstMatch(of: /<a href="([^"]+)">Back to an app on this computer/)).1)
                let answer = try app.parameters(link.replacing("&amp;", with: "&"))
                #expect(answer["error"] == expected && answer["state"] == "a b&c" && answer["iss"] == TestIssuer.url, "\(changes)")
            }
        }
    }

    @Test func redirectURIsOfNativeAppsOnlyAreAccepted() {
        for text in [
            "http://127.0.0.1/", "http://127.0.0.1:1234/done?x=1", "http://[::1]/done", "http://localhost:80/done", "com.example.app:/done",
            "com.example-2.app:/", "http://127.0.0.1",
        ] {
            #expect(RedirectURI(text) != nil, "\(text)")
        }
        for text in [
            "", "x", "https://example.com/done", "http://example.com/", "http://127.0.0.1@evil.example/",
            "http://127.0.0.1:80@evil.example/",
            "http://127.0.0.1.evil.example/", "http://127.0.0.2/", "http://localhost.evil.example/", "http:/127.0.0.1/",
            "http://127.0.0.1/#x",
            "javascript:alert(1)", "data:text/html,x", "app:/done", "com.example.app://evil.example/", "com.example.app:done",
            "Com.example.app:/done", "http://127.0.0.1/ x", "http://127.0.0.1\\@evil.example/", "http://127.0.0.1:99999/",
            "http://ⓛocalhost/",
            "com.example.app:/\u{301}", ".com:/x", "com.example;script-src *:/x", "http://127.0.0.1/" + String(repeating: "a", count: 512),
        ] {
            #expect(RedirectURI(text) == nil, "\(text)")
        }
    }

    @Test func onlyNativePublicClientsRegister() async throws {
        let good = #""redirect_uris": ["http://127.0.0.1/done"]"#
        let cases = [
            ("", "invalid_client_metadata"), ("[]", "invalid_client_metadata"), ("{}", "invalid_redirect_uri"),
            (#"{"redirect_uris": []}"#, "invalid_redirect_uri"), (#"{"redirect_uris": "x"}"#, "invalid_client_metadata"),
            (#"{"redirect_uris": ["https://evil.example/"]}"#, "invalid_redirect_uri"),
            (#"{"redirect_uris": ["http://127.0.0.1/", "javascript:alert(1)"]}"#, "invalid_redirect_uri"),
            ("{\"redirect_uris\": [\((0..<5).map { "\"http://127.0.0.1/\($0)\"" }.joined(separator: ","))]}", "invalid_redirect_uri"),
            ("{\(good), \"token_endpoint_auth_method\": \"client_secret_basic\"}", "invalid_client_metadata"),
            ("{\(good), \"grant_types\": [\"implicit\"]}", "invalid_client_metadata"),
            ("{\(good), \"response_types\": [\"token\"]}", "invalid_client_metadata"),
            ("{\(good), \"client_name\": \"a\\u202eb\"}", "invalid_client_metadata"),
            ("{\(good), \"client_name\": \"\(String(repeating: "a", count: 65))\"}", "invalid_client_metadata"),
            ("{\"redirect_uris\": [\"http://127.0.0.1/\"], \"x\": \"\(String(repeating: "a", count: 16 << 10))\"}", "invalid_request"),
        ]
        try await test.browse { client in
            let app = TestApp(client)
            for (json, expected) in cases {
                let answer = try await app.register(json)
                #expect(answer.error == expected && answer.clientID == nil, "\(json.prefix(60))")
                #expect(answer.status == (expected == "invalid_request" ? 413 : 400))
            }
        }
    }

    @Test func idHoldsTheNameAndTheRedirectURIs() throws {
        let key = try test.clientKey
        let texts = ["http://127.0.0.1:1/done", "http://[::1]/done?x=1", "com.example.app:/done", "http://localhost"]
        let redirects = texts.compactMap(RedirectURI.init)
        for name in ["", "Player", "Zoë’s player on 日本", String(repeating: "日", count: 64)] {
            let client = RegisteredClient(name: name, redirects: redirects, by: key)
            #expect(client.id.utf8.count <= TokenRequest.maximumClientBytes)
            let read = try #require(RegisteredClient(id: client.id))
            #expect(read == client && RegisteredClient.shown(client.id) == (name.isEmpty ? "an app" : name))
            let other = RegisteredClient(name: name + "x", redirects: redirects, by: key)
            for redirect in redirects {
                #expect(read.has(redirect, by: key))
                #expect(!read.has(redirect, by: .init(size: .bits256)) && other.id != client.id)
            }
            for text in ["http://127.0.0.1:65535/done", "http://[::1]:9/done?x=1"] {
                #expect(read.has(try #require(RedirectURI(text)), by: key))
            }
            for text in [
                "http://127.0.0.1/", "http://localhost/done", "http://[::1]/done", "com.example.app:/done?x", "com.example.app2:/done",
            ] {
                #expect(try !read.has(#require(RedirectURI(text)), by: key))
            }
            // The codes of one name are no codes of another.
            let codes = try #require(client.id.split(separator: ".").last)
            let renamed = try #require(RegisteredClient(id: "dynamic.\(Base64.url.encode(Array("Bank".utf8))).\(codes)"))
            for redirect in redirects { #expect(!renamed.has(redirect, by: key)) }
        }
        let good = RegisteredClient(name: "A", redirects: redirects, by: key).id
        for id in [
            "", "dynamic", "dynamic.", "dynamic..", "dynamic.QQ.", "dynamic.QQ.QQ", good + ".QQ", good.dropLast() + "",
            "Dynamic" + good.dropFirst(7),
        ] {
            #expect(RegisteredClient(id: id) == nil, "\(id)")
        }
    }
}
