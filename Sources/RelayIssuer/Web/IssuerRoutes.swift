// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Hummingbird
import NIOCore
import RelayProtocol

/// Adds endpoints and pages to a router. The pages work without JavaScript.
struct IssuerRoutes<Context: RequestContext, Router: RouterMethods<Context>> {
    let context: IssuerContext
    let limits: IssuerLimits
    let router: Router
    /// Returns the networks under which a client's failures are counted.
    let networks: @Sendable (Request, Context) -> ClientNetworks

    // MARK: Endpoints for programs

    /// Adds an endpoint that answers with JSON.
    /// - Parameter place: The path below the issuer's URL, such as `/token`.
    func endpoint(_ place: String, _ body: @escaping @Sendable (Request, ClientNetworks) async throws(OAuthError) -> Response) {
        router.post(RouterPath(Issuer.path + place)) { [limits, networks] request, context in
            let client = networks(request, context)
            return await Response.answering { () async throws(OAuthError) in
                try await limits.serve(client) { () async throws(OAuthError) in try await body(request, client) }
            }
        }
    }

    // MARK: Pages

    /// - Parameter place: The path below the issuer's URL, such as `/login`.
    func get(_ place: String, _ body: @escaping @Sendable (Visit, Form) async throws(OAuthError) -> PageResponse) {
        let visits = Visits(context: context, limits: limits)
        for path in ["", VisitAddress.pattern] {
            router.get(RouterPath(Issuer.path + path + place)) { [networks] request, context in
                let site = visits.context.url(for: request)
                guard let address = VisitAddress(at: site, key: context.parameters.get(VisitAddress.parameter)) else {
                    let query = request.uri.query.map { "?" + $0 } ?? ""
                    let location = VisitAddress.new(at: site).path + place + query
                    return Response(status: .seeOther, headers: [.location: location, .cacheControl: "no-store"])
                }
                return await visits.answer(request, at: address, networks(request, context)) { visit, _ throws(OAuthError) in
                    try await body(visit, Form(parsing: Array((request.uri.query ?? "").utf8)))
                }
            }
        }
    }

    /// Adds the handler of a form. Only a form that this browser was given is accepted.
    func post(_ place: String, _ body: @escaping @Sendable (Visit, Form) async throws(OAuthError) -> PageResponse) {
        let visits = Visits(context: context, limits: limits)
        for path in ["", VisitAddress.pattern] {
            router.post(RouterPath(Issuer.path + path + place)) { [networks] request, context in
                let site = visits.context.url(for: request)
                let address = VisitAddress(at: site, key: context.parameters.get(VisitAddress.parameter))
                return await visits.answer(request, at: address ?? .new(at: site), networks(request, context)) {
                    visit,
                    hasCookie throws(OAuthError) in
                    guard address != nil else { throw .formIsOutOfDate }
                    let form = try await request.form()
                    // SameSite=Lax alone does not stop forms from another port or scheme of this host.
                    guard hasCookie, request.values(of: "origin").allSatisfy({ $0 + Issuer.path == visit.issuer }),
                        visit.browser.accepts(form["form_code"], by: visit.formKey)
                    else { throw .formIsOutOfDate }
                    return try await body(visit, form)
                }
            }
        }
    }

    /// Adds the handler of a form that needs a signed-in user.
    func post(
        signedIn place: String,
        _ body: @escaping @Sendable (Visit, WebSession, Form) async throws(OAuthError) -> PageResponse
    ) {
        post(place) { visit, form throws(OAuthError) in
            guard let session = visit.session else { return .local("/login") }
            return try await body(visit, session, form)
        }
    }

    /// Adds the handler of a form that needs a user who has signed in recently.
    func post(
        recentlySignedIn place: String,
        _ body: @escaping @Sendable (Visit, WebSession, Form) async throws(OAuthError) -> PageResponse
    ) {
        post(signedIn: place) { visit, session, form throws(OAuthError) in
            guard session.isFresh(at: visit.now) else { throw .signInAgain }
            return try await body(visit, session, form)
        }
    }

    /// Adds a file that pages use.
    func file(_ file: ConsoleFile) {
        let headers: HTTPFields = [
            .contentType: file.mediaType, .cacheControl: "public, max-age=3600", .xContentTypeOptions: "nosniff",
            // An image that is opened as a page of its own gets no rights.
            .contentSecurityPolicy: "default-src 'none'; style-src 'unsafe-inline'; sandbox",
        ]
        let body = ByteBuffer(bytes: file.bytes)
        router.get(RouterPath("\(Issuer.path)/\(file.path)")) { _, _ in
            Response(status: .ok, headers: headers, body: .init(byteBuffer: body))
        }
    }
}

extension OAuthError {
    fileprivate static let formIsOutOfDate = OAuthError(
        .accessDenied,
        PageText("error.formOutOfDate"),
        status: 403
    )

    static let signInAgain = OAuthError(
        .accessDenied,
        PageText("error.signInAgain"),
        status: 403
    )
}

/// Makes the visits of browsers, and their responses.
private struct Visits: Sendable {
    let context: IssuerContext
    let limits: IssuerLimits

    /// - Parameter body: Is called with the visit, and whether the browser sent its cookie.
    func answer(
        _ request: Request,
        at address: VisitAddress,
        _ networks: ClientNetworks,
        _ body: (Visit, Bool) async throws(OAuthError) -> PageResponse
    ) async -> Response {
        let issuer = context.url(for: request)
        let words = PageWords(accepting: request.headers[.acceptLanguage])
        func cookie(_ name: String) -> String? { request.cookies[address.cookie(name)]?.value }
        let known = cookie(PageResponse.Cookies.browser).flatMap(BrowserToken.init(parsing:))
        let browser = known ?? BrowserToken()
        var answer: PageResponse
        do throws(OAuthError) {
            answer = try await limits.serve(networks) { () async throws(OAuthError) in
                let visit = Visit(
                    issuer: issuer,
                    address: address,
                    browser: browser,
                    formKey: context.master.formKey,
                    session: known == nil ? nil : try await session(of: browser),
                    setUp: cookie(PageResponse.Cookies.setUp).flatMap(SetUpToken.init(parsing:)),
                    known: cookie(PageResponse.Cookies.known).flatMap(KnownBrowser.init(parsing:)),
                    networks: networks,
                    agent: request.agent,
                    words: words,
                    now: context.now()
                )
                let answer = try await body(visit, known != nil)
                // A form that is shown again with an error counts as a failed request.
                if (400..<500).contains(answer.status.code) { try limits.countFailure(networks) }
                return answer
            }
        } catch {
            answer = PageResponse(error, words)
        }
        let site = PageSite(issuer: issuer, operatorName: context.operatorName)
        let secret = known == nil ? browser : nil
        return answer.response(of: site, at: address, next: .new(at: issuer), browser: secret, in: words.language)
    }

    private func session(of browser: BrowserToken) async throws(OAuthError) -> WebSession? {
        let now = context.now()
        guard let session = try await context.read({ try $0.session(browser.session) }), !session.isOver(at: now) else { return nil }
        if now.count - session.used.count >= 60_000 { try await context.write { try $0.setUsed(session.id, at: now) } }
        return session
    }
}
