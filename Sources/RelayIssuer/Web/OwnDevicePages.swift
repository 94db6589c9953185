// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import RelayProtocol

/// Pages that revoke a user's devices, remove identities of other issuers, and delete the account. All of them need a recent sign-in.
struct OwnDevicePages: Sendable {
    let context: IssuerContext
    let signIn: SignIn
    let logins: Logins
    let accounts: (any AccountHolder)?

    func add<Context: RequestContext>(to routes: IssuerRoutes<Context, some RouterMethods<Context>>) {
        routes.post(recentlySignedIn: "/account/device") { visit, session, form throws(OAuthError) in
            guard let accounts, let endpoint = form["endpoint"].flatMap(EndpointID.init) else {
                return .local("/account")
            }
            guard form["confirmed"] == "yes" else {
                let all = try await context.relaying { try await accounts.endpoints(of: session.subject) }
                guard let found = all.first(where: { $0.id == endpoint }) else { return .local("/account") }
                return visit.confirmation(
                    "/account/device",
                    ("endpoint", endpoint.description),
                    question: visit.t(
                        "devices.revoke.question",
                        ["name": "<strong>\(found.name)</strong>", "endpoint": "\(endpoint.label)"]
                    ),
                    button: visit.t("devices.revoke")
                )
            }
            let isRevoked = try await context.relaying { try await accounts.revoke(endpoint, of: session.subject) }
            if isRevoked {
                try await context.write { try $0.note(.deviceRevoked, of: session.subject, endpoint.label, now: visit.now) }
            }
            return .local("/account")
        }
        routes.post(recentlySignedIn: "/account/identity") { visit, session, form throws(OAuthError) in
            guard let accounts, let issuer = form["issuer"], let other = form["subject"] else {
                return .local("/account")
            }
            guard form["confirmed"] == "yes" else {
                return visit.confirmation(
                    "/account/identity",
                    ("issuer", issuer),
                    ("subject", other),
                    question: visit.t(
                        "identities.remove.question",
                        ["issuer": "<strong>\(issuer)</strong>", "subject": "\(other)"]
                    ),
                    button: visit.t("remove")
                )
            }
            // The relay adds an event to the account.
            _ = try await context.relaying { try await accounts.unlink(issuer: issuer, subject: other, of: session.subject) }
            return .local("/account")
        }
        routes.get("/account/remove") { visit, _ throws(OAuthError) in
            guard let session = visit.session else { return .local("/login") }
            guard session.isFresh(at: visit.now) else { throw .signInAgain }
            return try await removalPage(visit, session)
        }
        routes.post(recentlySignedIn: "/account/remove") { visit, session, form throws(OAuthError) in
            guard let user = try await context.read({ try $0.user(session.subject) }) else { return .local("/login") }
            if try await hasPassword(user) {
                // A browser that the user left signed in is not enough.
                let found = try await signIn.check(SignInAttempt(name: user.name, visit), password: Secret(form["password"] ?? ""))
                guard found?.user.subject == session.subject else {
                    return try await removalPage(visit, session, note: visit.t("removal.wrongPassword"), status: .unauthorized)
                }
            }
            guard form["confirmed"] == "yes" else {
                return try await removalPage(visit, session, note: visit.t("removal.unticked"), status: .badRequest)
            }
            // The account is removed first. Without it, none of its tokens is valid.
            var subjects = [session.subject]
            if let accounts { subjects = try await context.relaying { try await accounts.remove(accountOf: session.subject) } }
            for subject in Set(subjects + [session.subject]) {
                try await context.answering { () async throws(IssuerError) in try await logins.removeUser(subject) }
            }
            var page = PageResponse.page(visit.t("removal.done.title"), "<p>\(visit.t("removal.done.text"))</p>")
            page.browser = BrowserToken()
            return page
        }
    }

    /// Returns the account's devices; `nil` if the relay does not answer.
    func devices(of subject: String) async -> [AccountEndpoint]? {
        guard let accounts else { return [] }
        return try? await accounts.endpoints(of: subject)
    }

    /// Returns the part of the account page with the devices; empty without a relay.
    func devicesPart(_ visit: Visit, _ session: WebSession, _ endpoints: [AccountEndpoint]?) -> HTML {
        guard accounts != nil else { return "" }
        guard let endpoints else {
            return .card(visit.t("devices.title"), "<p>\(visit.t("devices.unknown"))</p>")
        }
        guard !endpoints.isEmpty else { return .card(visit.t("devices.title"), visit.rows([])) }
        let names = Dictionary(endpoints.map { ($0.id, $0.name) }) { first, _ in first }
        let isFresh = session.isFresh(at: visit.now)
        return .card(
            visit.t("devices.title"),
            """
            <p class="quiet">\(visit.t(isFresh ? "devices.text" : "devices.text.old"))</p>
            \(visit.rows(endpoints.map { item(visit, $0, inviter: $0.joining.invitedBy.map { names[$0] ?? $0.label }, isFresh: isFresh) }))
            """
        )
    }

    /// Returns the account's identities of other issuers; `nil` if the relay does not answer.
    func identities(of subject: String) async -> [AccountLink]? {
        guard let accounts else { return [] }
        return try? await accounts.identities(of: subject)
    }

    /// Returns the part of the account page with the identities of other issuers; empty if there are none.
    func identitiesPart(_ visit: Visit, _ session: WebSession, _ links: [AccountLink]?) -> HTML {
        guard let links else {
            return .card(visit.t("identities.title"), "<p>\(visit.t("identities.unknown"))</p>")
        }
        guard !links.isEmpty else { return "" }
        let isFresh = session.isFresh(at: visit.now)
        return .card(
            visit.t("identities.title"),
            """
            <p class="quiet">\(visit.t(isFresh ? "identities.text" : "identities.text.old"))</p>
            \(visit.rows(links.map { item(visit, $0, isFresh: isFresh) }))
            """
        )
    }

    private func item(_ visit: Visit, _ link: AccountLink, isFresh: Bool) -> HTML {
        .row(
            "person",
            visit.t("identities.name", ["issuer": "\(link.issuer)", "subject": "\(link.subject)"]),
            link.linker.map { visit.t("identities.linked", ["endpoint": "\($0.label)", "time": HTML.time(link.added)]) }
                ?? visit.t("identities.linkedByOperator", ["time": HTML.time(link.added)]),
            form: isFresh && link.isRemovable
                ? visit.form(
                    "/account/identity",
                    "\(visit.hidden("issuer", link.issuer))\(visit.hidden("subject", link.subject))",
                    button: visit.t("remove"),
                    .destructive
                ) : nil
        )
    }

    private func item(_ visit: Visit, _ endpoint: AccountEndpoint, inviter: String?, isFresh: Bool) -> HTML {
        .row(
            endpoint.kind,
            "\(endpoint.name)",
            """
            \(endpoint.isConnected
                ? "<span class=\"state good\">\(visit.t("devices.connected"))</span>" as HTML
                : "<span class=\"state\">\(visit.t("devices.notConnected"))</span>") \(visit.words.kind(endpoint.kind)), \(endpoint.platform)
            """,
            """
            \(visit.t("devices.joined", ["time": HTML.time(endpoint.joining.time)]))\(
                endpoint.joining.address.map { visit.t("devices.joined.from", ["address": "\($0)"]) })\(
                inviter.map { visit.t("devices.joined.by", ["name": "\($0)"]) })
            """,
            visit.details(visit.t("devices.endpoint"), endpoint.id.label),
            form: isFresh
                ? visit.form(
                    "/account/device",
                    visit.hidden("endpoint", endpoint.id.description),
                    button: visit.t("devices.revoke"),
                    .destructive
                ) : nil
        )
    }

    private func removalPage(
        _ visit: Visit,
        _ session: WebSession,
        note: HTML? = nil,
        status: HTTPResponse.Status = .ok
    ) async throws(OAuthError) -> PageResponse {
        guard let user = try await context.read({ try $0.user(session.subject) }) else { return .local("/login") }
        let password: HTML? =
            try await hasPassword(user)
            ? """
            \(HTML.userName(of: user))
            <label>\(visit.t("removal.password"))
            <input type="password" name="password" autocomplete="current-password" required></label>
            """ : nil
        return .page(
            visit.t("removal.title", ["name": "\(user.name)"]),
            """
            \(HTML.note(note))
            <p>\(visit.t("removal.text"))</p>
            \(visit.form(
                "/account/remove",
                """
                \(password)
                <label><input type="checkbox" name="confirmed" value="yes" required> \(visit.t("removal.box"))</label>
                """,
                button: visit.t("removal.do"),
                .destructive
            ))
            <p><a href="\(visit.link("/account"))">\(visit.t("removal.keep"))</a></p>
            """,
            layout: .question,
            status: status
        )
    }

    private func hasPassword(_ user: IssuerUser) async throws(OAuthError) -> Bool {
        try await context.read { try $0.password(of: user.subject) } != nil
    }
}
