// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Hummingbird
import RelayProtocol

/// The pages on which a user allows a device that has no browser (RFC 8628 §3.3).
struct DevicePages: Sendable {
    let devices: DeviceAuthorizations

    func add<Context: RequestContext>(to routes: IssuerRoutes<Context, some RouterMethods<Context>>) {
        routes.get("/device") { visit, query in
            let typed = query["user_code"] ?? ""
            guard visit.session != nil else {
                return visit.signInPage(next: NextPage(UserCode(typed: typed).map { "/device?user_code=" + $0.text } ?? "/device"))
            }
            return codePage(visit, typed: typed)
        }
        routes.post(signedIn: "/device") { visit, session, form throws(OAuthError) in
            let typed = form["user_code"] ?? ""
            guard let found = try await devices.pending(userCode: typed, for: session.subject, now: visit.now) else {
                return codePage(
                    visit,
                    typed: typed,
                    note: visit.t("device.unknownCode"),
                    status: .badRequest
                )
            }
            return confirmationPage(visit, found)
        }
        routes.post(signedIn: "/device/decision") { visit, session, form throws(OAuthError) in
            guard let code = form["request"].flatMap(Base64.url.decode).flatMap(Digest256.init(bytes:)) else { throw DevicePages.isGone }
            let isAllowed = form["decision"] == "allow"
            let decision: DeviceAuthorization.Decision = isAllowed ? .allowed(subject: session.subject) : .denied
            guard try await devices.decide(code, decision, now: visit.now) else { throw DevicePages.isGone }
            return isAllowed
                ? .page(visit.t("device.done.title"), "<p>\(visit.t("device.done.text"))</p>")
                : .page(visit.t("device.denied.title"), "<p>\(visit.t("device.denied.text"))</p>")
        }
    }

    private static let isGone = OAuthError(.invalidRequest, PageText("error.deviceCodeGone"))

    private func codePage(_ visit: Visit, typed: String, note: HTML? = nil, status: HTTPResponse.Status = .ok) -> PageResponse {
        .page(
            visit.t("device.title"),
            """
            \(HTML.note(note))
            \(visit.form(
                "/device",
                """
                <label>\(visit.t("device.code"))
                <input class="code" name="user_code" value="\(typed)" autocomplete="off" autocapitalize="characters" spellcheck="false"
                required></label>
                """,
                button: visit.t("continue"),
                .primary
            ))
            """,
            status: status
        )
    }

    private func confirmationPage(_ visit: Visit, _ found: DeviceAuthorization) -> PageResponse {
        func shown(_ text: String) -> HTML { text.isEmpty ? visit.t("device.notNamed") : "\(text)" }
        return .page(
            visit.t("device.confirm.title"),
            """
            <dl class="facts">
            <dt>\(visit.t("device.name"))</dt><dd><strong>\(shown(found.device))</strong></dd>
            <dt>\(visit.t("device.app"))</dt><dd><strong>\(visit.words.app(found.client))</strong></dd>
            <dt>\(visit.t("device.platform"))</dt><dd><strong>\(shown(found.platform))</strong></dd>
            </dl>
            <p class="note alarm">\(visit.t("device.warning"))</p>
            <p>\(visit.t("may"))</p>
            \(visit.words.list(found.scopes))
            \(visit.form(
                "/device/decision",
                visit.hidden("request", Base64.url.encode(found.code.bytes)),
                buttons: """
                \(HTML.button(visit.t("device.allow"), .primary, ("decision", "allow")))
                \(HTML.button(visit.t("deny"), .plain, ("decision", "deny")))
                """
            ))
            """
        )
    }
}
