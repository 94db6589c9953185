// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import HummingbirdTesting
import RelayProtocol
import Synchronization
import Testing

@testable import RelayIssuer

/// Attacks on signing in, and on the pages of a signed-in user.
@Suite struct SignInAttackTests {
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    func setUp() async throws { try await test.issuer.setPassword(subject: test.ada(), to: Secret(TestBrowser.password)) }

    /// The text without what differs between two browsers.
    func comparable(_ page: TestBrowser.Page, _ name: String) -> String {
        page.text.replacing(/name="form_code" value="[^"]+"/, with: "").replacing(/data-challenge="[^"]+"/, with: "").replacing(
            name,
            with: "NAME"
        )
    }

    @Test func unknownNameGetsTheResponseOfAWrongPassword() async throws {
        try await setUp()
        _ = try await test.issuer.createUser(name: "Bob")
        try await test.browse { client in
            let known = try await TestBrowser(client).signIn(name: "Ada", password: "a wrong password")
            #expect(known.status == 401)
            // Bob has no password.
            for name in ["Eve", "Bob", " ada ", " ", "'; DROP TABLE user; --"] {
                let answer = try await TestBrowser(client).signIn(name: name, password: "a wrong password")
                #expect(answer.status == known.status)
                if name != " ", name != " ada " { #expect(comparable(answer, HTML.escape(name)) == comparable(known, "Ada")) }
            }
            for password in ["", String(repeating: "long", count: 500)] {
                #expect(try await TestBrowser(client).signIn(password: password).status == 401)
            }
        }
    }

    /// No time is measured: each of them needs one of the places for hashes.
    @Test func unknownNameIsHashedLikeAKnownOne() async throws {
        try await setUp()
        let issuer = try test.issuer
        try await test.browse { client in
            for name in ["Ada", "Eve"] {
                // Both places of the address are taken.
                try await issuer.signIn.hasher.whileHashing("192.0.2.1") {
                    let refused = try await TestBrowser(client).signIn(name: name)
                    #expect(refused.status == 503, "\(name)")
                    #expect(refused.headers[.retryAfter] == "5")
                }
            }
            #expect(try await TestBrowser(client).signIn().status == 303)
        }
    }

    @Test func attemptsThatFindNoPlaceDoNotCount() async throws {
        try await setUp()
        let issuer = try test.issuer
        try await test.browse { client in
            try await issuer.signIn.hasher.whileHashing("192.0.2.1") {
                for _ in 0...AttemptLimit.free {
                    let page = try await TestBrowser(client).signIn()
                    #expect(page.status == 503)
                }
            }
            #expect(try await TestBrowser(client).signIn().status == 303)
        }
    }

    /// An attempt that costs no hash must not fill the store.
    @Test func attemptsThatFindNoPlaceAreNotStored() async throws {
        try await setUp()
        let issuer = try test.issuer
        try await test.browse { client in
            let attacker = TestBrowser(client, address: "203.0.113.9")
            for number in 0..<AttemptLimit.free { #expect(try await attacker.signIn(password: "guess number \(number)").status == 401) }
            let rows = try await test.attemptRows()
            try await issuer.signIn.hasher.whileHashing("203.0.113.9") {
                for number in 0..<10 {
                    let page = try await attacker.signIn(name: "name \(number)")
                    #expect(page.status == 503)
                }
            }
            #expect(try await test.attemptRows() == rows)
            #expect(try await attacker.signIn().status == 429)
        }
    }

    /// One attempt is left, and two come while no hash can begin. One of them is refused before the other is hashed.
    @Test(.timeLimit(.minutes(10))) func attemptsAtTheSameTimeDoNotEscapeTheLimit() async throws {
        try await setUp()
        let issuer = try test.issuer
        try await test.browse { client in
            for _ in 1..<AttemptLimit.free { #expect(try await TestBrowser(client).signIn(password: "a wrong password").status == 401) }
            let (statuses, signal) = AsyncStream.makeStream(of: Int.self)
            var attempts: [Task<Void, any Error>] = []
            try await issuer.signIn.hasher.whileHashing("203.0.113.9") {
                attempts = (0..<2).map { _ in
                    Task { signal.yield(try await TestBrowser(client).signIn(password: "a wrong password").status) }
                }
                #expect(await statuses.first { _ in true } == 429)
            }
            for attempt in attempts { try await attempt.value }
            signal.finish()
            #expect(await statuses.reduce(into: []) { $0.append($1) } == [401])
        }
    }

    @Test func guessesAreDelayedAndTheOwnerElsewhereIsNot() async throws {
        try await setUp()
        try await test.browse { client in
            let attacker = TestBrowser(client, address: "203.0.113.9")
            for number in 0..<AttemptLimit.free { #expect(try await attacker.signIn(password: "guess number \(number)").status == 401) }
            let refused = try await attacker.signIn()
            #expect(refused.status == 429)
            #expect(refused.headers[.retryAfter] == "1")
            #expect(try await TestBrowser(client).signIn().status == 303)
            test.pass(1_000)
            #expect(try await attacker.signIn(password: "guess").status == 401)
            test.pass(1_000)
            #expect(try await attacker.signIn(password: "guess").status == 429)
        }
        let failed = try await test.issuer.events(of: test.ada()).filter { $0.kind == .signInFailed }
        #expect(failed.map(\.count) == [AttemptLimit.free + 1])
    }

    @Test func guessesFromManyAddressesAreLimitedTogether() async throws {
        try await setUp()
        let issuer = try test.make(passwordAttemptsPerHour: 10)
        try await test.browse(issuer) { client in
            for number in 0..<10 {
                let attacker = TestBrowser(client, address: "203.0.113.\(number)")
                #expect(try await attacker.signIn(password: "a wrong password").status == 401)
            }
            #expect(try await TestBrowser(client, address: "203.0.113.99").signIn(password: "a wrong password").status == 429)
            // So it is for a name that does not exist.
            for number in 0..<11 {
                let page = try await TestBrowser(client, address: "203.0.113.\(number)").signIn(name: "Eve", password: "a wrong password")
                #expect(page.status == (number < 10 ? 401 : 429))
            }
            test.pass(3_600_000)
            #expect(try await TestBrowser(client).signIn().status == 303)
        }
        try issuer.close()
    }

    @Test func failuresOfAnAddressAreLimited() async throws {
        let issuer = try test.make(failuresPerMinute: 3)
        try await test.browse(issuer) { client in
            for number in 0..<3 {
                let page = try await TestBrowser(client).signIn(name: "name \(number)", password: "x")
                #expect(page.status == 401)
            }
            #expect(try await TestBrowser(client).signIn(name: "name", password: "x").status == 429)
            #expect(try await TestBrowser(client, address: "192.0.2.2").signIn(name: "name", password: "x").status == 401)
        }
        try issuer.close()
    }

    /// A secret that an attacker put into the browser is not signed in afterwards.
    @Test func cookieFromBeforeSigningInIsNotSignedIn() async throws {
        try await setUp()
        try await test.browse { client in
            let attacker = TestBrowser(client)
            _ = try await attacker.get("/login")
            let victim = TestBrowser(client)
            victim.cookies = attacker.cookies
            #expect(try await victim.signIn().status == 303)
            #expect(try await victim.isSignedIn)
            #expect(victim.cookies != attacker.cookies)
            #expect(try await !attacker.isSignedIn)
            // Neither is the former secret after signing out.
            let stolen = victim.cookies
            _ = try await victim.get("/account")
            _ = try await victim.post("/logout")
            attacker.cookies = stolen
            #expect(try await !attacker.isSignedIn)
        }
    }

    @Test func formWithoutItsCodeIsRejected() async throws {
        try await setUp()
        try await test.browse { client in
            let browser = TestBrowser(client)
            _ = try await browser.signIn()
            _ = try await browser.get("/account")
            let other = TestBrowser(client)
            _ = try await other.get("/login")
            let good = browser.code
            for code in ["", other.code, "x", String(good.dropLast()), String(good.reversed())] {
                #expect(try await browser.post("/logout", ["form_code": code]).status == 403)
            }
            for origin in ["https://evil.example", "null", "https://relay.example", "http://relay.example:8443"] {
                #expect(try await browser.post("/logout", origin: origin).status == 403, "\(origin)")
            }
            #expect(try await browser.isSignedIn)
            // A browser that has no cookie has no form.
            let bare = TestBrowser(client)
            #expect(try await bare.post("/login", ["form_code": good, "name": "Ada", "password": TestBrowser.password]).status == 403)
            #expect(try await browser.post("/logout", origin: nil).location == "/auth/login")
        }
    }

    @Test func signingInRedirectsToTheIssuerOnly() async throws {
        try await setUp()
        try await test.browse { client in
            for place in [
                "https://evil.example/", "//evil.example", "/\\evil.example", "/account\\@evil", "evil", "/account/../../x", "/logout",
                "/account#x", "/acc\u{D6}unt", "javascript:alert(1)",
            ] {
                let browser = TestBrowser(client)
                let page = try await browser.signIn(next: place)
                #expect(page.location == "/auth/account", "\(place)")
                let encoded = TestDevice.encoded(["next": place])
                #expect(try await browser.get("/login?" + encoded).location == "/auth/account", "\(place)")
            }
            for place in ["/account\r\nLocation: https://evil.example", "/account\0"] {
                let page = try await TestBrowser(client).signIn(next: place)
                #expect(page.status == 400)
            }
            let device = "/device?user_code=BCDF-GHJK"
            #expect(try await TestBrowser(client).signIn(next: device).location == "/auth" + device)
        }
    }

    @Test func pagesForbidFramingAndForeignCode() async throws {
        try await setUp()
        try await test.browse { client in
            let browser = TestBrowser(client)
            _ = try await browser.signIn()
            for page in [
                try await browser.get("/account"), try await TestBrowser(client).get("/login"), try await TestBrowser(client).get("/setup"),
                try await browser.post("/logout", ["form_code": "x"]),
            ] {
                let policy = page.headers[.contentSecurityPolicy] ?? ""
                for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'", "script-src 'self'"] {
                    #expect(policy.contains(part))
                }
                #expect(!policy.contains("unsafe") && !policy.contains("*"))
                #expect(page.headers[try #require(.init("X-Frame-Options"))] == "DENY")
                #expect(page.headers[.xContentTypeOptions] == "nosniff")
                #expect(page.headers[.cacheControl] == "no-store")
                #expect(!page.text.contains("http:") && !page.text.contains("https:"))
                for cookie in page.cookies {
                    for part in ["; Path=/;", "HttpOnly", "SameSite=Lax", "; Secure"] { #expect(cookie.contains(part)) }
                    #expect(cookie.hasPrefix("__Host-") && !cookie.contains("Domain"))
                }
            }
        }
    }

    @Test func oversizedAndMalformedFormsAreRejected() async throws {
        try await setUp()
        try await test.browse { client in
            let browser = TestBrowser(client)
            _ = try await browser.get("/login")
            let good = TestDevice.encoded(["form_code": browser.code, "name": "Ada", "password": TestBrowser.password])
            #expect(try await browser.post("/login", body: good + "&x=" + String(repeating: "a", count: 64 << 10)).status == 413)
            for body in [good + "&name=Eve", good + "&x=%", good + "&" + (0..<40).map { "a\($0)=b" }.joined(separator: "&"), "{}"] {
                let status = try await browser.post("/login", body: body).status
                #expect(status == (body == "{}" ? 403 : 400))
            }
            #expect(try await !browser.isSignedIn)
        }
    }

    @Test func namesAreEscaped() async throws {
        let name = "<script>alert(1)</script>"
        let subject = try await test.issuer.createUser(name: name)
        try await test.browse { client in
            let browser = TestBrowser(client)
            try await browser.setUp(test, subject: subject)
            let page = try await browser.get("/account")
            #expect(page.text.contains("&lt;script&gt;") && !page.text.contains("<script>alert"))
            #expect(try await !TestBrowser(client).signIn(name: "\"><script>").text.contains("><script>"))
        }
    }
}

extension PasswordHasher {
    /// Runs while a client takes both of its places, and the only two hashes that run at a time.
    fileprivate func whileHashing(_ client: String, _ body: () async throws -> Void) async throws {
        let (started, signal) = AsyncStream.makeStream(of: Void.self)
        let gate = Gate()
        let hashes = (0..<2).map { _ in
            Task {
                try await run(.init(name: client)) {
                    signal.yield()
                    gate.wait()
                }
            }
        }
        var count = 0
        for await _ in started {
            count += 1
            if count == hashes.count { break }
        }
        let result: Result<Void, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        for _ in hashes { gate.open() }
        for hash in hashes { try await hash.value }
        try result.get()
    }
}
