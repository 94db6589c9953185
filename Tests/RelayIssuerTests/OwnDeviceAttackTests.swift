// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import HummingbirdTesting
import RelayProtocol
import Synchronization
import Testing

@testable import RelayIssuer

/// The devices on the account page, and the deletion of the account: by its owner, and by others.
@Suite struct OwnDeviceAttackTests {
    /// A relay's accounts. Integration tests use those of a real relay.
    final class Accounts: AccountHolder {
        let state = Mutex<[String: [AccountEndpoint]]>([:])
        let removed = Mutex<[String]>([])
        let links = Mutex<[String: [AccountLink]]>([:])

        func endpoints(of subject: String) async throws -> [AccountEndpoint] { state.withLock { $0[subject] ?? [] } }

        func revoke(_ endpoint: EndpointID, of subject: String) async throws -> Bool {
            state.withLock { state in
                guard let index = state[subject]?.firstIndex(where: { $0.id == endpoint }) else { return false }
                state[subject]?.remove(at: index)
                return true
            }
        }

        func identities(of subject: String) async throws -> [AccountLink] { links.withLock { $0[subject] ?? [] } }

        func unlink(issuer: String, subject other: String, of subject: String) async throws -> Bool {
            links.withLock { links in
                guard let index = links[subject]?.firstIndex(where: { $0.issuer == issuer && $0.subject == other && $0.isRemovable })
                else { return false }
                links[subject]?.remove(at: index)
                return true
            }
        }

        func remove(accountOf subject: String) async throws -> [String] {
            removed.withLock { $0.append(subject) }
            return [subject]
        }
    }

    let test: TestIssuer
    let issuer: Issuer
    let accounts = Accounts()
    let phone = EndpointID(P256SigningKey().publicKey)
    let ada: String

    init() async throws {
        test = try TestIssuer()
        ada = try await test.ada()
        let endpoint = AccountEndpoint(
            id: phone,
            name: "<b>Phone</b> & \u{202E}x",
            kind: "phone",
            platform: "ios",
            isConnected: true,
            joining: Joining(time: 1_700_000_000_000, address: "<u>192.0.2.7</u>")
        )
        accounts.state.withLock { [ada] in $0[ada] = [endpoint] }
        issuer = try test.make(accounts: accounts)
    }

    private var devices: Int { accounts.state.withLock { [ada] in $0[ada]?.count ?? 0 } }

    @Test func loginHasTheNameAndKindOfItsDevice() async throws {
        let device = TestDevice()
        _ = try await device.join(test, code: try await test.invite())
        accounts.state.withLock { [ada, phone] in
            $0[ada] = [
                AccountEndpoint(
                    id: phone,
                    name: "Bedside",
                    kind: "tablet",
                    platform: "ios",
                    isConnected: false,
                    joining: Joining(time: 1_700_000_000_000, address: nil),
                    keyThumbprint: device.key.publicKey.jwkThumbprint
                )
            ]
        }
        try await test.browse(issuer) { [test, phone] client in
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            let page = try await browser.get("/account")
            let logins = try #require(page.text.split(separator: "<h2>").first { $0.hasPrefix("Apps and devices") })
            #expect(logins.contains("<span class=\"name\">Bedside</span>") && logins.contains("com.example.app"))
            #expect(!logins.contains(phone.label))
        }
    }

    @Test func ownerSeesAndRevokesADevice() async throws {
        try await test.browse(issuer) { [test, phone] client in
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            let page = try await browser.get("/account")
            #expect(page.text.contains("&lt;b&gt;Phone&lt;/b&gt; &amp; \u{FFFD}x") && !page.text.contains("<b>Phone"))
            #expect(page.text.contains("from &lt;u&gt;192.0.2.7") && page.text.contains("connected"))
            #expect(try AccountRouteTests.field("endpoint", after: "Devices", in: page) == phone.description)
            let question = try await browser.post("/account/device", ["endpoint": phone.description])
            #expect(question.status == 200 && question.text.contains("class=\"destructive\"") && !question.text.contains("<b>Phone"))
            #expect(try await browser.get("/account").text.contains(phone.description))
            let fields = ["endpoint": phone.description, "confirmed": "yes"]
            #expect(try await browser.post("/account/device", fields).location == "/auth/account")
            let after = try await browser.get("/account")
            #expect(!after.text.contains(phone.description))
            #expect(after.text.contains("a device was revoked: \(phone.label)"))
        }
        #expect(devices == 0)
    }

    /// Whoever stole a device may have linked an identity: the owner sees it, and removes it.
    @Test func ownerSeesAndRemovesLinkedIdentitiesAndOthersDoNot() async throws {
        let (url, bob) = ("https://issuer.example/<a>", try await test.issuer.createUser(name: "Bob"))
        accounts.links.withLock { [ada, phone] in
            $0[ada] = [
                AccountLink(issuer: url, subject: "thief&co", linker: phone, added: 1_700_000_000_000, isRemovable: true),
                AccountLink(issuer: url, subject: "first", linker: nil, added: 1_700_000_000_000, isRemovable: false),
            ]
        }
        let form = ["issuer": url, "subject": "thief&co"]
        let count = { @Sendable [accounts, ada] in accounts.links.withLock { $0[ada]?.count ?? 0 } }
        try await test.browse(issuer) { [test, phone] client in
            let (owner, attacker, visitor) = (TestBrowser(client), TestBrowser(client), TestBrowser(client))
            try await attacker.setUp(test, subject: bob)
            #expect(try await !attacker.get("/account").text.contains("thief"))
            _ = try await attacker.post("/account/identity", form.merging(["confirmed": "yes"]) { $1 })
            _ = try await visitor.post("/account/identity", form.merging(["confirmed": "yes"]) { $1 })
            #expect(count() == 2)
            try await owner.setUp(test)
            let page = try await owner.get("/account").text
            #expect(page.contains("https://issuer.example/&lt;a&gt;") && page.contains("as thief&amp;co"))
            #expect(page.contains("linked by endpoint \(phone.label)") && page.ranges(of: "Remove it").count == 1)
            let confirmed = form.merging(["confirmed": "yes"]) { $1 }
            let first = ["issuer": url, "subject": "first", "confirmed": "yes"]
            #expect(try await owner.post("/account/identity", first).location == "/auth/account")
            #expect(count() == 2)
            let question = try await owner.post("/account/identity", form)
            #expect(
                question.location == nil && question.text.contains("as thief&amp;co?") && question.text.contains("class=\"destructive\"")
            )
            #expect(count() == 2)
            #expect(try await owner.post("/account/identity", confirmed).location == "/auth/account")
            #expect(try await !owner.get("/account").text.contains("thief"))
        }
        #expect(count() == 1)
    }

    @Test func devicesOfAnotherAccountAreProtected() async throws {
        let bob = try await test.issuer.createUser(name: "Bob")
        try await test.browse(issuer) { [test, phone] client in
            let (attacker, visitor) = (TestBrowser(client), TestBrowser(client))
            try await attacker.setUp(test, subject: bob)
            #expect(try await !attacker.get("/account").text.contains(phone.description))
            for text in [phone.description, "", "x", phone.description.uppercased()] {
                #expect(try await attacker.post("/account/device", ["endpoint": text, "confirmed": "yes"]).location == "/auth/account")
            }
            _ = try await visitor.get("/login")
            #expect(
                try await visitor.post("/account/device", ["endpoint": phone.description, "confirmed": "yes"]).location == "/auth/login"
            )
            #expect(try await visitor.post("/account/remove", ["confirmed": "yes"]).location == "/auth/login")
            #expect(
                try await attacker.post("/account/device", ["endpoint": phone.description], origin: "https://evil.example").status == 403
            )
        }
        #expect(devices == 1)
    }

    /// A person who finds a signed-in browser can neither revoke devices nor delete the account.
    @Test func staleSessionCannotRevokeOrRemove() async throws {
        try await test.browse(issuer) { [test, phone] client in
            let browser = TestBrowser(client)
            try await browser.setUp(test)
            _ = try await browser.get("/account")
            test.pass(WebSession.freshness)
            #expect(try await !browser.get("/account").text.contains(phone.description))
            #expect(try await browser.post("/account/device", ["endpoint": phone.description]).status == 403)
            #expect(try await browser.get("/account/remove").status == 403)
            let fields = ["password": TestBrowser.password, "confirmed": "yes"]
            #expect(try await browser.post("/account/remove", fields).status == 403)
        }
        #expect(devices == 1)
        #expect(try await test.issuer.users().count == 1)
    }

    @Test func removalNeedsThePasswordAgain() async throws {
        try await test.browse(issuer) { [test, accounts, ada] client in
            let (browser, other) = (TestBrowser(client), TestBrowser(client))
            try await browser.setUp(test)
            _ = try await other.signIn()
            #expect(try await browser.get("/account/remove").text.contains("Your password"))
            #expect(try await browser.post("/account/remove", ["password": "wrong password", "confirmed": "yes"]).status == 401)
            #expect(try await browser.post("/account/remove", ["confirmed": "yes"]).status == 401)
            #expect(try await browser.post("/account/remove", ["password": TestBrowser.password]).status == 400)
            #expect(accounts.removed.withLock { $0.isEmpty })
            let fields = ["password": TestBrowser.password, "confirmed": "yes"]
            let page = try await browser.post("/account/remove", fields)
            #expect(page.status == 200 && page.text.contains("The account is deleted"))
            #expect(accounts.removed.withLock { $0 } == [ada])
            #expect(try await !browser.isSignedIn)
            #expect(try await !other.isSignedIn)
            #expect(try await other.signIn().status == 401)
        }
        #expect(try await test.issuer.users().isEmpty)
    }
}
