// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import RelayProtocol
import Synchronization

/// The pages on which a user allows a device that has no browser (RFC 8628 §3.3).
extension Issuer {
    func addDevicePages<Context: RequestContext>(to pages: Pages<Context, some RouterMethods<Context>>) {
        pages.get("/device") { [self] visit, query in
            let typed = query["user_code"] ?? ""
            guard visit.session != nil else {
                return signInPage(visit, next: Place(UserCode(typed: typed).map { "/device?user_code=" + $0.text } ?? "/device"))
            }
            return codePage(visit, typed: typed)
        }
        pages.post(signedIn: "/device") { [self] visit, session, form throws(OAuthError) in
            // Valid codes count too. Otherwise an attacker could enter codes of their own devices between guesses.
            if let wait = bounds.withLock({ $0.userCodes.attempt(session.subject, now: now()) }) { throw Issuer.tooManyAttempts(wait) }
            let typed = form["user_code"] ?? ""
            let digest = UserCode(typed: typed)?.digest(by: master.userCodeKey)
            let found = try await answering { () async throws(IssuerError) in
                try await store.read { records in try digest.flatMap { try records.deviceAuthorization(userCode: $0) } }
            }
            guard let found, found.decision == .pending, visit.now < found.expires else {
                return codePage(
                    visit,
                    typed: typed,
                    note: "This code is unknown, already used or expired. Compare it with your device.",
                    status: .badRequest
                )
            }
            return confirmationPage(visit, found)
        }
        pages.post(signedIn: "/device/decision") { [self] visit, session, form throws(OAuthError) in
            guard let code = form["request"].flatMap(Base64.url.decode).flatMap(Digest256.init(bytes:)) else { throw Issuer.deviceIsGone }
            let isAllowed = form["decision"] == "allow"
            let isDecided = try await answering { () async throws(IssuerError) in
                try await store.write { records in
                    guard let found = try records.deviceAuthorization(code), found.decision == .pending, visit.now < found.expires else {
                        return false
                    }
                    try records.decide(code, isAllowed ? .allowed(subject: session.subject) : .denied)
                    return true
                }
            }
            guard isDecided else { throw Issuer.deviceIsGone }
            return isAllowed
                ? .page("Done", "<p>Your device is let in within a few seconds. You can close this page.</p>")
                : .page("Not allowed", "<p>The device was not allowed. You can close this page.</p>")
        }
    }

    private static let deviceIsGone = OAuthError(.invalidRequest, "This code was used or has expired. Start again on your device.")

    private func codePage(_ visit: Visit, typed: String, note: String? = nil, status: HTTPResponse.Status = .ok) -> PageResponse {
        .page(
            "Let a device in",
            """
            \(note.map { "<p class=\"note\" role=\"alert\">\($0)</p>" })
            \(visit.form(
                "/device",
                """
                <label>The code that your device shows
                <input class="code" name="user_code" value="\(typed)" autocomplete="off" autocapitalize="characters" spellcheck="false"
                required></label>
                """,
                button: "Continue"
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
            <ul>
            <li>Device: <strong>\(shown(found.device))</strong></li>
            <li>App: <strong>\(RegisteredClient.shown(found.client))</strong></li>
            <li>Platform: <strong>\(shown(found.platform))</strong></li>
            </ul>
            <p class="note">The device's name is not verified. If someone sent you this code, do not allow it: the device would be
            theirs, with your account.</p>
            <p>It may:</p>
            <ul>\(found.scopes.explanations.map { "<li>\($0)</li>" as HTML })</ul>
            \(visit.form(
                "/device/decision",
                visit.hidden("request", Base64.url.encode(found.code.bytes)),
                buttons: """
                <button type="submit" name="decision" value="allow">It is here, allow it</button>
                <button type="submit" name="decision" value="deny">Do not allow</button>
                """
            ))
            """
        )
    }
}
