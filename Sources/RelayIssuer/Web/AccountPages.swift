// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Hummingbird
import Logging
import RelayProtocol

/// The account page of a user: devices, browsers, password and events.
struct AccountPages: Sendable {
    let context: IssuerContext
    let signIn: SignIn
    let logins: Logins
    let ownDevices: OwnDevicePages

    func add<Context: RequestContext>(to routes: IssuerRoutes<Context, some RouterMethods<Context>>) {
        routes.get("/account") { visit, _ throws(OAuthError) in
            guard let session = visit.session else { return .local("/login") }
            return try await page(visit, session)
        }
        routes.post(signedIn: "/account/login") { visit, session, form throws(OAuthError) in
            let id = form["session"] ?? ""
            let asked = try await context.read { try $0.family(session: id) }
            guard let asked, asked.subject == session.subject, asked.revoked == nil else { return .local("/account") }
            guard form["confirmed"] == "yes" else {
                return visit.confirmation(
                    "/account/login",
                    ("session", id),
                    question: """
                        Sign out <strong>\(asked.device.isEmpty ? RegisteredClient.shown(asked.client) : asked.device)</strong>? It has to join or
                        sign in again.
                        """,
                    button: "Sign it out"
                )
            }
            try await context.answering { () async throws(IssuerError) in
                try await logins.end(session: id, of: session.subject, because: "revoked a login: its user asked for it")
            }
            return .local("/account")
        }
        routes.post(signedIn: "/account/browser") { visit, session, form throws(OAuthError) in
            let id = form["browser"].flatMap(Base64.url.decode).flatMap(Digest256.init(bytes:))
            try await context.write { records in
                guard let id, let ended = try records.session(id), try records.removeSession(id, of: session.subject) else { return }
                try records.note(.signedOut, of: session.subject, ended.agent, now: visit.now)
            }
            return .local("/account")
        }
        routes.post(recentlySignedIn: "/account/password") { visit, session, form throws(OAuthError) in
            guard let user = try await context.read({ try $0.user(session.subject) }) else { return .local("/login") }
            let password = Secret(form["password"] ?? "")
            if let objection = PasswordRule.objection(to: password, repeated: form["repeated"], name: user.name) {
                return try await page(visit, session, note: objection, status: .badRequest)
            }
            let hash = try await signIn.hash(password, of: user.subject)
            let browser = try await context.write { records -> SignedInBrowser? in
                // The session may have ended meanwhile, by another new password.
                guard try records.session(session.id) != nil else { return nil }
                try records.replacePassword(hash, of: session.subject, visit.agent, now: visit.now)
                return try signIn.beginSession(of: session.subject, visit, in: records)
            }
            return browser.map { .local("/account", signedIn: $0) } ?? .local("/login")
        }
    }

    private struct Account: Sendable {
        var user: IssuerUser
        var logins: [RefreshFamily]
        var browsers: [WebSession]
        var codes: Int
        var passkeys: [Passkey]
        var hasPassword: Bool
        var events: [AccountEvent]
    }

    private func page(
        _ visit: Visit,
        _ session: WebSession,
        note: String? = nil,
        status: HTTPResponse.Status = .ok
    ) async throws(OAuthError) -> PageResponse {
        let account = try await context.read { records -> Account? in
            guard let user = try records.user(session.subject) else { return nil }
            return Account(
                user: user,
                logins: try records.openLogins(of: session.subject, upTo: RefreshFamily.maximum).filter { !$0.isOver(at: visit.now) },
                browsers: try records.sessions(of: session.subject).filter { !$0.isOver(at: visit.now) },
                codes: try records.recoveryCodes(of: session.subject),
                passkeys: try records.passkeys(of: session.subject),
                hasPassword: try records.password(of: session.subject) != nil,
                events: try records.events(of: session.subject)
            )
        }
        guard let account else { return .local("/login") }
        let devices = await ownDevices.devicesPart(visit, session)
        let identities = await ownDevices.identities(of: session.subject)
        return .page(
            "Account \(account.user.name)",
            """
            \(note.map { "<p class=\"note\" role=\"alert\">\($0)</p>" })
            \(visit.form("/logout", button: "Sign out"))
            \(ways(account, identities ?? []))
            \(devices)
            \(ownDevices.identitiesPart(visit, session, identities))
            <h2>Apps and devices</h2>
            \(HTML.list(account.logins.map { item(visit, $0) }))
            <h2>Browsers</h2>
            <ul>\(account.browsers.map { item(visit, $0, isOwn: $0.id == session.id) })</ul>
            \(session.isFresh(at: visit.now) ? changes(visit, account) : old(visit))
            <h2>What happened</h2>
            <ul>\(account.events.map(item))</ul>
            """,
            status: status
        )
    }

    /// Returns one sentence about everything that can sign in to the account now.
    private func ways(_ account: Account, _ identities: [AccountLink]) -> HTML {
        func count(_ number: Int, _ one: String, _ many: String) -> String { "\(number) \(number == 1 ? one : many)" }
        var ways = [
            account.hasPassword ? "a password" : "no password", count(account.passkeys.count, "passkey", "passkeys"),
            count(account.codes, "recovery code", "recovery codes"), count(account.browsers.count, "browser", "browsers"),
            count(account.logins.count, "app or device", "apps and devices"),
        ]
        if !identities.isEmpty { ways.append(count(identities.count, "identity of another provider", "identities of other providers")) }
        return "<p>What signs in to this account: \(ways.joined(separator: ", ")).</p>"
    }

    private func item(_ visit: Visit, _ login: RefreshFamily) -> HTML {
        let app = RegisteredClient.shown(login.client)
        return """
            <li><strong>\(login.device.isEmpty ? app : login.device)</strong> \(login.device.isEmpty || login.device == app ? "" : app)
            <br>signed in \(login.created.shown), last seen \(login.rotated.shown)
            \(visit.destructiveForm("/account/login", visit.hidden("session", login.id.session), button: "Sign it out"))</li>
            """
    }

    private func item(_ visit: Visit, _ browser: WebSession, isOwn: Bool) -> HTML {
        """
        <li>\(browser.agent.isEmpty ? "A browser" : browser.agent)\(isOwn ? ", this one" : "")
        <br>signed in \(browser.created.shown), last seen \(browser.used.shown)
        \(isOwn
            ? nil
            : visit.form("/account/browser", visit.hidden("browser", Base64.url.encode(browser.id.bytes)), button: "Sign it out"))</li>
        """
    }

    private func item(_ visit: Visit, _ passkey: Passkey) -> HTML {
        """
        <li>\(passkey.name.isEmpty ? "A passkey" : passkey.name)
        \(visit.destructiveForm("/account/passkey/remove", visit.hidden("passkey", Base64.url.encode(passkey.id)), button: "Remove it"))</li>
        """
    }

    private func changes(_ visit: Visit, _ account: Account) -> HTML {
        """
        <h2>Password</h2>
        <p>A new password signs all other browsers out. Apps and devices stay signed in.</p>
        \(visit.form("/account/password", HTML.newPassword(of: account.user), button: "Set the password"))
        <h2>Passkeys</h2>
        \(HTML.list(account.passkeys.map { item(visit, $0) }))
        \(visit.newPasskeyForm("/account/passkey", account.user))
        <h2>Recovery codes</h2>
        <p>\(account.codes) unused codes.</p>
        \(visit.form("/account/codes", button: "Make new codes"))
        <p><a href="\(visit.link("/account/remove"))">Delete this account</a></p>
        """
    }

    private func old(_ visit: Visit) -> HTML {
        """
        <h2>How you sign in</h2>
        <p>To change your password or recovery codes, sign in again.</p>
        \(visit.form("/logout", button: "Sign out"))
        """
    }

    private func item(_ event: AccountEvent) -> HTML {
        """
        <li>\(event.time.shown): \(event.kind.explanation)\(event.count > 1 ? ", \(event.count) times" : "")\(event.detail.isEmpty ? "" : ": ")\(
            event.detail)</li>
        """
    }
}

extension AccountEvent.Kind {
    /// The explanation for the account's owner.
    package var explanation: String {
        switch self {
        case .setUpLinkMade: "the operator made a link to set up how you sign in"
        case .signedIn: "a browser signed in"
        case .signedOut: "a browser was signed out"
        case .signInFailed: "signing in failed"
        case .passwordSet: "a password was set"
        case .recoveryCodesMade: "recovery codes were made"
        case .recoveryCodeUsed: "a recovery code was used"
        case .passkeyAdded: "a passkey was added"
        case .passkeyRemoved: "a passkey was removed"
        case .appSignedIn: "an app or device was let in"
        case .deviceJoined: "a device joined by a link"
        case .deviceRevoked: "a device was revoked"
        case .loginRevoked: "an app or device was signed out"
        case .codeReplayed: "an app's code was used twice, so it was signed out"
        case .tokenReused: "an old token was used again, so its device was signed out"
        case .identityLinked: "another way to sign in was linked"
        case .identityRemoved: "a way to sign in was removed"
        case .linkReused: "two devices used one link, so the first was signed out"
        }
    }
}

extension Milliseconds {
    /// The time in UTC, for people.
    var shown: String {
        let style = Date.ISO8601FormatStyle(dateTimeSeparator: .space)
        return Date(timeIntervalSince1970: Double(count / 1_000)).formatted(style).replacing("Z", with: " UTC")
    }
}
