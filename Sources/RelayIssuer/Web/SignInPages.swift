// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import RelayLog
import RelayProtocol

/// Sign-in and sign-out.
struct SignInPages: Sendable {
    let context: IssuerContext
    let signIn: SignIn

    func add<Context: RequestContext>(to routes: IssuerRoutes<Context, some RouterMethods<Context>>) {
        routes.get("/login") { visit, query in
            let next = NextPage(query["next"])
            return visit.session == nil ? visit.signInPage(next: next) : .local(next.text)
        }
        routes.post("/login") { visit, form throws(OAuthError) in
            let next = NextPage(form["next"])
            let name = form["name"] ?? ""
            let signedIn = try await context.signingIn(by: .password, account: name, visit) { () async throws(OAuthError) in
                try await signIn(visit, name: name, password: Secret(form["password"] ?? ""))
            }
            guard let session = signedIn else {
                return visit.signInPage(next: next, name: name, note: visit.t("signIn.wrong"), status: .unauthorized)
            }
            return .local(next.text, signedIn: session)
        }
        routes.post(signedIn: "/logout") { visit, session, _ throws(OAuthError) in
            try await context.write { records in
                if try records.removeSession(session.id, of: session.subject) {
                    try records.note(.signedOut, of: session.subject, session.agent, now: visit.now)
                }
            }
            return .local("/login", browser: BrowserToken())
        }
    }

    /// - Returns: `nil` if name or password is wrong.
    private func signIn(_ visit: Visit, name: String, password: Secret<String>) async throws(OAuthError) -> SignedInBrowser? {
        guard let checked = try await signIn.check(SignInAttempt(name: name, visit), password: password) else { return nil }
        return try await context.write { records in
            // Another password may have been set meanwhile.
            guard try records.password(of: checked.user.subject) == checked.stored else { return nil }
            return try signIn.beginSession(of: checked.user.subject, visit, in: records)
        }
    }
}

/// The page of the issuer that is opened after a sign-in. Any other text becomes the account page, so that no link leads elsewhere.
package struct NextPage: Sendable {
    package let text: String

    package init(_ text: String?) {
        let bytes = Array((text ?? "").utf8)
        let isPlain = bytes.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\\") && $0 != UInt8(ascii: "#") }
        let path = bytes.prefix { $0 != UInt8(ascii: "?") }
        let isKnown = ["/authorize", "/device", "/account"].contains { path.elementsEqual($0.utf8) }
        self.text = isPlain && isKnown && bytes.count <= 4_096 ? text ?? "" : "/account"
    }
}

extension Visit {
    func signInPage(
        next: NextPage,
        name: String = "",
        note: HTML? = nil,
        status: HTTPResponse.Status = .ok
    ) -> PageResponse {
        .page(
            t("signIn.title"),
            """
            \(HTML.note(note))
            \(form(
                "/login",
                """
                \(hidden("next", next.text))
                <label>\(t("signIn.name"))
                <input name="name" value="\(name)" autocomplete="username" autocapitalize="none" required></label>
                <label>\(t("signIn.password"))
                <input type="password" name="password" autocomplete="current-password" required></label>
                """,
                button: t("signIn.do"),
                .primary
            ))
            \(passkeyForm(next: next))
            <p><a href="\(link("/recover"))">\(t("signIn.lost"))</a></p>
            """,
            status: status
        )
    }
}
