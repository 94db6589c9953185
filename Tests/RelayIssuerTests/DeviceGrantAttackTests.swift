// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import HummingbirdTesting
import RelayProtocol
import Testing

@testable import RelayIssuer

/// Attacks on the device grant.
@Suite struct DeviceGrantAttackTests {
    let routes: DeviceGrantRouteTests
    var test: TestIssuer { routes.test }

    init() throws { self.routes = try DeviceGrantRouteTests() }

    func attack(_ body: @escaping @Sendable (TestApp, TestBrowser) async throws -> Void) async throws {
        try await test.browse { client in
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            _ = try await browser.get("/device")
            try await body(TestApp(client), browser)
        }
    }

    @Test func guessedUserCodesAreDelayed() async throws {
        try await attack { app, browser in
            let begun = try await app.post("/device_authorization", DeviceGrantRouteTests.fields)
            for _ in 0..<AttemptLimit.free { #expect(try await browser.post("/device", ["user_code": UserCode().text]).status == 400) }
            #expect(try await browser.post("/device", ["user_code": begun.userCode ?? ""]).status == 429)
            test.pass(1_000)
            // A right code in between does not reset the wait.
            #expect(try await browser.post("/device", ["user_code": begun.userCode ?? ""]).status == 200)
            #expect(try await browser.post("/device", ["user_code": UserCode().text]).status == 429)
            for text in ["", "x", "<script>", String(repeating: "B", count: 10_000)] {
                test.pass(AttemptLimit.longestWait)
                let page = try await browser.post("/device", ["user_code": text])
                #expect(page.status == 400 && !page.text.contains("<script>"))
            }
        }
    }

    @Test func onlyASignedInUserDecidesOnce() async throws {
        try await attack { app, browser in
            let begun = try await app.post("/device_authorization", DeviceGrantRouteTests.fields)
            let page = try await browser.post("/device", ["user_code": begun.userCode ?? ""])
            let request = String(try #require(page.text.firstMatch(of: /name="request" value="([^"]+)"/)).1)
            let fields = ["request": request, "decision": "allow"]
            let visitor = TestBrowser(app.client)
            _ = try await visitor.get("/login")
            #expect(try await visitor.post("/device/decision", fields).location == "/auth/login")
            #expect(try await browser.post("/device/decision", fields.merging(["form_code": visitor.code]) { $1 }).status == 403)
            #expect(try await browser.post("/device/decision", fields, origin: "https://evil.example").status == 403)
            for wrong in ["", "x", begun.deviceCode ?? "", begun.userCode ?? ""] {
                #expect(try await browser.post("/device/decision", ["request": wrong, "decision": "allow"]).status == 400)
            }
            #expect(try await routes.poll(app, begun.deviceCode).error == "authorization_pending")
            #expect(try await browser.post("/device/decision", ["request": request, "decision": "deny"]).status == 200)
            #expect(try await browser.post("/device/decision", fields).status == 400)
            test.pass(5_000)
            #expect(try await routes.poll(app, begun.deviceCode).error == "access_denied")
        }
    }

    @Test func deviceCodeOfAnotherClientIsRejected() async throws {
        try await attack { app, browser in
            let begun = try await app.post("/device_authorization", DeviceGrantRouteTests.fields)
            #expect(try await routes.decide(browser, begun.userCode, "allow").status == 200)
            for changes in [["device_code": "wrong"], ["device_code": begun.userCode ?? ""], ["client_id": "com.example.other"]] {
                #expect(try await routes.poll(app, begun.deviceCode, changes).error == "invalid_grant", "\(changes)")
                test.pass(5_000)
            }
            #expect(try await routes.poll(app, begun.deviceCode, ["scope": "relay.command"]).error == "invalid_scope")
            test.pass(5_000)
            #expect(try await routes.poll(app, begun.deviceCode).status == 200)
        }
    }

    @Test func deviceRequestsAndNamesAreLimited() async throws {
        try await attack { app, browser in
            for changes in [
                ["device_name": String(repeating: "a", count: 65)], ["device_name": "a\u{202E}b"], ["device_platform": "a\nb"],
                ["client_id": "tv"], ["client_id": ""], ["scope": "admin"],
            ] {
                let answer = try await app.post("/device_authorization", DeviceGrantRouteTests.fields.merging(changes) { $1 })
                #expect(answer.status == 400 && answer.deviceCode == nil, "\(changes)")
            }
            for _ in 0..<30 { #expect(try await app.post("/device_authorization", DeviceGrantRouteTests.fields).status == 200) }
            #expect(try await app.post("/device_authorization", DeviceGrantRouteTests.fields).status == 429)
            var other = app
            other.address = "192.0.2.2"
            #expect(try await other.post("/device_authorization", DeviceGrantRouteTests.fields).status == 200)
        }
    }

    @Test func pendingPollsAreNotFailures() async throws {
        let issuer = try test.make(failuresPerMinute: 2)
        try await test.browse(issuer) { client in
            let app = TestApp(client)
            let begun = try await app.post("/device_authorization", DeviceGrantRouteTests.fields)
            for _ in 0..<10 {
                #expect(try await routes.poll(app, begun.deviceCode).error == "authorization_pending")
                test.pass(5_000)
            }
            for number in 0..<4 { #expect(try await routes.poll(app, "wrong").status == (number < 2 ? 400 : 429)) }
        }
        try issuer.close()
    }

    @Test func noCodeIsStoredOrLogged() async throws {
        try await attack { app, browser in
            let begun = try await app.post("/device_authorization", DeviceGrantRouteTests.fields)
            let contents = try await test.contents()
            #expect(contents.contains("TV <living room>"))
            for secret in [begun.deviceCode ?? "", begun.userCode ?? "", (begun.userCode ?? "").replacing("-", with: "")] {
                #expect(!secret.isEmpty && !contents.contains(secret) && !test.logged.contains(secret))
            }
        }
    }
}
