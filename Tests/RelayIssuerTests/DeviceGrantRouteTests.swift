// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Hummingbird
import HummingbirdTesting
import RelayProtocol
import Testing

@testable import RelayIssuer

/// The device grant: a device without a browser, and the pages of its user.
@Suite struct DeviceGrantRouteTests {
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }
    init(_ test: TestIssuer) { self.test = test }

    static let fields = [
        "client_id": "com.example.television", "device_name": "TV <living room>", "device_platform": "linux",
        "scope": "offline_access relay.push",
    ]

    func poll(_ app: TestApp, _ code: String?, _ changes: [String: String] = [:]) async throws -> TestApp.Answer {
        let fields = ["grant_type": TokenRequest.deviceCode, "device_code": code ?? "", "client_id": "com.example.television"]
        return try await app.post("/token", fields.merging(changes) { $1 }, proof: app.device.proof(at: test.now))
    }

    /// The user enters the code, and decides.
    func decide(_ browser: TestBrowser, _ userCode: String?, _ decision: String) async throws -> TestBrowser.Page {
        let page = try await browser.post("/device", ["user_code": try #require(userCode)])
        #expect(page.status == 200)
        let request = String(try #require(page.text.firstMatch(of: /name="request" value="([^"]+)"/)).1)
        return try await browser.post("/device/decision", ["request": request, "decision": decision])
    }

    @Test func deviceSignsInWithAnotherDevicesBrowser() async throws {
        let subject = try await test.ada()
        try await test.browse { client in
            let (app, browser) = (TestApp(client), TestBrowser(client))
            try await browser.setUp(test)
            let begun = try await app.post("/device_authorization", Self.fields)
            #expect(begun.status == 200 && begun.expiresIn == 600 && begun.interval == 5)
            #expect(begun.verificationURI == TestIssuer.url + "/device")
            let userCode = try #require(begun.userCode)
            #expect(begun.verificationURIComplete == TestIssuer.url + "/device?user_code=" + userCode)
            #expect(try await poll(app, begun.deviceCode).error == "authorization_pending")
            let page = try await browser.get("/device?user_code=" + userCode)
            #expect(page.text.contains("value=\"\(userCode)\""))
            let shown = try await browser.post("/device", ["user_code": userCode.lowercased().replacing("-", with: " ")])
            for text in ["TV &lt;living room&gt;", "com.example.television", "linux", "in your hands"] {
                #expect(shown.text.contains(text))
            }
            #expect(try await decide(browser, userCode, "allow").status == 200)
            test.pass(5_000)
            let tokens = try await poll(app, begun.deviceCode)
            #expect(tokens.status == 200 && tokens.tokenType == "DPoP" && tokens.scope == "offline_access relay.push")
            let claims = try SignedJSON(parsing: try #require(tokens.accessToken)).claims(AccessTokenClaims.self)
            #expect(claims.sub == subject && claims.clientID == "com.example.television" && claims.invitedBy == nil)
            test.pass(5_000)
            #expect(try await poll(app, begun.deviceCode).error == "invalid_grant")
        }
        let event = try await test.issuer.events(of: subject).first { $0.kind == .appSignedIn }
        #expect(event?.detail == "com.example.television, TV <living room>")
    }

    @Test func userSignsInFirst() async throws {
        try await test.issuer.setPassword(subject: test.ada(), to: Secret(TestBrowser.password))
        try await test.browse { client in
            let (app, browser) = (TestApp(client), TestBrowser(client))
            let userCode = try #require(try await app.post("/device_authorization", Self.fields).userCode)
            let page = try await browser.get("/device?user_code=" + userCode)
            #expect(page.text.contains("Sign in") && page.text.contains("/device?user_code=" + userCode))
            let answer = try await browser.signIn(next: "/device?user_code=" + userCode)
            #expect(answer.location == "/auth/device?user_code=" + userCode)
        }
    }

    @Test func deniedDeviceGetsNoToken() async throws {
        try await test.browse { client in
            let (app, browser) = (TestApp(client), TestBrowser(client))
            try await browser.setUp(test)
            _ = try await browser.get("/device")
            for decision in ["deny", "", "yes"] {
                let begun = try await app.post("/device_authorization", Self.fields)
                #expect(try await decide(browser, begun.userCode, decision).text.contains("Not allowed"))
                #expect(try await poll(app, begun.deviceCode).error == "access_denied")
            }
        }
    }

    @Test func earlyAndLatePollsAreRejected() async throws {
        try await test.browse { client in
            let (app, browser) = (TestApp(client), TestBrowser(client))
            try await browser.setUp(test)
            _ = try await browser.get("/device")
            let begun = try await app.post("/device_authorization", Self.fields)
            #expect(try await poll(app, begun.deviceCode).error == "authorization_pending")
            #expect(try await poll(app, begun.deviceCode).error == "slow_down")
            test.pass(5_000)
            #expect(try await poll(app, begun.deviceCode).error == "authorization_pending")
            test.pass(DeviceAuthorization.life)
            #expect(try await poll(app, begun.deviceCode).error == "expired_token")
            // Another device that begins makes the issuer forget what no longer matters.
            test.pass(5_000)
            _ = try await app.post("/device_authorization", Self.fields)
            #expect(try await poll(app, begun.deviceCode).error == "expired_token")
            #expect(try await browser.post("/device", ["user_code": begun.userCode ?? ""]).status == 400)
            test.pass(DeviceAuthorization.memory)
            _ = try await app.post("/device_authorization", Self.fields)
            #expect(try await poll(app, begun.deviceCode).error == "invalid_grant")
        }
    }

    /// As oidc-agent does.
    @Test func clientNamesItselfByBasicAuthentication() async throws {
        try await test.browse { client in
            let app = TestApp(client)
            func begin(_ credentials: String, _ client: String = "") async throws -> TestApp.Answer {
                let basic = "Basic " + Data(credentials.utf8).base64EncodedString()
                return try await app.post("/device_authorization", ["client_id": client], authorization: basic)
            }
            #expect(try await begin("com.example.television:").status == 200)
            #expect(try await begin("com.example.television:", "com.example.television").status == 200)
            #expect(try await begin("com.example.television:", "com.example.radio").error == "invalid_request")
            #expect(try await begin(":").error == "invalid_request")
            let secret = try await begin("com.example.television:secret")
            #expect(secret.status == 401 && secret.error == "invalid_client")
        }
    }

    @Test func userCodeHasEightConsonants() {
        for _ in 0..<100 {
            let code = UserCode()
            #expect(code.text.wholeMatch(of: /[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}/) != nil)
            #expect(UserCode(typed: " " + code.text.lowercased()) == code)
        }
        for text in ["", "BCDF", "BCDF-GHJA", "BCDF-GHJKL", "BCDFGHJ\u{212A}", String(repeating: "-", count: 100)] {
            #expect(UserCode(typed: text) == nil)
        }
    }
}
