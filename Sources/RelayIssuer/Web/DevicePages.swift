// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

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
                    note: "This code is unknown, already used or expired. Compare it with your device.",
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
                ? .page("Done", "<p>Your device is let in within a few seconds. You can close this page.</p>")
                : .page("Not allowed", "<p>The device was not allowed. You can close this page.</p>")
        }
    }

    private static let isGone = OAuthError(.invalidRequest, "This code was used or has expired. Start again on your device.")

    private func codePage(_ visit: Visit, typed: String, note: String? = nil, status: HTTPResponse.Status = .ok) -> PageResponse {
        .page(
            "Let a device in",
            """
            \(HTML.note(note))
            \(visit.form(
                "/device",
                """
                <label>The code that your device shows
                <input class="code" name="user_code" value="\(typed)" autocomplete="off" autocapitalize="characters" spellcheck="false"
                required></label>
                """,
                button: "Continue",
                .primary
            ))
            """,
            status: status
        )
    }

    private func confirmationPage(_ visit: Visit, _ found: DeviceAuthorization) -> PageResponse {
        func shown(_ text: String) -> String { text.isEmpty ? "not named" : text }
        return .page(
            "Is this device in your hands?",
            """
            <dl class="facts">
            <dt>Device</dt><dd><strong>\(shown(found.device))</strong></dd>
            <dt>App</dt><dd><strong>\(RegisteredClient.shown(found.client))</strong></dd>
            <dt>Platform</dt><dd><strong>\(shown(found.platform))</strong></dd>
            </dl>
            <p class="note alarm">The device's name is not verified. If someone sent you this code, do not allow it: the device would be
            theirs, with your account.</p>
            <p>It may:</p>
            <ul>\(found.scopes.explanations.map { "<li>\($0)</li>" as HTML })</ul>
            \(visit.form(
                "/device/decision",
                visit.hidden("request", Base64.url.encode(found.code.bytes)),
                buttons: """
                \(HTML.button("It is here, allow it", .primary, ("decision", "allow")))
                \(HTML.button("Do not allow", .plain, ("decision", "deny")))
                """
            ))
            """
        )
    }
}
