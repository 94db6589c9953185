// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import RelayLog
import RelayProtocol
import Synchronization

/// Sign-in and sign-out at the pages.
extension Issuer {
    func addSignInPages<Context: RequestContext>(to pages: Pages<Context, some RouterMethods<Context>>) {
        pages.get("/login") { [self] visit, query in
            let next = Place(query["next"])
            return visit.session == nil ? signInPage(visit, next: next) : .local(next.text)
        }
        pages.post("/login") { [self] visit, form throws(OAuthError) in
            let next = Place(form["next"])
            let name = form["name"] ?? ""
            let signedIn = try await signingIn(by: .password, account: name, visit) { () async throws(OAuthError) in
                try await signIn(visit, name: name, password: Secret(form["password"] ?? ""))
            }
            guard let session = signedIn else {
                return signInPage(visit, next: next, name: name, note: "The name or the password is wrong.", status: .unauthorized)
            }
            return .local(next.text, signedIn: session)
        }
        pages.post(signedIn: "/logout") { [self] visit, session, _ throws(OAuthError) in
            try await answering { () async throws(IssuerError) in
                try await store.write { records in
                    if try records.removeSession(session.id, of: session.subject) {
                        try records.note(.signedOut, of: session.subject, session.agent, now: visit.now)
                    }
                }
            }
            return .local("/login", browser: BrowserToken())
        }
    }

    /// The page of the issuer that is opened after a sign-in. Any other text becomes the account page, so that no link leads elsewhere.
    package struct Place: Sendable {
        package let text: String

        package init(_ text: String?) {
            let bytes = Array((text ?? "").utf8)
            let isPlain = bytes.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\\") && $0 != UInt8(ascii: "#") }
            let path = bytes.prefix { $0 != UInt8(ascii: "?") }
            let isKnown = ["/authorize", "/device", "/account"].contains { path.elementsEqual($0.utf8) }
            self.text = isPlain && isKnown && bytes.count <= 4_096 ? text ?? "" : "/account"
        }
    }

    func signInPage(
        _ visit: Visit,
        next: Place,
        name: String = "",
        note: String? = nil,
        status: HTTPResponse.Status = .ok
    ) -> PageResponse {
        .page(
            "Sign in",
            """
            \(note.map { "<p class=\"note\" role=\"alert\">\($0)</p>" })
            \(visit.form(
                "/login",
                """
                \(visit.hidden("next", next.text))
                <label>Name
                <input name="name" value="\(name)" autocomplete="username" autocapitalize="none" required></label>
                <label>Password
                <input type="password" name="password" autocomplete="current-password" required></label>
                """,
                button: "Sign in"
            ))
            \(passkeyForm(visit, next: next))
            <p><a href="\(visit.link("/recover"))">I have lost my password</a></p>
            """,
            status: status
        )
    }

    /// - Returns: `nil` if name or password is wrong.
    private func signIn(_ visit: Visit, name: String, password: Secret<String>) async throws(OAuthError) -> SignedInBrowser? {
        guard let checked = try await check(SignInAttempt(name: name, visit), password: password) else { return nil }
        return try await answering { [self] () async throws(IssuerError) in
            try await store.write { [self] records in
                // Another password may have been set meanwhile.
                guard try records.password(of: checked.user.subject) == checked.stored else { return nil }
                return try beginSession(of: checked.user.subject, visit, in: records)
            }
        }
    }

    /// Signs a user in, with a new secret for the browser. The browser's former session ends.
    func beginSession(of subject: String, _ visit: Visit, in records: any IssuerTransaction) throws -> SignedInBrowser {
        let token = BrowserToken()
        if let former = visit.session { _ = try records.removeSession(former.id, of: former.subject) }
        try records.insert(WebSession(id: token.session, subject: subject, agent: visit.agent, created: visit.now, used: visit.now))
        try records.note(.signedIn, of: subject, visit.agent, now: visit.now)
        return SignedInBrowser(token: token, known: KnownBrowser(of: subject, by: master.knownBrowserKey, after: visit.known))
    }

    func hashing<Result>(_ body: () async throws(PasswordHasher.Rejection) -> Result) async throws(OAuthError) -> Result {
        do throws(PasswordHasher.Rejection) {
            return try await body()
        } catch {
            switch error {
            case .busy:
                throw OAuthError(
                    .temporarilyUnavailable,
                    "Too many people sign in at this moment. Try again in a few seconds.",
                    status: 503,
                    retryAfter: 5_000
                )
            case .tooSoon(let wait): throw Issuer.tooManyAttempts(wait)
            }
        }
    }

    static func tooManyAttempts(_ wait: Milliseconds) -> OAuthError {
        OAuthError(
            .temporarilyUnavailable,
            "There were too many failed attempts. Try again in \(wait.retryAfterSeconds) seconds.",
            status: 429,
            retryAfter: wait
        )
    }
}
