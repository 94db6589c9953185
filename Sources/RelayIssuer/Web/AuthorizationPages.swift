// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Hummingbird
import RelayProtocol

/// The authorization endpoint (RFC 6749 §3.1): the page on which a user lets an app in.
struct AuthorizationPages: Sendable {
    let context: IssuerContext

    func add<Context: RequestContext>(to routes: IssuerRoutes<Context, some RouterMethods<Context>>) {
        routes.get("/authorize") { visit, query throws(OAuthError) in
            switch try authorizationRequest(query, visit) {
            case .refused(let location, let place, let reason):
                // Anyone can register a client, so this page leads to a client's address only by a click (RFC 9700 §4.11.2).
                return .page(
                    visit.t("app.refused.title"),
                    """
                    <p>\(visit.t("app.refused.text", ["reason": .english(reason)]))</p>
                    <p><a href="\(location)">\(visit.t("app.refused.back", ["place": visit.words.html(place)]))</a></p>
                    """,
                    status: .badRequest
                )
            case .request(let request):
                guard let session = visit.session else { return visit.signInPage(next: NextPage("/authorize?" + query.encoded)) }
                return try await consentPage(visit, session, request, query)
            }
        }
        routes.post(signedIn: "/authorize") { visit, session, form throws(OAuthError) in
            let query = try Form(parsing: Array(try form.required("request").utf8))
            guard case .request(let request) = try authorizationRequest(query, visit) else {
                throw OAuthError(.invalidRequest, PageText("error.appDamaged"))
            }
            var answer = [("error", OAuthError.Code.accessDenied.rawValue)]
            if form["decision"] == "allow" {
                answer = [("code", try await makeCode(for: session, request, now: visit.now).exposed)]
            }
            let location = AuthorizationRequest.response(request.redirect, state: request.state, issuer: visit.issuer, answer)
            return PageResponse(status: .seeOther, content: .redirect(to: location))
        }
    }

    private func authorizationRequest(_ query: Form, _ visit: Visit) throws(OAuthError) -> AuthorizationRequest.Outcome {
        try AuthorizationRequest.read(query, issuer: visit.issuer, key: context.master.clientKey)
    }

    private func consentPage(
        _ visit: Visit,
        _ session: WebSession,
        _ request: AuthorizationRequest,
        _ query: Form
    ) async throws(OAuthError) -> PageResponse {
        let user = try await context.read { try $0.user(session.subject) }
        let app = visit.words.app(request.client.id)
        var page = PageResponse.page(
            visit.t("app.title"),
            """
            <p>\(visit.t("app.wants", ["app": app, "name": "<strong>\(user?.name ?? "")</strong>"]))</p>
            <p class="note alarm">\(visit.t("app.warning", ["place": visit.words.html(request.redirect.place)]))</p>
            <p>\(visit.t("may"))</p>
            \(visit.words.list(request.scopes))
            \(visit.form(
                "/authorize",
                visit.hidden("request", query.encoded),
                buttons: """
                \(HTML.button(visit.t("app.allow"), .primary, ("decision", "allow")))
                \(HTML.button(visit.t("deny"), .plain, ("decision", "deny")))
                """
            ))
            """
        )
        page.formTarget = request.redirect.policySource
        return page
    }

    private func makeCode(for session: WebSession, _ request: AuthorizationRequest, now: Milliseconds) async throws(OAuthError)
        -> Secret<String>
    {
        let text = Secret(Base64.url.encode(randomBytes(32)))
        let code = AuthorizationCode(
            code: Digest256(hashing: Array(text.exposed.utf8)),
            subject: session.subject,
            client: request.client.id,
            redirect: request.redirect.text,
            challenge: request.challenge,
            scopes: request.scopes,
            expires: Milliseconds(clamping: now.count + AuthorizationCode.life)
        )
        try await context.write { records in
            try records.forget(before: now)
            try records.insert(code)
        }
        return text
    }
}
