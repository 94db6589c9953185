// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import NIOCore
import RelayProtocol

/// The issuer's pages. They work without JavaScript.
extension Issuer {
    /// Adds pages to a router.
    struct Pages<Context: RequestContext, Router: RouterMethods<Context>> {
        let issuer: Issuer
        let router: Router
        let networks: @Sendable (Request, Context) -> ClientNetworks

        /// - Parameter place: The path below the issuer's URL, such as `/login`.
        func get(_ place: String, _ body: @escaping @Sendable (Visit, Form) async throws(OAuthError) -> PageResponse) {
            for path in ["", VisitAddress.pattern] {
                router.get(RouterPath(Issuer.path + path + place)) { [issuer, networks] request, context in
                    let site = issuer.url(for: request)
                    guard let address = VisitAddress(at: site, key: context.parameters.get(VisitAddress.parameter)) else {
                        let query = request.uri.query.map { "?" + $0 } ?? ""
                        let location = VisitAddress.new(at: site).path + place + query
                        return Response(status: .seeOther, headers: [.location: location, .cacheControl: "no-store"])
                    }
                    return await issuer.page(request, at: address, networks(request, context)) { visit, _ throws(OAuthError) in
                        try await body(visit, Form(parsing: Array((request.uri.query ?? "").utf8)))
                    }
                }
            }
        }

        /// Adds the handler of a form. Only a form that this browser was given is accepted.
        func post(_ place: String, _ body: @escaping @Sendable (Visit, Form) async throws(OAuthError) -> PageResponse) {
            for path in ["", VisitAddress.pattern] {
                router.post(RouterPath(Issuer.path + path + place)) { [issuer, networks] request, context in
                    let site = issuer.url(for: request)
                    let address = VisitAddress(at: site, key: context.parameters.get(VisitAddress.parameter))
                    return await issuer.page(request, at: address ?? .new(at: site), networks(request, context)) {
                        visit,
                        hasCookie throws(OAuthError) in
                        guard address != nil else { throw Issuer.formIsOutOfDate }
                        let form = try await Issuer.form(of: request)
                        let origins = Issuer.values(of: "origin", in: request)
                        // SameSite=Lax alone does not stop forms from another port or scheme of this host.
                        guard hasCookie, origins.allSatisfy({ $0 + Issuer.path == visit.issuer }),
                            visit.browser.accepts(form["form_code"], by: issuer.master.formKey)
                        else { throw Issuer.formIsOutOfDate }
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
    }

    private static let formIsOutOfDate = OAuthError(
        .accessDenied,
        "This form is out of date, or this browser does not keep cookies. Go back, load the page again, and retry.",
        status: 403
    )

    /// - Parameter body: Is called with the visit, and whether the browser sent its cookie.
    private func page(
        _ request: Request,
        at address: VisitAddress,
        _ networks: ClientNetworks,
        _ body: (Visit, Bool) async throws(OAuthError) -> PageResponse
    ) async -> Response {
        let issuer = url(for: request)
        func cookie(_ name: String) -> String? { request.cookies[address.cookie(name)]?.value }
        let known = cookie(PageResponse.Cookies.browser).flatMap(BrowserToken.init(parsing:))
        let browser = known ?? BrowserToken()
        var answer: PageResponse
        do throws(OAuthError) {
            answer = try await serve(networks) { () async throws(OAuthError) in
                let visit = Visit(
                    issuer: issuer,
                    address: address,
                    browser: browser,
                    formCode: browser.formCode(by: master.formKey),
                    session: known == nil ? nil : try await session(of: browser),
                    setUp: cookie(PageResponse.Cookies.setUp).flatMap(SetUpToken.init(parsing:)),
                    known: cookie(PageResponse.Cookies.known).flatMap(KnownBrowser.init(parsing:)),
                    networks: networks,
                    agent: BrowserName.of(Issuer.values(of: "user-agent", in: request).first ?? ""),
                    now: now()
                )
                let answer = try await body(visit, known != nil)
                // A form that is shown again with an error counts as a failed request.
                if (400..<500).contains(answer.status.code), let wait = countFailure(networks) { throw Issuer.tooManyFailures(wait) }
                return answer
            }
        } catch {
            answer = PageResponse(error)
        }
        return answer.response(at: address, next: .new(at: issuer), browser: known == nil ? browser : nil)
    }

    private func session(of browser: BrowserToken) async throws(OAuthError) -> WebSession? {
        let now = now()
        return try await answering { () async throws(IssuerError) in
            guard let session = try await store.read({ try $0.session(browser.session) }), !session.isOver(at: now) else { return nil }
            if now.count - session.used.count >= 60_000 { try await store.write { try $0.setUsed(session.id, at: now) } }
            return session
        }
    }

    func addPages<Context: RequestContext>(
        to router: some RouterMethods<Context>,
        networks: @escaping @Sendable (Request, Context) -> ClientNetworks
    ) {
        let pages = Pages(issuer: self, router: router, networks: networks)
        addSignInPages(to: pages)
        addSetUpPages(to: pages)
        addAccountPages(to: pages)
        addOwnDevicePages(to: pages)
        addPasskeyPages(to: pages)
        addRecoveryPages(to: pages)
        addAuthorizationPages(to: pages)
        addDevicePages(to: pages)
        // People type only the relay's name.
        for place in ["/", Issuer.path] {
            router.get(RouterPath(place)) { _, _ in
                Response(status: .seeOther, headers: [.location: Issuer.path + "/account", .cacheControl: "no-store"])
            }
        }
        router.get(RouterPath("\(Issuer.path)/style.css")) { _, _ in
            Response(
                status: .ok,
                headers: [.contentType: "text/css; charset=utf-8", .cacheControl: "public, max-age=3600", .xContentTypeOptions: "nosniff"],
                body: .init(byteBuffer: ByteBuffer(string: PageResponse.style))
            )
        }
    }
}
