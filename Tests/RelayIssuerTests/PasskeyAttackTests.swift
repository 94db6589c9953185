// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import CryptoExtras
import Hummingbird
import HummingbirdTesting
import RelayProtocol
import Synchronization
import Testing

@testable import RelayIssuer

/// Signing in with passkeys, and attacks on it.
@Suite struct PasskeyAttackTests {
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    /// Runs with a browser that is signed in, and an authenticator whose passkey was added.
    func attack(_ body: @escaping @Sendable (TestBrowser, TestAuthenticator) async throws -> Void) async throws {
        try await test.browse { client in
            let (browser, authenticator) = (TestBrowser(client), TestAuthenticator())
            try await browser.setUp(test)
            #expect(try await add(authenticator, browser).location == "/auth/account")
            try await body(browser, authenticator)
        }
    }

    func add(_ authenticator: TestAuthenticator, _ browser: TestBrowser) async throws -> TestBrowser.Page {
        let challenge = try TestAuthenticator.challenge(try await browser.get("/account"), "create")
        return try await browser.post("/account/passkey", authenticator.create(challenge))
    }

    func signIn(_ authenticator: TestAuthenticator, _ browser: TestBrowser, key: P256.Signing.PrivateKey? = nil) async throws
        -> TestBrowser.Page
    {
        let challenge = try TestAuthenticator.challenge(try await browser.get("/login"), "get")
        return try await browser.post("/login/passkey", authenticator.get(challenge, key: key))
    }

    @Test func passkeySignsInUntilItIsRemoved() async throws {
        try await attack { browser, authenticator in
            let other = TestBrowser(browser.client)
            #expect(try await signIn(authenticator, other).location == "/auth/account")
            #expect(try await other.isSignedIn)
            let id = Base64.url.encode(authenticator.id)
            _ = try await other.get("/account")
            #expect(try await other.post("/account/passkey/remove", ["passkey": id]).text.contains("class=\"destructive\""))
            #expect(try await other.post("/account/passkey/remove", ["passkey": id, "confirmed": "yes"]).location == "/auth/account")
            #expect(try await signIn(authenticator, TestBrowser(browser.client)).status == 403)
        }
        let kinds = try await test.issuer.events(of: test.ada()).map(\.kind)
        #expect(kinds.prefix(3) == [.passkeyRemoved, .signedIn, .passkeyAdded])
    }

    @Test func linkSetsAPasskeyInsteadOfAPassword() async throws {
        try await test.issuer.setPassword(subject: test.ada(), to: Secret(TestBrowser.password))
        let link = try await test.issuer.setUpLink(subject: test.ada(), origin: TestIssuer.origin).exposed
        try await test.browse { client in
            let (browser, authenticator) = (TestBrowser(client), TestAuthenticator())
            _ = try await browser.get(String(link.dropFirst(TestIssuer.url.count)))
            let challenge = try TestAuthenticator.challenge(try await browser.get("/setup"), "create")
            let fields = try authenticator.create(challenge)
            let visitor = TestBrowser(client)
            _ = try await visitor.get("/login")
            #expect(try await visitor.post("/setup/passkey", fields).status == 403)
            #expect(try await browser.post("/setup/passkey", fields).location == "/auth/account")
            #expect(try await browser.isSignedIn)
            #expect(try await TestBrowser(client).signIn().status == 401)
            #expect(try await signIn(authenticator, visitor).status == 303)
            #expect(try await browser.get("/setup").status == 403)
        }
    }

    @Test func assertionOfAnotherOriginChallengeOrKeyIsRejected() async throws {
        try await attack { browser, authenticator in
            func changed(_ change: (inout TestAuthenticator) -> Void) -> TestAuthenticator {
                var changed = authenticator
                change(&changed)
                return changed
            }
            let wrong = [
                changed { $0.origin = "https://evil.example" }, changed { $0.origin = "https://relay.example" },
                changed { $0.origin = TestIssuer.origin + "/" }, changed { $0.host = "evil.example" }, changed { $0.crossOrigin = true },
                changed { $0.flags = 0x01 }, changed { $0.flags = 0x04 }, changed { $0.flags = 0 },
            ]
            for (number, one) in wrong.enumerated() {
                let visitor = TestBrowser(browser.client)
                let page = try await signIn(one, visitor)
                #expect(page.status == 403, "case \(number)")
                #expect(try await !visitor.isSignedIn)
            }
            let visitor = TestBrowser(browser.client)
            #expect(try await signIn(authenticator, visitor, key: P256.Signing.PrivateKey()).status == 403)
            #expect(try await signIn(TestAuthenticator(), visitor).status == 403)
            let challenge = try TestAuthenticator.challenge(try await visitor.get("/login"), "get")
            #expect(try await visitor.post("/login/passkey", authenticator.get(challenge, type: "webauthn.create")).status == 403)
            for field in ["client_data", "authenticator_data", "credential", "signature"] {
                for value in ["", "x", "AAAA", String(repeating: "A", count: 4_000)] {
                    let fields = try authenticator.get(challenge).merging([field: value]) { $1 }
                    #expect(try await visitor.post("/login/passkey", fields).status == 403, "\(field)")
                }
            }
            #expect(try await !visitor.isSignedIn)
            #expect(try await visitor.post("/login/passkey", authenticator.get(challenge)).status == 303)
        }
    }

    @Test func challengeIsBoundToItsBrowserAndWorksOnce() async throws {
        try await attack { browser, authenticator in
            let (victim, attacker) = (TestBrowser(browser.client), TestBrowser(browser.client))
            let page = try await victim.get("/login")
            let fields = try authenticator.get(try TestAuthenticator.challenge(page, "get"))
            _ = try await attacker.get("/login")
            #expect(try await attacker.post("/login/passkey", fields).status == 403)
            let before = victim.cookies
            let code = victim.code
            #expect(try await victim.post("/login/passkey", fields).status == 303)
            // The same answer again, with the secret of before.
            attacker.cookies = before
            #expect(try await attacker.post("/login/passkey", fields.merging(["form_code": code]) { $1 }).status == 403)
            let late = TestBrowser(browser.client)
            let old = try authenticator.get(try TestAuthenticator.challenge(try await late.get("/login"), "get"))
            test.pass(PasskeyChallenge.life)
            #expect(try await late.post("/login/passkey", old).status == 403)
        }
    }

    /// Each sign-in is remembered for a while. A program with a passkey of its own could fill that memory.
    @Test func signInsOfAUserAreLimited() async throws {
        let bob = try await test.issuer.createUser(name: "Bob")
        try await attack { browser, authenticator in
            let (other, others) = (TestBrowser(browser.client), TestAuthenticator())
            try await other.setUp(test, subject: bob)
            #expect(try await add(others, other).status == 303)
            for _ in 0..<60 {
                let page = try await signIn(authenticator, TestBrowser(browser.client))
                #expect(page.status == 303)
            }
            let refused = try await signIn(authenticator, TestBrowser(browser.client))
            #expect(refused.status == 429 && refused.headers[.retryAfter] == "60")
            #expect(try await test.count("issuer_used") == 60)
            // Who has another key does not count against its owner, and other users sign in.
            #expect(try await signIn(authenticator, TestBrowser(browser.client), key: others.key).status == 403)
            #expect(try await signIn(others, TestBrowser(browser.client)).status == 303)
            test.pass(60_000)
            for _ in 0..<100 { #expect(try await signIn(authenticator, TestBrowser(browser.client), key: others.key).status == 403) }
            #expect(try await signIn(authenticator, TestBrowser(browser.client)).status == 303)
        }
    }

    @Test func counterThatDoesNotGrowIsRejected() async throws {
        try await attack { browser, authenticator in
            var (own, copy) = (authenticator, authenticator)
            own.counter = 5
            let first = try await signIn(own, TestBrowser(browser.client))
            #expect(first.status == 303)
            for counter: UInt32 in [0, 4, 5] {
                copy.counter = counter
                #expect(try await signIn(copy, TestBrowser(browser.client)).status == 403)
            }
            own.counter = 6
            #expect(try await signIn(own, TestBrowser(browser.client)).status == 303)
        }
    }

    @Test func passkeysOfAnotherAccountAreProtected() async throws {
        let bob = try await test.issuer.createUser(name: "Bob")
        try await attack { browser, authenticator in
            let attacker = TestBrowser(browser.client)
            try await attacker.setUp(test, subject: bob)
            _ = try await attacker.get("/account")
            _ = try await attacker.post("/account/passkey/remove", ["passkey": Base64.url.encode(authenticator.id), "confirmed": "yes"])
            #expect(try await signIn(authenticator, TestBrowser(browser.client)).status == 303)
            // The id of a known passkey, with a key of the attacker's.
            #expect(try await add(authenticator, attacker).status == 400)
            let other = TestAuthenticator()
            let challenge = try TestAuthenticator.challenge(try await browser.get("/account"), "create")
            let fields = try other.create(challenge)
            _ = try await attacker.get("/account")
            #expect(try await attacker.post("/account/passkey", fields).status == 400)
            for changes in [["public_key": "AAAA"], ["algorithm": "-257"], ["algorithm": "-8"], ["authenticator_data": "AAAA"]] {
                #expect(try await browser.post("/account/passkey", fields.merging(changes) { $1 }).status == 400, "\(changes)")
            }
            _ = try await browser.get("/account")
            test.pass(WebSession.freshness)
            #expect(try await browser.post("/account/passkey", fields).status == 403)
            #expect(
                try await browser.post("/account/passkey/remove", ["passkey": Base64.url.encode(authenticator.id), "confirmed": "yes"])
                    .status == 403
            )
        }
    }

    @Test func passkeysPerUserAreBounded() async throws {
        try await attack { browser, _ in
            for _ in 1..<Passkey.maximum { #expect(try await add(TestAuthenticator(), browser).status == 303) }
            let one = try await add(TestAuthenticator(), browser)
            #expect(one.status == 400)
        }
    }

    @Test func keysOfBothAlgorithmsVerify() throws {
        let message = randomBytes(100)
        let rsa = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        let signature = try rsa.signature(for: message, padding: .insecurePKCS1v1_5).rawRepresentation
        let key = try #require(PasskeyKey(algorithm: -257, spki: Array(rsa.publicKey.derRepresentation)))
        #expect(key.isValid(Array(signature), for: message))
        #expect(!key.isValid(Array(signature), for: message + [0]))
        #expect(!key.isValid([], for: message))
        #expect(PasskeyKey(algorithm: -7, spki: Array(rsa.publicKey.derRepresentation)) == nil)
        let p256 = P256.Signing.PrivateKey()
        #expect(PasskeyKey(algorithm: -257, spki: Array(p256.publicKey.derRepresentation)) == nil)
        #expect(PasskeyKey(algorithm: -7, spki: Array(p256.publicKey.derRepresentation))?.isValid([], for: message) == false)
    }

    @Test func malformedAuthenticatorDataIsRejected() {
        for count in 0..<37 { #expect(AuthenticatorData(parsing: [UInt8](repeating: 0xFF, count: count)) == nil) }
        for count in 37..<100 {
            var bytes = [UInt8](repeating: 0xFF, count: count)
            #expect(AuthenticatorData(parsing: bytes) == nil)
            bytes[32] = 0x05
            #expect(AuthenticatorData(parsing: bytes)?.credential == nil)
        }
    }

    @Test func passkeysAreOfferedWhereBrowsersAllowThem() {
        #expect(Visit.relyingParty("https://relay.example:8443/auth") == "relay.example")
        #expect(Visit.relyingParty("http://localhost:8080/auth") == "localhost")
        for issuer in ["http://relay.example/auth", "https://192.0.2.1:8443/auth", "https://[::1]/auth", "http://127.0.0.1/auth", "/auth"] {
            #expect(Visit.relyingParty(issuer) == nil, "\(issuer)")
        }
    }
}
