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
                return page(visit, note: "The name or the code is wrong, or the code was used.", status: .unauthorized)
            }
            return .local("/setup", setUp: restored)
        }
        routes.post(recentlySignedIn: "/account/codes") { visit, session, _ throws(OAuthError) in
            let codes = try await context.write { records in
                try signIn.makeRecoveryCodes(of: session.subject, visit.agent, now: visit.now, in: records)
            }
            return .page(
                "Your recovery codes",
                """
                <p class="note alarm">Write these codes down, or print this page. They are shown only now. Each works once, instead of a lost password.
                Older codes no longer work.</p>
                <ul class="codes">\(codes.map { "<li class=\"code\">\($0.text.exposed)</li>" as HTML })</ul>
                <p><a href="\(visit.link("/account"))">Back to the account</a></p>
                """
            )
        }
    }

    private func page(_ visit: Visit, note: String? = nil, status: HTTPResponse.Status = .ok) -> PageResponse {
        .page(
            "Use a recovery code",
            """
            \(HTML.note(note))
            <p>Without a recovery code, ask the operator of this relay for a new link.</p>
            \(visit.form(
                "/recover",
                """
                <label>Name
                <input name="name" autocomplete="username" autocapitalize="none" required></label>
                <label>Recovery code
                <input class="code" name="code" autocomplete="off" autocapitalize="characters" spellcheck="false" required></label>
                """,
                button: "Continue",
                .primary
            ))
            """,
            status: status
        )
    }
}
