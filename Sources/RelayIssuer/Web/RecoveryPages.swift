// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import RelayProtocol

/// Recovery for a person who has lost the password.
struct RecoveryPages: Sendable {
    let context: IssuerContext
    let signIn: SignIn

    func add<Context: RequestContext>(to routes: IssuerRoutes<Context, some RouterMethods<Context>>) {
        routes.get("/recover") { visit, _ in page(visit) }
        routes.post("/recover") { visit, form throws(OAuthError) in
            let attempt = SignInAttempt(name: form["name"] ?? "", visit)
            guard let restored = try await signIn.recover(attempt, code: form["code"] ?? "") else {
                return page(visit, note: visit.t("recovery.wrong"), status: .unauthorized)
            }
            return .local("/setup", setUp: restored)
        }
        routes.post(recentlySignedIn: "/account/codes") { visit, session, _ throws(OAuthError) in
            let codes = try await context.write { records in
                try signIn.makeRecoveryCodes(of: session.subject, visit.agent, now: visit.now, in: records)
            }
            return .page(
                visit.t("recovery.codes.title"),
                """
                <p class="note alarm">\(visit.t("recovery.codes.text"))</p>
                <ul class="codes">\(codes.map { "<li class=\"code\">\($0.text.exposed)</li>" as HTML })</ul>
                <p><a href="\(visit.link("/account"))">\(visit.t("recovery.codes.back"))</a></p>
                """
            )
        }
    }

    private func page(_ visit: Visit, note: HTML? = nil, status: HTTPResponse.Status = .ok) -> PageResponse {
        .page(
            visit.t("recovery.title"),
            """
            \(HTML.note(note))
            <p>\(visit.t("recovery.text"))</p>
            \(visit.form(
                "/recover",
                """
                <label>\(visit.t("signIn.name"))
                <input name="name" autocomplete="username" autocapitalize="none" required></label>
                <label>\(visit.t("recovery.code"))
                <input class="code" name="code" autocomplete="off" autocapitalize="characters" spellcheck="false" required></label>
                """,
                button: visit.t("continue"),
                .primary
            ))
            """,
            status: status
        )
    }
}
