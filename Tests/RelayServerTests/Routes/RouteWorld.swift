// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Logging
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayIssuer

/// A real relay with the accounts of Anna and Eve, and a second process on its issuer's database, which makes credentials of any age.
struct RouteWorld {
    static let client = "org.example.test"
    static let password = "correct horse battery"
    static let otherPassword = "quite another thing"
    static let verifier = String(repeating: "v", count: 43)
    /// An issuer that the relay trusts, too. Nobody asks it.
    static let otherIssuer = "https://issuer.example"
    static let redirect = "http://127.0.0.1/done"
    /// The key of a visit.
    static let visit = Base64.url.encode([UInt8](repeating: 7, count: 16))

    let relayd: RelaydProcess
    /// The relay's issuer.
    let issuer: Issuer
    let now: Milliseconds
    let anna: String
    let eve: String
    /// Anna's devices. The login of the tablet is revoked.
    let phone: WireEndpoint
    let pc: WireEndpoint
    let tablet: WireEndpoint
    /// Eve's device.
    let laptop: WireEndpoint
    /// The login of the phone.
    let login: RefreshFamily
    let resourceServer: Secret<String>
    let app: RegisteredClient

    static func make() async throws -> RouteWorld {
        let file = FileManager.default.temporaryDirectory.appending(path: "issuers-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(#"{"issuers":[{"issuer":"\#(otherIssuer)","audience":"any"}]}"#.utf8).write(to: file)
        let relayd = try await RelaydProcess(arguments: ["--token-failures-per-minute", "1000000", "--issuers-file", file.path])
        _ = try await relayd.start()
        for name in ["Anna", "Eve"] { _ = try await relayd.run("account", "add", name) }
        let endpoints = ["Phone", "PC", "Tablet", "Laptop"].map { WireEndpoint($0, at: relayd) }
        for endpoint in endpoints {
            try await endpoint.join(try await relayd.run("invite", endpoint.name == "Laptop" ? "Eve" : "Anna"))
            try await endpoint.connect()
            await endpoint.disconnect()
        }
        try await endpoints[2].revokeLogin()
        let relay = try #require(endpoints[0].relay)
        let now = Milliseconds(clamping: Int64(Date().timeIntervalSince1970 * 1_000))
        let issuer = try Issuer.open(
            relayd.directory.path,
            settings: .init(origins: [relayd.origin], audience: "\(relay)"),
            now: { now },
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
        func subject(_ name: String) async throws -> String { try #require(try await issuer.users().first { $0.name == name }).subject }
        let (anna, eve) = (try await subject("Anna"), try await subject("Eve"))
        try await issuer.setPassword(subject: anna, to: Secret(password))
        try await issuer.setPassword(subject: eve, to: Secret(otherPassword))
        let key = endpoints[0].identityKey.publicKey.jwkThumbprint
        let login = try #require(try await issuer.store.read { try $0.openLogins(boundTo: key, session: nil) }.first)
        let redirect = try #require(RedirectURI(redirect))
        let app = RegisteredClient(name: "App", redirects: [redirect], by: issuer.master.clientKey)
        return RouteWorld(
            relayd: relayd,
            issuer: issuer,
            now: now,
            anna: anna,
            eve: eve,
            phone: endpoints[0],
            pc: endpoints[1],
            tablet: endpoints[2],
            laptop: endpoints[3],
            login: login,
            resourceServer: try await issuer.addResourceServer("server"),
            app: app
        )
    }

    func before(_ milliseconds: Int64) -> Milliseconds { Milliseconds(clamping: now.count - milliseconds) }
    func after(_ milliseconds: Int64) -> Milliseconds { Milliseconds(clamping: now.count + milliseconds) }

    // MARK: Contents of the stores

    /// All rows of relay and issuer, without what is Eve's.
    func dump() throws -> Set<String> {
        let issued = try DatabaseDump.rows(of: relayd.directory, "issuer.sqlite") { table, row in
            // When a browser was seen last.
            table == "web_session" ? row.filter { $0.0 != "used" } : Array(row)
        }
        let own = "=" + Data(eve.utf8).base64EncodedString()
        // What was tried and used counts for limits alone.
        let counted = ["issuer_attempts ", "issuer_used "]
        let content = issued.filter { row in !row.contains(own) && !counted.contains { row.hasPrefix($0) } }
        return try DatabaseDump(of: relayd, besides: laptop).rows.union(content)
    }

    /// Forgets what has expired, as a request that is served does.
    func forgetExpired() async throws {
        let now = after(1_000)
        try await issuer.store.write { try $0.forget(before: now) }
    }

    /// Waits until the logins of revoked endpoints have ended, too.
    func settle() async throws {
        while try dump().contains(where: { $0.hasPrefix("revoked ") && $0.contains("logins_ended=0") }) {
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    // MARK: Access tokens

    /// A token of the phone, right but for what is said.
    func token(
        by signer: P256SigningKey? = nil,
        audience: String? = nil,
        issuer url: String? = nil,
        scopes: Scopes = .all,
        boundTo key: P256SigningKey? = nil,
        isBound: Bool = true,
        age: Int64 = 0
    ) async throws -> String {
        let own = try await issuer.keyRing.signer(at: now)
        let claims = AccessTokenClaims(
            issuer: url ?? relayd.origin + Issuer.path,
            audience: audience ?? issuer.accessTokens.audience,
            subject: anna,
            client: Self.client,
            scopes: scopes,
            session: login.id.session,
            key: isBound ? (key ?? phone.identityKey).publicKey.jwkThumbprint : nil,
            id: randomBytes(16),
            now: before(age)
        )
        return try claims.signed(by: signer ?? own.key, id: own.id).exposed
    }

    // MARK: Browsers

    /// A browser, signed in if a user is named.
    func browser(of subject: String? = nil, age: Int64 = 0) async throws -> RouteBrowser {
        let token = BrowserToken()
        if let subject {
            let session = WebSession(id: token.session, subject: subject, agent: "Test", created: before(age), used: before(age))
            try await issuer.store.write { try $0.insert(session) }
        }
        return RouteBrowser(cookie: token.text.exposed, code: token.formCode(by: issuer.master.formKey), session: token.session)
    }

    /// Ends the sessions of former requests: a user has few, and the first to end for a new one is that which was used longest ago.
    func endSessions() async throws {
        try await issuer.store.write { [anna, eve] records in
            for subject in [anna, eve] { try records.removeSessions(of: subject) }
        }
    }

    func signedOut() async throws -> RouteBrowser {
        let browser = try await browser(of: anna)
        _ = try await issuer.store.write { [anna] in try $0.removeSession(browser.session, of: anna) }
        return browser
    }

    /// The cookie of a set-up link.
    func setUpToken(expires: Milliseconds) async throws -> String {
        let token = SetUpToken()
        try await issuer.store.write { [anna] in try $0.setSetUpToken(token.digest, .link, of: anna, expires: expires) }
        return token.text.exposed
    }

    // MARK: Grants

    func invitation(expires: Milliseconds, _ redemption: Invitation.Redemption? = nil) async throws -> String {
        let code = InvitationCode()
        try await issuer.store.write { [anna] records in
            try records.insert(Invitation(code: code.digest, subject: anna, inviter: nil, expires: expires))
            if let redemption { try records.redeem(code.digest, redemption) }
        }
        return code.text.exposed
    }

    /// The refresh token of a login that has the phone's key.
    func refreshToken(age: Int64 = 0, scopes: Scopes = .all, isRevoked: Bool = false) async throws -> String {
        var family = RefreshFamily(
            id: .random(),
            subject: anna,
            client: Self.client,
            scopes: scopes,
            key: phone.identityKey.publicKey.jwkThumbprint,
            invitedBy: nil,
            created: before(age),
            rotated: before(age)
        )
        let began = family
        try await issuer.store.write { try $0.insert(began) }
        if isRevoked {
            family.revoked = now
            try await issuer.store.write { [family] in try $0.update(family) }
        }
        return RefreshToken(family: family.id, number: 1, key: issuer.master.refreshTokenKey).text.exposed
    }

    /// A refresh token of no login, and one whose MAC is another issuer's.
    var unknownRefreshToken: String {
        RefreshToken(family: .random(), number: 1, key: issuer.master.refreshTokenKey).text.exposed
    }
    var forgedRefreshToken: String {
        RefreshToken(family: login.id, number: 1, key: issuer.master.formKey).text.exposed
    }

    func deviceCode(
        expires: Milliseconds,
        _ decision: DeviceAuthorization.Decision,
        userCode: UserCode = UserCode()
    ) async throws -> String {
        let code = Base64.url.encode(randomBytes(32))
        let digest = Digest256(hashing: Array(code.utf8))
        let authorization = DeviceAuthorization(
            code: digest,
            userCode: userCode.digest(by: issuer.master.userCodeKey),
            client: Self.client,
            scopes: .all,
            device: "TV",
            platform: "linux",
            expires: expires
        )
        try await issuer.store.write { records in
            try records.insert(authorization, from: ClientNetworks(["192.0.2.1"]))
            if decision != .pending { try records.decide(digest, decision) }
        }
        return code
    }

    func authorizationCode(expires: Milliseconds) async throws -> String {
        let text = Base64.url.encode(randomBytes(32))
        let code = AuthorizationCode(
            code: Digest256(hashing: Array(text.utf8)),
            subject: anna,
            client: app.id,
            redirect: Self.redirect,
            challenge: Digest256(hashing: Array(Self.verifier.utf8)),
            scopes: .all,
            expires: expires
        )
        try await issuer.store.write { try $0.insert(code) }
        return text
    }

    /// The query of an app's request at the authorization endpoint.
    var authorization: String {
        RouteRequest.encoded([
            "response_type": "code", "client_id": app.id, "redirect_uri": Self.redirect, "code_challenge_method": "S256",
            "code_challenge": Base64.url.encode(Digest256(hashing: Array(Self.verifier.utf8)).bytes),
        ])
    }
}

/// What a browser sends: its cookie, and the code of its forms.
struct RouteBrowser {
    var cookie: String
    var code: String
    var session: Digest256
}

struct RouteRequest {
    var headers: [(String, String)] = []
    var query = ""
    var body = ""

    static func form(_ fields: [String: String], headers: [(String, String)] = []) -> RouteRequest {
        RouteRequest(headers: headers + [("Content-Type", "application/x-www-form-urlencoded")], body: encoded(fields))
    }

    static func encoded(_ fields: [String: String]) -> String {
        fields.sorted { $0.key < $1.key }.map { "\($0.key)=\(FormCoding.encode($0.value))" }.joined(separator: "&")
    }
}
