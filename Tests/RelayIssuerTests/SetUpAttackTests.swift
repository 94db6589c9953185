// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization
import Testing

@testable import RelayIssuer

/// A former intruder, after the owner has set up a new way to sign in.
@Suite struct SetUpAttackTests {
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    /// The ways in that an intruder has left: a recovery code, a passkey, a signed-in app and a browser.
    private struct Intruder {
        var browser: TestBrowser
        var code: String
        var device: TestDevice
        var tokens: TokenResponse
    }

    private func intrude(_ browser: TestBrowser) async throws -> Intruder {
        try await browser.setUp(test, password: "the old password")
        let codes = try await browser.makeCodes()
        let passkey = try #require(PasskeyKey(algorithm: -7, spki: P256SigningKey().publicKey.spki))
        let (ada, now) = (try await test.ada(), test.now)
        try await test.issuer.store.write {
            try $0.insert(Passkey(id: randomBytes(16), subject: ada, key: passkey, name: "Evil", created: now, counter: 0))
        }
        let device = TestDevice()
        let tokens = try await device.join(test, code: try await test.invite())
        return Intruder(browser: browser, code: try #require(codes.first), device: device, tokens: tokens)
    }

    private func open(_ link: Secret<String>, _ browser: TestBrowser) async throws -> TestBrowser.Page {
        _ = try await browser.get(String(link.exposed.dropFirst(TestIssuer.url.count)))
        return try await browser.get("/setup")
    }

    private func passkeys() async throws -> Int {
        let ada = try await test.ada()
        return try await test.issuer.store.read { try $0.passkeys(of: ada).count }
    }

    private let password = ["password": TestBrowser.password, "repeated": TestBrowser.password]

    @Test func operatorsLinkEndsTheOtherWaysIn() async throws {
        try await test.browse { client in
            let intruder = try await intrude(TestBrowser(client, address: "203.0.113.9"))
            let owner = TestBrowser(client)
            let page = try await open(try await test.issuer.setUpLink(subject: test.ada(), origin: TestIssuer.origin), owner)
            for name in ["end_passkeys", "end_logins"] { #expect(page.text.contains("name=\"\(name)\" value=\"yes\" checked")) }
            let fields = password.merging(["end_passkeys": "yes", "end_logins": "yes"]) { $1 }
            #expect(try await owner.post("/setup", fields).location == "/auth/account")
            let account = try await owner.get("/account")
            #expect(
                account.text.contains(
                    "What signs in to this account: a password, 0 passkeys, 0 recovery codes, 1 browser, 0 apps and devices."
                )
            )
            #expect(try await !intruder.browser.isSignedIn)
            _ = try await intruder.browser.get("/recover")
            #expect(try await intruder.browser.post("/recover", ["name": "Ada", "code": intruder.code]).status == 401)
            #expect(try await passkeys() == 0)
            #expect(test.revoked.count == 1)
            await #expect(throws: OAuthError.self) { try await intruder.device.refresh(test, intruder.tokens.refreshToken) }
        }
    }

    /// A person who only forgot the password keeps passkeys and apps, but never the recovery codes.
    @Test func ownerCanKeepPasskeysAndApps() async throws {
        try await test.browse { client in
            let former = try await intrude(TestBrowser(client))
            let owner = TestBrowser(client)
            _ = try await open(try await test.issuer.setUpLink(subject: test.ada(), origin: TestIssuer.origin), owner)
            #expect(try await owner.post("/setup", password).location == "/auth/account")
            #expect(try await owner.get("/account").text.contains("a password, 1 passkey, 0 recovery codes, 1 browser, 1 app or device."))
            _ = try await former.device.refresh(test, former.tokens.refreshToken)
        }
    }

    @Test func resetEndsAllAtOnceAndAsksNothing() async throws {
        try await test.browse { client in
            let intruder = try await intrude(TestBrowser(client, address: "203.0.113.9"))
            let link = try await test.issuer.setUpLink(subject: test.ada(), origin: TestIssuer.origin, isReset: true)
            #expect(try await !intruder.browser.isSignedIn)
            #expect(try await intruder.browser.signIn(password: "the old password").status == 401)
            #expect(try await passkeys() == 0)
            let owner = TestBrowser(client)
            #expect(try await !open(link, owner).text.contains("checkbox"))
            #expect(try await owner.post("/setup", password).location == "/auth/account")
            await #expect(throws: OAuthError.self) { try await intruder.device.refresh(test, intruder.tokens.refreshToken) }
        }
    }

    /// What an intruder's browser has allowed, and whose tokens are not asked for yet.
    @Test(arguments: [SetUpKind.link, .reset]) func setUpEndsWhatABrowserAllowedAnAppOrDevice(kind: SetUpKind) async throws {
        try await test.browse { client in
            let routes = DeviceGrantRouteTests(test)
            let intruder = TestBrowser(client, address: "203.0.113.9")
            try await intruder.setUp(test, password: "the old password")
            let app = try await TestApp(registeredAt: client)
            let begun = try await app.post("/device_authorization", DeviceGrantRouteTests.fields)
            _ = try await intruder.get("/device")
            #expect(try await routes.decide(intruder, begun.userCode, "allow").status == 200)
            let code = try #require(try await app.decide(intruder)["code"])
            let owner = TestBrowser(client)
            let link = try await test.issuer.setUpLink(subject: test.ada(), origin: TestIssuer.origin, isReset: kind == .reset)
            _ = try await open(link, owner)
            if kind == .link { #expect(try await owner.post("/setup", password).location == "/auth/account") }
            #expect(try await app.redeem(code, test).error == "invalid_grant")
            #expect(try await routes.poll(app, begun.deviceCode).status == 400)
        }
    }

    /// An intruder has linked an identity of his own at another provider, with which he can add devices.
    @Test(arguments: [SetUpKind.link, .reset, .recovery], [true, false])
    func identitiesOfOtherProvidersEnd(kind: SetUpKind, isTicked: Bool) async throws {
        let (accounts, ada) = (OwnDeviceAttackTests.Accounts(), try await test.ada())
        let issuer = try test.make(accounts: accounts)
        func link(_ name: String, isRemovable: Bool) -> AccountLink {
            AccountLink(issuer: "https://login.example", subject: name, linker: nil, added: test.now, isRemovable: isRemovable)
        }
        accounts.links.withLock { $0[ada] = [link("<evil>", isRemovable: true), link("the account's first", isRemovable: false)] }
        try await test.browse(issuer) { client in
            let owner = TestBrowser(client)
            try await owner.setUp(test, password: "the old password")
            #expect(try await owner.get("/account").text.contains("1 browser, 0 apps and devices, 2 identities of other providers."))
            if kind == .recovery {
                let codes = try await owner.makeCodes()
                _ = try await owner.get("/recover")
                #expect(try await owner.post("/recover", ["name": "ada", "code": codes[0]]).location == "/auth/setup")
                _ = try await owner.get("/setup")
            } else {
                let made = try await test.issuer.setUpLink(subject: ada, origin: TestIssuer.origin, isReset: kind == .reset)
                let page = try await open(made, owner)
                #expect(page.text.contains("name=\"end_identities\" value=\"yes\" checked") == (kind == .link))
                #expect(page.text.contains("&lt;evil&gt; at https://login.example") == (kind == .link) && !page.text.contains("<evil>"))
            }
            let fields = password.merging(isTicked ? ["end_identities": "yes"] : [:]) { $1 }
            #expect(try await owner.post("/setup", fields).location == "/auth/account")
            let left = accounts.links.withLock { $0[ada]?.map(\.subject) }
            let end = kind == .reset || (kind == .link && isTicked)
            #expect(left == (end ? [] : ["<evil>"]) + ["the account's first"])
            let now = try await owner.get("/account").text
            #expect(now.contains(end ? "1 identity of another provider." : "2 identities of other providers."))
        }
        try issuer.close()
    }

    /// If the relay cannot remove them, nothing else ends, and the link still works.
    @Test func setUpWaitsForTheRelay() async throws {
        struct Down: AccountHolder {
            struct Failure: Error {}
            func endpoints(of subject: String) async throws -> [AccountEndpoint] { throw Failure() }
            func revoke(_ endpoint: EndpointID, of subject: String) async throws -> Bool { throw Failure() }
            func identities(of subject: String) async throws -> [AccountLink] { throw Failure() }
            func unlink(issuer: String, subject other: String, of subject: String) async throws -> Bool { throw Failure() }
            func remove(accountOf subject: String) async throws -> [String] { throw Failure() }
        }
        let made = try await test.issuer.setUpLink(subject: test.ada(), origin: TestIssuer.origin)
        let issuer = try test.make(accounts: Down())
        try await test.browse(issuer) { client in
            let page = try await TestBrowser(client).get(String(made.exposed.dropFirst(TestIssuer.url.count)))
            #expect(page.status == 503)
        }
        try issuer.close()
        try await test.browse { client in
            let owner = TestBrowser(client)
            _ = try await open(made, owner)
            #expect(try await owner.post("/setup", password).location == "/auth/account")
        }
    }

    /// A recovery code is the owner's own, and ends nothing but the password and the browsers.
    @Test func recoveryKeepsTheOtherWays() async throws {
        try await test.browse { client in
            let owner = try await intrude(TestBrowser(client))
            let lost = TestBrowser(client)
            _ = try await lost.get("/recover")
            #expect(try await lost.post("/recover", ["name": "ada", "code": owner.code]).location == "/auth/setup")
            #expect(try await !lost.get("/setup").text.contains("checkbox"))
            #expect(try await lost.post("/setup", password.merging(["end_logins": "yes"]) { $1 }).location == "/auth/account")
            #expect(try await lost.get("/account").text.contains("a password, 1 passkey, 9 recovery codes, 1 browser, 1 app or device."))
        }
    }
}
