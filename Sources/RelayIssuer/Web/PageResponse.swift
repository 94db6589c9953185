// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Crypto
import Foundation
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
    /// In the person's language.
    let words: PageWords
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
        case page(title: HTML, Layout, HTML)
        /// Another page of the issuer, such as `/account`.
        case local(String)
        /// A client's redirect URI.
        case redirect(to: String)
    }

    enum Layout: Sendable {
        /// One card with all that the page has.
        case card
        /// One card that asks before something happens that cannot be undone.
        case question
        /// The page divides itself into cards.
        case cards
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

    static func page(_ title: HTML, _ body: HTML, layout: Layout = .card, status: HTTPResponse.Status = .ok) -> PageResponse {
        PageResponse(status: status, content: .page(title: title, layout, body))
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
    init(_ error: OAuthError, _ words: PageWords) {
        let text = error.text.map(words.html) ?? .english(error.description)
        self = .page(words.html("failed.title"), "<p>\(text)</p>", status: .init(code: error.status))
        retryAfter = error.retryAfter
    }

    /// - Parameters:
    ///   - site: Where the page comes from.
    ///   - address: The address of the request.
    ///   - next: The address of the next page if the browser gets a new secret now.
    ///   - browser: The secret to set if the browser sent none that is valid.
    ///   - language: The language of the page.
    func response(
        of site: PageSite,
        at address: VisitAddress,
        next: VisitAddress,
        browser: BrowserToken?,
        in language: PageLanguage
    ) -> Response {
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
        case .page(let title, let layout, let html):
            headers[.contentType] = "text/html; charset=utf-8"
            headers[.contentLanguage] = language.rawValue
            headers[.vary] = "Accept-Language"
            body = ByteBuffer(string: Self.document(title, layout, html, of: site, in: language).text)
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
            "default-src 'none'", "style-src 'self'", "script-src 'self'", "img-src 'self'", "base-uri 'none'", "frame-ancestors 'none'",
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

    private static func document(
        _ title: HTML,
        _ layout: Layout,
        _ body: HTML,
        of site: PageSite,
        in language: PageLanguage
    ) -> HTML {
        let content: HTML =
            switch layout {
            case .card: "<div class=\"card slim\">\n<h1>\(title)</h1>\n\(body)\n</div>"
            case .question: "<div class=\"card slim question\">\n<h1>\(title)</h1>\n\(body)\n</div>"
            case .cards: "<h1>\(title)</h1>\n\(body)"
            }
        return """
            <!doctype html>
            <html lang="\(language.rawValue)">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <title>\(title) · \(PageParts.product)</title>
            <link rel="stylesheet" href="\(Issuer.path)/style.css">
            <link rel="icon" type="image/svg+xml" href="\(Issuer.path)/mark.svg">
            </head>
            <body>
            \(site.header)
            <main>
            \(content)
            </main>
            </body>
            </html>

            """
    }
}

/// Where a page comes from: its header says so.
struct PageSite: Sendable {
    /// The issuer's URL that the browser used.
    var issuer: String
    /// Who runs the relay, if the operator says so.
    var operatorName: String?

    var header: HTML {
        let host = Origin(String(issuer.dropLast(Issuer.path.count)))?.authority
        return HTML(verbatim: PageParts.header(host: host.map(HTML.escape), operatorName: operatorName.map(HTML.escape)))
    }
}

extension Visit {
    /// Returns a form of this browser.
    /// - Parameter action: The path below the issuer's URL, such as `/login`.
    func form(_ action: String, _ fields: HTML = "", button: HTML, _ look: ButtonLook = .plain) -> HTML {
        form(action, fields, buttons: .button(button, look))
    }

    /// Returns a page that asks for a confirmation before a form of the account page is carried out.
    /// - Parameters:
    ///   - question: What the form does, and what it affects.
    ///   - fields: The fields of the form that identify what it affects.
    func confirmation(_ action: String, _ fields: (name: String, value: String)..., question: HTML, button: HTML) -> PageResponse {
        .page(
            t("confirm.title"),
            """
            <p>\(question)</p>
            \(form(action, "\(fields.map { hidden($0.name, $0.value) })\(hidden("confirmed", "yes"))", button: button, .destructive))
            <p><a href="\(link("/account"))">\(t("confirm.back"))</a></p>
            """,
            layout: .question
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

    /// Things of one kind.
    func rows(_ rows: [HTML]) -> HTML { rows.isEmpty ? "<p class=\"quiet\">\(t("none"))</p>" : "<ul class=\"rows\">\(rows)</ul>" }

    /// An id, for those who need it.
    func details(_ name: HTML, _ id: String) -> HTML {
        "<details><summary>\(t("details"))</summary><span>\(name) <code>\(id)</code></span></details>"
    }

    /// Returns the fields for a new password: the hidden name, and the password twice.
    func newPassword(of user: IssuerUser) -> HTML {
        """
        \(HTML.userName(of: user))
        <label>\(t("password.new", ["characters": "\(PasswordRule.minimumCharacters)"]))
        <input type="password" name="password" autocomplete="new-password" required></label>
        <label>\(t("password.again"))
        <input type="password" name="repeated" autocomplete="new-password" required></label>
        """
    }

    func hidden(_ name: String, _ value: String) -> HTML { "<input type=\"hidden\" name=\"\(name)\" value=\"\(value)\">" }
}

/// How much a button weighs.
enum ButtonLook: Sendable {
    case plain
    /// What most people come to the page for.
    case primary
    /// What cannot be undone.
    case destructive
}

extension HTML {
    /// - Parameter choice: The name and value that the form sends with this button.
    static func button(_ text: HTML, _ look: ButtonLook = .plain, _ choice: (name: String, value: String)? = nil) -> HTML {
        let attributes: HTML? = choice.map { " name=\"\($0.name)\" value=\"\($0.value)\"" }
        let kind: HTML? =
            switch look {
            case .plain: nil
            case .primary: " class=\"primary\""
            case .destructive: " class=\"destructive\""
            }
        return "<button type=\"submit\"\(attributes)\(kind)>\(text)</button>"
    }

    static func note(_ text: HTML?) -> HTML? { text.map { "<p class=\"note\" role=\"alert\">\($0)</p>" } }

    /// A part of a page, with its own heading.
    static func card(_ title: HTML, _ body: HTML) -> HTML { "<section class=\"card\">\n<h2>\(title)</h2>\n\(body)\n</section>" }

    /// One thing of a list.
    /// - Parameters:
    ///   - icon: Any text; the kind of a device or another name of an icon shows what it is.
    ///   - name: Its heading.
    ///   - lines: More about it.
    ///   - form: What can be done with it.
    static func row(_ icon: String, _ name: HTML, _ lines: HTML..., form: HTML? = nil) -> HTML {
        """
        <li class="row">\(HTML(verbatim: PageParts.icon(icon)))
        <div class="what"><span class="name">\(name)</span>
        \(lines.filter { !$0.text.isEmpty }.map { "<div class=\"meta\">\($0)</div>" as HTML })</div>
        \(form)</li>
        """
    }

    /// A time in UTC, which a script shows in the reader's zone.
    static func time(_ time: Milliseconds) -> HTML {
        let style = Date.ISO8601FormatStyle(dateTimeSeparator: .space)
        let text = Date(timeIntervalSince1970: Double(time.count / 1_000)).formatted(style)
        return "<time datetime=\"\(text.replacing(" ", with: "T"))\">\(text.replacing("Z", with: " UTC"))</time>"
    }

    /// Loads the script that shows times in the reader's zone.
    static let timeScript: HTML = "<script src=\"\(Issuer.path)/times.js\" defer></script>"

    /// Returns a hidden field with the name, which password managers read.
    static func userName(of user: IssuerUser) -> HTML {
        "<input name=\"username\" value=\"\(user.name)\" autocomplete=\"username\" hidden>"
    }

}

extension Milliseconds {
    var retryAfterSeconds: String { "\(max(1, (count + 999) / 1_000))" }
}
