// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

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
        let devices = await ownDevices.devices(of: session.subject)
        let identities = await ownDevices.identities(of: session.subject)
        return .page(
            "Account \(account.user.name)",
            """
            \(HTML.note(note))
            \(ways(account, identities ?? []))
            \(visit.form("/logout", button: "Sign out"))
            \(ownDevices.devicesPart(visit, session, devices))
            \(ownDevices.identitiesPart(visit, session, identities))
            \(HTML.card("Apps and devices that are signed in", HTML.rows(account.logins.map { item(visit, $0, devices ?? []) })))
            \(HTML.card("Browsers", HTML.rows(account.browsers.map { item(visit, $0, isOwn: $0.id == session.id) })))
            \(session.isFresh(at: visit.now) ? changes(visit, account) : old(visit))
            \(HTML.card("What happened", events(account.events)))
            \(session.isFresh(at: visit.now) ? "<p><a href=\"\(visit.link("/account/remove"))\">Delete this account</a></p>" : nil)
            \(HTML.timeScript)
            """,
            layout: .cards,
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

    private func item(_ visit: Visit, _ login: RefreshFamily, _ devices: [AccountEndpoint]) -> HTML {
        let device = devices.first { $0.keyThumbprint == login.key }
        // A device may have got another name since it signed in.
        var names = [device?.name ?? "", login.device, RegisteredClient.shown(login.client)].filter { !$0.isEmpty }
        let name = names.removeFirst()
        return .row(
            device?.kind ?? "app",
            "\(name)",
            "\(names.filter { $0 != name }.joined(separator: ", "))",
            "signed in \(HTML.time(login.created)), last seen \(HTML.time(login.rotated))",
            form: visit.form("/account/login", visit.hidden("session", login.id.session), button: "Sign it out", .destructive)
        )
    }

    private func item(_ visit: Visit, _ browser: WebSession, isOwn: Bool) -> HTML {
        .row(
            "browser",
            "\(browser.agent.isEmpty ? "A browser" : browser.agent)\(isOwn ? ", this one" : "")",
            "signed in \(HTML.time(browser.created)), last seen \(HTML.time(browser.used))",
            form: isOwn
                ? nil : visit.form("/account/browser", visit.hidden("browser", Base64.url.encode(browser.id.bytes)), button: "Sign it out")
        )
    }

    private func item(_ visit: Visit, _ passkey: Passkey) -> HTML {
        .row(
            "key",
            "\(passkey.name.isEmpty ? "A passkey" : passkey.name)",
            form: visit.form(
                "/account/passkey/remove",
                visit.hidden("passkey", Base64.url.encode(passkey.id)),
                button: "Remove it",
                .destructive
            )
        )
    }

    private func changes(_ visit: Visit, _ account: Account) -> HTML {
        """
        \(HTML.card(
            "Passkeys",
            "\(HTML.rows(account.passkeys.map { item(visit, $0) }))\n\(visit.newPasskeyForm("/account/passkey", account.user))"
        ))
        \(HTML.card(
            "Password",
            """
            <p class="quiet">A new password signs all other browsers out. Apps and devices stay signed in.</p>
            \(visit.form("/account/password", HTML.newPassword(of: account.user), button: "Set the password"))
            """
        ))
        \(HTML.card(
            "Recovery codes",
            "<p>\(account.codes) unused codes.</p>\n\(visit.form("/account/codes", button: "Make new codes"))"
        ))
        """
    }

    private func old(_ visit: Visit) -> HTML {
        .card(
            "How you sign in",
            """
            <p>To change your password or recovery codes, sign in again.</p>
            \(visit.form("/logout", button: "Sign out"))
            """
        )
    }

    /// The events that a person reads first; all others are a click away.
    private static let newest = 8

    private func events(_ events: [AccountEvent]) -> HTML {
        let older = events.dropFirst(Self.newest)
        let more: HTML? =
            older.isEmpty ? nil : "<details><summary>\(older.count) older ones</summary>\(HTML.rows(older.map(item)))</details>"
        return "\(HTML.rows(events.prefix(Self.newest).map(item)))\(more)"
    }

    private func item(_ event: AccountEvent) -> HTML {
        """
        <li class="row"><div class="what">\(event.kind.explanation)\(event.count > 1 ? ", \(event.count) times" : "")\(
            event.detail.isEmpty ? "" : ": ")\(event.detail)</div> <span class="meta">\(HTML.time(event.time))</span></li>
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
