// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Foundation
import Hummingbird
import HummingbirdTesting
import RelayProtocol
import Synchronization
import Testing

@testable import RelayIssuer

/// The pages in the languages of their readers.
@Suite struct LanguageRouteTests {
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    // MARK: No text is forgotten

    /// What people and programs have written, names, and a word without a translation. All else on a Chinese page is Chinese.
    private static let data = [
        "Cookie", "Device Relay", "relay.example:8443", "TestBrowser/1", "com.example.television", "com.example.app", "Example &lt;App&gt;",
        "Ada Lovelace", "Bedside", "linux", "idp.example", "192.0.2.7", "subject-7", "Operator Inc.",
    ]

    /// The visible texts of a page, and its title.
    private static func texts(_ page: String, _ labels: [String]) -> [String] {
        var body = page
        // Codes, times that a script writes again, and what is marked as English.
        for pattern in [
            #/<code>[^<]*<\/code>/#, #/<time[^>]*>[^<]*<\/time>/#, #/<li class="code">[^<]*<\/li>/#, #/<span lang="en">[^<]*<\/span>/#,
        ] {
            body = body.replacing(pattern, with: "")
        }
        for value in data + labels { body = body.replacing(value, with: "") }
        return body.replacing(#/<[^>]*>/#, with: "\n").split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter {
            !$0.isEmpty
        }
    }

    /// Checks a page in Chinese.
    private static func check(_ page: TestBrowser.Page, _ what: String, status: Int = 200, labels: [String] = []) {
        #expect(page.status == status, "\(what)")
        #expect(page.text.contains("<html lang=\"zh\">"), "\(what): \(page.text)")
        #expect(page.headers[.contentLanguage] == "zh" && page.headers[.vary] == "Accept-Language", "\(what)")
        let texts = texts(page.text, labels)
        #expect(texts.contains { $0.contains(/\p{Script=Han}/) }, "\(what)")
        for text in texts {
            let words = text.replacing(/&[#a-z0-9]+;/, with: "").matches(of: /[A-Za-z]{2,}/).map { String($0.0) }
            #expect(words == [], "\(what): \(text)")
        }
        #expect(!page.text.contains(/(?:title|aria-label|placeholder|alt)="[^"]*[A-Za-z]/), "\(what)")
    }

    @Test func checkFindsEnglish() {
        #expect(Self.texts("<p>登录 <code>relay</code></p><p>Forgotten</p>", []) == ["登录", "Forgotten"])
    }

    @Test func everyPageIsInTheReadersLanguage() async throws {
        let subject = try await test.issuer.createUser(name: "Ada Lovelace")
        let accounts = OwnDeviceAttackTests.Accounts()
        let (phone, inviter) = (EndpointID(P256SigningKey().publicKey), EndpointID(P256SigningKey().publicKey))
        let kinds = ["desktop", "laptop", "tablet", "phone", "hub", "holographic", "xbox", "iot"]
        accounts.state.withLock {
            $0[subject] = kinds.enumerated().map { index, kind in
                AccountEndpoint(
                    id: index == 0 ? phone : EndpointID(P256SigningKey().publicKey),
                    name: "Bedside",
                    kind: kind,
                    platform: "linux",
                    isConnected: index == 0,
                    joining: Joining(time: 1_700_000_000_000, invitedBy: index == 0 ? inviter : nil, address: "192.0.2.7")
                )
            }
        }
        accounts.links.withLock {
            $0[subject] = [phone, nil].map {
                AccountLink(issuer: "idp.example", subject: "subject-7", linker: $0, added: 1_700_000_000_000, isRemovable: $0 != nil)
            }
        }
        let issuer = try test.make(accounts: accounts, operatorName: "Operator Inc.")
        let device = TestDevice()
        _ = try await device.join(test, code: try await issuer.invite(subject: subject))
        try await issuer.store.write { [test] records in
            for kind in AccountEvent.Kind.allCases {
                try records.note(kind, of: subject, kind == .signedIn ? "" : "192.0.2.7", now: test.now)
            }
        }
        try await test.browse(issuer) { [test] client in
            func check(_ page: TestBrowser.Page, _ what: String, status: Int = 200) {
                Self.check(page, what, status: status, labels: [phone.label, inviter.label])
            }
            func browser() -> TestBrowser { TestBrowser(client, languages: "zh-CN,zh;q=0.9,en;q=0.8") }
            let (owner, visitor) = (browser(), browser())
            // Signed out.
            check(try await visitor.get("/login"), "sign-in")
            let wrong = ["name": "Ada Lovelace", "password": "a wrong password"]
            for _ in 0..<2 { check(try await visitor.post("/login", wrong), "wrong password", status: 401) }
            check(try await visitor.get("/recover"), "recovery")
            check(try await visitor.post("/recover", ["name": "Ada Lovelace", "code": "x"]), "wrong code", status: 401)
            check(try await visitor.get("/setup?token=x"), "no link", status: 403)
            check(try await visitor.post("/login/passkey"), "no passkey", status: 403)
            check(try await browser().post("/login", wrong), "old form", status: 403)
            check(try await visitor.get("/device"), "device, signed out")
            // Set-up.
            for isReset in [true, false] {
                let link = try await issuer.setUpLink(subject: subject, origin: TestIssuer.origin, isReset: isReset).exposed
                _ = try await owner.get(String(link.dropFirst(TestIssuer.url.count)))
                check(try await owner.get("/setup"), "set-up")
                for (password, repeated) in [
                    ("short", "short"), ("aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaa"), ("tab\u{7}\u{7}password", "tab"),
                    ("another long password", "x"),
                    (String(repeating: "long password ", count: 400), "x"),
                ] {
                    let page = try await owner.post("/setup", ["password": password, "repeated": repeated])
                    check(page, "objection to \(password.prefix(20))", status: 400)
                }
            }
            let fields = ["password": TestBrowser.password, "repeated": TestBrowser.password]
            #expect(try await owner.post("/setup", fields).location == "/auth/account")
            // The account.
            let account = try await owner.get("/account")
            check(account, "account")
            check(try await owner.post("/account/codes"), "codes")
            check(try await owner.post("/account/password", ["password": "x", "repeated": "x"]), "account, objection", status: 400)
            check(try await owner.post("/account/passkey"), "refused passkey", status: 400)
            let session = try AccountRouteTests.field("session", after: "com.example.app", in: account)
            check(try await owner.post("/account/login", ["session": session]), "app, question")
            check(try await owner.post("/account/device", ["endpoint": phone.description]), "device, question")
            check(
                try await owner.post("/account/identity", ["issuer": "idp.example", "subject": "subject-7"]),
                "identity, question"
            )
            // Devices and apps.
            let app = TestApp(client)
            for decision in ["allow", "deny"] {
                let begun = try await app.post("/device_authorization", DeviceGrantRouteTests.fields.merging(["device_name": ""]) { $1 })
                check(try await owner.get("/device?user_code=" + (try #require(begun.userCode))), "device")
                check(try await owner.post("/device", ["user_code": try #require(begun.userCode)]), "device, question")
                let decided = try await DeviceGrantRouteTests(test).decide(owner, begun.userCode, decision)
                check(decided, "device, \(decision)")
            }
            check(try await owner.post("/device", ["user_code": "BCDF-GHJK"]), "unknown code", status: 400)
            check(try await owner.post("/device/decision", ["request": "x"]), "no request", status: 400)
            let example = try await TestApp(registeredAt: client)
            check(try await owner.get("/authorize?" + example.query()), "app")
            check(try await owner.get("/authorize?" + example.query(["response_type": "token"])), "app's request", status: 400)
            check(try await owner.get("/authorize?client_id=x"), "unknown app", status: 400)
            let elsewhere = try await owner.get("/authorize?" + example.query(["redirect_uri": "http://127.0.0.1/x"]))
            check(elsewhere, "another address", status: 400)
            let long = try await owner.get("/authorize?" + example.query(["state": String(repeating: "s", count: 2_000)]))
            check(long, "long request", status: 400)
            check(try await owner.post("/authorize", ["request": "client_id=x"]), "damaged request", status: 400)
            // A fault of the protocol is for the author of a program.
            check(try await owner.get("/device?a=1&a=2"), "wrong query", status: 400)
            // A while later.
            test.pass(WebSession.freshness)
            check(try await owner.get("/account"), "account, later")
            check(try await owner.post("/account/codes"), "signed in long ago", status: 403)
            // The end.
            _ = try await owner.signIn(name: "Ada Lovelace")
            check(try await owner.get("/account/remove"), "removal")
            check(try await owner.post("/account/remove", ["password": "x", "confirmed": "yes"]), "removal, wrong", status: 401)
            check(try await owner.post("/account/remove", ["password": TestBrowser.password]), "removal, no box", status: 400)
            let end = ["password": TestBrowser.password, "confirmed": "yes"]
            check(try await owner.post("/account/remove", end), "removed")
        }
    }

    @Test func tooManyFailuresAreToldInTheReadersLanguage() async throws {
        try await test.browse(test.make(failuresPerMinute: 3)) { client in
            let browser = TestBrowser(client, languages: "zh")
            var page = try await browser.get("/setup?token=x")
            for _ in 0..<4 { page = try await browser.get("/setup?token=x") }
            Self.check(page, "too many", status: 429)
        }
    }

    // MARK: The choice

    @Test(
        arguments: [
            ("de-AT,de;q=0.9", "de", "Anmelden"), ("fr", "fr", "Connexion"), ("zh-CN", "zh", "登录"), ("ja", "en", "Sign in"),
            ("zh-TW,fr;q=0.5", "fr", "Connexion"), (nil, "en", "Sign in"), ("de;q=2, \"><script>", "en", "Sign in"),
            ("de" + String(repeating: ",x", count: 1_000), "en", "Sign in"),
        ] as [(String?, String, String)]
    )
    func languageIsThatOfTheBrowser(_ field: String?, _ language: String, _ title: String) async throws {
        try await test.browse { client in
            let page = try await TestBrowser(client, languages: field).get("/login")
            #expect(page.text.contains("<html lang=\"\(language)\">") && page.text.contains("<h1>\(title)</h1>"))
            #expect(page.headers[.contentLanguage] == language && page.headers[.vary] == "Accept-Language")
        }
    }

    /// Programs read codes and English.
    @Test func answersToProgramsAreNotTranslated() async throws {
        try await test.browse { client in
            func answer(_ languages: String?) async throws -> String {
                var headers: HTTPFields = [.contentType: "application/x-www-form-urlencoded"]
                headers[.acceptLanguage] = languages
                let body = ByteBuffer(string: "name=Ada&password=wrong&client_id=com.example.app")
                return try await client.execute(uri: "/auth/terminal/device", method: .post, headers: headers, body: body) {
                    #expect($0.headers[.contentLanguage] == nil)
                    return String(buffer: $0.body)
                }
            }
            let english = try await answer(nil)
            #expect(english.contains("access_denied") && english.contains("The name or the password is wrong."))
            #expect(try await answer("zh") == english)
        }
    }

    @Test func whatPeopleWroteStaysAsItIs() async throws {
        // Names that are keys, places and words of the pages.
        for name in ["{name}", "signIn.title", "Sign in", "a password"] {
            let subject = try await test.issuer.createUser(name: name)
            try await test.browse { [test] client in
                let browser = TestBrowser(client, languages: "de")
                try await browser.setUp(test, subject: subject)
                #expect(try await browser.get("/account").text.contains("<h1>Konto \(name)</h1>"))
            }
        }
    }

    @Test func codesHaveWords() {
        let words = PageWords.english
        for kind in AccountEvent.Kind.allCases { #expect(words.has("event.\(kind.rawValue)")) }
        for scope in Scopes.all.names { #expect(words.has("scope.\(scope)")) }
    }
}
