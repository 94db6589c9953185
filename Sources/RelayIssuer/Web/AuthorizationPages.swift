// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

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
                    "The app's request is not right",
                    """
                    <p>The app that sent you here asked in a way that this relay does not know: \(reason).</p>
                    <p><a href="\(location)">Back to \(place)</a></p>
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
                throw OAuthError(.invalidRequest, "The app's request is damaged. Start again in the app.")
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
        var page = PageResponse.page(
            "Let an app in?",
            """
            <p>\(request.client.name.isEmpty ? "An app" : request.client.name) wants to use this relay as <strong>\(user?.name ?? "")</strong>.</p>
            <p class="note alarm">This app's name is not verified. The answer goes to \(request.redirect.place). Allow it only if you have just
            started to sign in there.</p>
            <p>It may:</p>
            <ul>\(request.scopes.explanations.map { "<li>\($0)</li>" as HTML })</ul>
            \(visit.form(
                "/authorize",
                visit.hidden("request", query.encoded),
                buttons: """
                \(HTML.button("Allow", .primary, ("decision", "allow")))
                \(HTML.button("Do not allow", .plain, ("decision", "deny")))
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

extension Scopes {
    /// What the scopes allow, for people.
    var explanations: [String] {
        names.map { name in
            switch name {
            case Scopes.offlineAccess: "stay signed in"
            case "relay.device.read": "see your devices"
            case "relay.device.register": "become one of your devices, and invite others"
            case "relay.command": "open links on your devices, and talk to their apps"
            case "relay.push": "be woken by notifications"
            default: name
            }
        }
    }
}
