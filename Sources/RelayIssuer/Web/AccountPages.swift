// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
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
                let name: HTML = asked.device.isEmpty ? visit.words.app(asked.client) : "\(asked.device)"
                return visit.confirmation(
                    "/account/login",
                    ("session", id),
                    question: visit.t("account.login.question", ["name": "<strong>\(name)</strong>"]),
                    button: visit.t("account.login.end")
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
                return try await page(visit, session, note: visit.words.html(objection), status: .badRequest)
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
        note: HTML? = nil,
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
            visit.t("account.title", ["name": "\(account.user.name)"]),
            """
            \(HTML.note(note))
            \(ways(visit, account, identities ?? []))
            \(visit.form("/logout", button: visit.t("account.signOut")))
            \(ownDevices.devicesPart(visit, session, devices))
            \(ownDevices.identitiesPart(visit, session, identities))
            \(HTML.card(visit.t("account.logins"), visit.rows(account.logins.map { item(visit, $0, devices ?? []) })))
            \(HTML.card(visit.t("account.browsers"), visit.rows(account.browsers.map { item(visit, $0, isOwn: $0.id == session.id) })))
            \(session.isFresh(at: visit.now) ? changes(visit, account) : old(visit))
            \(HTML.card(visit.t("account.events"), events(visit, account.events)))
            \(session.isFresh(at: visit.now) ? "<p><a href=\"\(visit.link("/account/remove"))\">\(visit.t("account.remove"))</a></p>" : nil)
            \(HTML.timeScript)
            """,
            layout: .cards,
            status: status
        )
    }

    /// Returns one sentence about everything that can sign in to the account now.
    private func ways(_ visit: Visit, _ account: Account, _ identities: [AccountLink]) -> HTML {
        var ways = [
            visit.t(account.hasPassword ? "account.way.password" : "account.way.noPassword"),
            visit.t("account.way.passkeys", count: account.passkeys.count), visit.t("account.way.codes", count: account.codes),
            visit.t("account.way.browsers", count: account.browsers.count), visit.t("account.way.logins", count: account.logins.count),
        ]
        if !identities.isEmpty { ways.append(visit.t("account.way.identities", count: identities.count)) }
        return "<p>\(visit.t("account.ways", ["list": visit.words.joined(ways)]))</p>"
    }

    private func item(_ visit: Visit, _ login: RefreshFamily, _ devices: [AccountEndpoint]) -> HTML {
        let device = devices.first { $0.keyThumbprint == login.key }
        // A device may have got another name since it signed in.
        let names = [device?.name ?? "", login.device].filter { !$0.isEmpty }.map { "\($0)" as HTML } + [visit.words.app(login.client)]
        let name = names.first ?? ""
        return .row(
            device?.kind ?? "app",
            name,
            visit.words.joined(names.filter { $0 != name }),
            visit.t("account.seen", ["begun": HTML.time(login.created), "seen": HTML.time(login.rotated)]),
            form: visit.form(
                "/account/login",
                visit.hidden("session", login.id.session),
                button: visit.t("account.login.end"),
                .destructive
            )
        )
    }

    private func item(_ visit: Visit, _ browser: WebSession, isOwn: Bool) -> HTML {
        let name: HTML = browser.agent.isEmpty ? visit.t("browser.unnamed") : "\(browser.agent)"
        return .row(
            "browser",
            isOwn ? visit.t("account.thisBrowser", ["name": name]) : name,
            visit.t("account.seen", ["begun": HTML.time(browser.created), "seen": HTML.time(browser.used)]),
            form: isOwn
                ? nil
                : visit.form(
                    "/account/browser",
                    visit.hidden("browser", Base64.url.encode(browser.id.bytes)),
                    button: visit.t("account.login.end")
                )
        )
    }

    private func item(_ visit: Visit, _ passkey: Passkey) -> HTML {
        .row(
            "key",
            passkey.name.isEmpty ? visit.t("passkey.unnamed") : "\(passkey.name)",
            form: visit.form(
                "/account/passkey/remove",
                visit.hidden("passkey", Base64.url.encode(passkey.id)),
                button: visit.t("remove"),
                .destructive
            )
        )
    }

    private func changes(_ visit: Visit, _ account: Account) -> HTML {
        """
        \(HTML.card(
            visit.t("account.passkeys"),
            "\(visit.rows(account.passkeys.map { item(visit, $0) }))\n\(visit.newPasskeyForm("/account/passkey", account.user))"
        ))
        \(HTML.card(
            visit.t("account.password"),
            """
            <p class="quiet">\(visit.t("account.password.text"))</p>
            \(visit.form("/account/password", visit.newPassword(of: account.user), button: visit.t("password.set")))
            """
        ))
        \(HTML.card(
            visit.t("account.codes"),
            """
            <p>\(visit.t("account.codes.unused", count: account.codes))</p>
            \(visit.form("/account/codes", button: visit.t("account.codes.make")))
            """
        ))
        """
    }

    private func old(_ visit: Visit) -> HTML {
        .card(
            visit.t("account.old"),
            """
            <p>\(visit.t("account.old.text"))</p>
            \(visit.form("/logout", button: visit.t("account.signOut")))
            """
        )
    }

    /// The events that a person reads first; all others are a click away.
    private static let newest = 8

    private func events(_ visit: Visit, _ events: [AccountEvent]) -> HTML {
        let older = events.dropFirst(Self.newest).map { item(visit, $0) }
        let summary = visit.t("account.events.older", count: older.count)
        let more: HTML? = older.isEmpty ? nil : "<details><summary>\(summary)</summary>\(visit.rows(older))</details>"
        return "\(visit.rows(events.prefix(Self.newest).map { item(visit, $0) }))\(more)"
    }

    private func item(_ visit: Visit, _ event: AccountEvent) -> HTML {
        var what = visit.t("event.\(event.kind.rawValue)")
        if event.count > 1 { what = visit.t("account.event.times", ["event": what, "number": "\(event.count)"]) }
        if !event.detail.isEmpty { what = visit.t("account.event.detail", ["event": what, "detail": "\(event.detail)"]) }
        return "<li class=\"row\"><div class=\"what\">\(what)</div> <span class=\"meta\">\(HTML.time(event.time))</span></li>"
    }
}
