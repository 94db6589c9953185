// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Hummingbird
import NIOCore
import RelayProtocol

/// A request of a browser for one of the issuer's pages.
struct Visit: Sendable {
    /// The issuer's URL that the browser used.
    let issuer: String
    let address: VisitAddress
    let browser: BrowserToken
    /// The key of the codes of forms.
    let formKey: SymmetricKey
    /// `nil` if no user has signed in with this browser.
    let session: WebSession?
    /// The secret of the link, while a person sets up how to sign in.
    let setUp: SetUpToken?
    /// The browser's cookie from an earlier sign-in.
    let known: KnownBrowser?
    let networks: ClientNetworks
    let agent: String
    let now: Milliseconds

    /// The code of this browser's forms.
    var formCode: String { browser.formCode(by: formKey) }

    /// Whether the browser may only send its cookies over TLS.
    static func isSecure(_ issuer: String) -> Bool { issuer.utf8.starts(with: "https:".utf8) }

    /// - Parameter place: The path below the issuer's URL, such as `/account`.
    func link(_ place: String) -> String { address.path + place }
}

/// A response for a browser.
struct PageResponse: Sendable {
    enum Content: Sendable {
        case page(title: String, HTML)
        /// Another page of the issuer, such as `/account`.
        case local(String)
        /// A client's redirect URI.
        case redirect(to: String)
    }

    var status: HTTPResponse.Status = .ok
    var content: Content
    /// The new secret of the browser after someone signed in or out.
    var browser: BrowserToken?
    /// The cookie by which the browser is recognised later.
    var known: KnownBrowser?
    /// The link's secret to keep in a cookie; `.some(nil)` removes it.
    var setUp: SetUpToken??
    var retryAfter: Milliseconds?
    /// The CSP source to which forms of this page may lead besides the issuer: the client's redirect URI.
    var formTarget: String?

    static func page(_ title: String, _ body: HTML, status: HTTPResponse.Status = .ok) -> PageResponse {
        PageResponse(status: status, content: .page(title: title, body))
    }

    /// - Parameter place: The path below the issuer's URL, such as `/account`.
    static func local(_ place: String, browser: BrowserToken? = nil, setUp: SetUpToken?? = nil) -> PageResponse {
        PageResponse(status: .seeOther, content: .local(place), browser: browser, setUp: setUp)
    }

    /// Returns a response for a browser in which a user has just signed in.
    static func local(_ place: String, signedIn browser: SignedInBrowser, setUp: SetUpToken?? = nil) -> PageResponse {
        var response = local(place, browser: browser.token, setUp: setUp)
        response.known = browser.known
        return response
    }
}

extension PageResponse {
    init(_ error: OAuthError) {
        self = .page("That did not work", "<p>\(error.description)</p>", status: .init(code: error.status))
        retryAfter = error.retryAfter
    }

    /// - Parameters:
    ///   - address: The address of the request.
    ///   - next: The address of the next page if the browser gets a new secret now.
    ///   - browser: The secret to set if the browser sent none that is valid.
    func response(at address: VisitAddress, next: VisitAddress, browser: BrowserToken?) -> Response {
        var headers: HTTPFields = [.cacheControl: "no-store"]
        let body: ByteBuffer
        var target = address
        switch content {
        case .local(let place):
            if self.browser != nil || setUp != nil { target = next }
            headers[.location] = target.path + place
            body = ByteBuffer()
        case .redirect(let location):
            headers[.location] = location
            body = ByteBuffer()
        case .page(let title, let html):
            headers[.contentType] = "text/html; charset=utf-8"
            body = ByteBuffer(string: Self.document(title, html).text)
        }
        for (name, value) in Self.security(formTarget: formTarget) { headers[name] = value }
        if let retryAfter { headers[.retryAfter] = retryAfter.retryAfterSeconds }
        var cookies: [String] = []
        func set(_ name: String, _ value: String, seconds: Int64, at address: VisitAddress) {
            cookies.append("\(address.cookie(name))=\(value)\(address.attributes(seconds: seconds))")
        }
        if let browser = self.browser ?? browser {
            set(Cookies.browser, browser.text.exposed, seconds: WebSession.wholeLife / 1_000, at: target)
        }
        if let known { set(Cookies.known, known.text.exposed, seconds: KnownBrowser.life / 1_000, at: target) }
        switch setUp {
        case .some(.some(let token)): set(Cookies.setUp, token.text.exposed, seconds: 3_600, at: target)
        case .some(.none): set(Cookies.setUp, "", seconds: 0, at: address)
        case .none: break
        }
        for cookie in cookies { headers.append(.init(name: .setCookie, value: cookie)) }
        return Response(status: status, headers: headers, body: .init(byteBuffer: body))
    }

    enum Cookies {
        static let browser = "relay-browser"
        static let setUp = "relay-set-up"
        static let known = "relay-known"
    }

    /// Returns headers that forbid resources of other parties, framing and inline code. Forms lead only to the issuer and to `formTarget`.
    static func security(formTarget: String?) -> [(HTTPFields.Element.Name, String)] {
        let policy = [
            "default-src 'none'", "style-src 'self'", "script-src 'self'", "base-uri 'none'", "frame-ancestors 'none'",
            "form-action 'self'\(formTarget.map { " " + $0 } ?? "")",
        ]
        var fields: [(HTTPFields.Element.Name, String)] = [
            (.contentSecurityPolicy, policy.joined(separator: "; ")), (.xContentTypeOptions, "nosniff"),
        ]
        // `no-referrer` would make browsers send `Origin: null` with forms.
        for (name, value) in [
            ("X-Frame-Options", "DENY"), ("Referrer-Policy", "same-origin"), ("Cross-Origin-Opener-Policy", "same-origin"),
        ] {
            if let name = HTTPFields.Element.Name(name) { fields.append((name, value)) }
        }
        return fields
    }

    private static func document(_ title: String, _ body: HTML) -> HTML {
        """
        <!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>\(title) · Device Relay</title>
        <link rel="stylesheet" href="\(Issuer.path)/style.css">
        </head>
        <body>
        <main>
        <h1>\(title)</h1>
        \(body)
        </main>
        </body>
        </html>

        """
    }

    static let style = """
        :root { color-scheme: light dark; font: 100%/1.5 system-ui, sans-serif; }
        body { margin: 0; padding: 1rem; }
        main { max-width: 32rem; margin: 0 auto; }
        h1 { font-size: 1.5rem; }
        h2 { font-size: 1.15rem; margin-top: 2rem; }
        label { display: block; margin: 1rem 0; }
        input { box-sizing: border-box; display: block; width: 100%; padding: .6rem; font: inherit; }
        input[type=checkbox] { display: inline; width: auto; margin: 0 .4rem 0 0; }
        input, button { border: 1px solid; border-radius: .4rem; }
        button { padding: .6rem 1.2rem; font: inherit; margin: .25rem .5rem .25rem 0; cursor: pointer; }
        .destructive { background: #b3261e; border-color: #b3261e; color: #fff; }
        ul { list-style: none; padding: 0; }
        li { border-top: 1px solid; padding: .5rem 0; overflow-wrap: anywhere; }
        .note { border-left: .3rem solid; padding-left: .7rem; }
        .code { font: 1.4rem ui-monospace, monospace; letter-spacing: .1em; }
        [hidden] { display: none; }

        """
}

extension Visit {
    /// Returns a form of this browser.
    /// - Parameter action: The path below the issuer's URL, such as `/login`.
    func form(_ action: String, _ fields: HTML = "", button: String) -> HTML {
        form(action, fields, buttons: "<button type=\"submit\">\(button)</button>")
    }

    /// Returns a form whose button does something that cannot be undone.
    func destructiveForm(_ action: String, _ fields: HTML = "", button: String) -> HTML {
        form(action, fields, buttons: "<button type=\"submit\" class=\"destructive\">\(button)</button>")
    }

    /// Returns a page that asks for a confirmation before a form of the account page is carried out.
    /// - Parameters:
    ///   - question: What the form does, and what it affects.
    ///   - fields: The fields of the form that identify what it affects.
    func confirmation(_ action: String, _ fields: (name: String, value: String)..., question: HTML, button: String) -> PageResponse {
        .page(
            "Are you sure?",
            """
            <p>\(question)</p>
            \(destructiveForm(action, "\(fields.map { hidden($0.name, $0.value) })\(hidden("confirmed", "yes"))", button: button))
            <p><a href="\(link("/account"))">No, go back</a></p>
            """
        )
    }

    func form(_ action: String, _ fields: HTML = "", buttons: HTML) -> HTML {
        """
        <form method="post" action="\(link(action))">
        \(hidden("form_code", formCode))\(fields)
        \(buttons)
        </form>
        """
    }

    func hidden(_ name: String, _ value: String) -> HTML { "<input type=\"hidden\" name=\"\(name)\" value=\"\(value)\">" }
}

extension HTML {
    static func list(_ items: [HTML]) -> HTML { items.isEmpty ? "<p>None.</p>" : "<ul>\(items)</ul>" }

    /// Returns a hidden field with the name, which password managers read.
    static func userName(of user: IssuerUser) -> HTML {
        "<input name=\"username\" value=\"\(user.name)\" autocomplete=\"username\" hidden>"
    }

    /// Returns the fields for a new password: the hidden name, and the password twice.
    static func newPassword(of user: IssuerUser) -> HTML {
        """
        \(userName(of: user))
        <label>New password, at least \(PasswordRule.minimumCharacters) characters
        <input type="password" name="password" autocomplete="new-password" required></label>
        <label>The same password again
        <input type="password" name="repeated" autocomplete="new-password" required></label>
        """
    }
}

extension Milliseconds {
    var retryAfterSeconds: String { "\(max(1, (count + 999) / 1_000))" }
}
