// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import RelayProtocol

/// Set-up of how a person signs in.
struct SetUpPages: Sendable {
    let setUps: SetUps
    let signIn: SignIn
    let passkeys: Passkeys

    func add<Context: RequestContext>(to routes: IssuerRoutes<Context, some RouterMethods<Context>>) {
        routes.get("/setup") { visit, query throws(OAuthError) in
            guard let text = query["token"] else { return page(visit, try await setUps.current(visit)) }
            // Move the secret out of the address. Opening the link does not consume it, because programs preview links.
            return .local("/setup", setUp: try await setUps.opened(text, from: visit.networks, now: visit.now).token)
        }
        routes.post("/setup") { visit, form throws(OAuthError) in
            let setUp = try await setUps.current(visit)
            let password = Secret(form["password"] ?? "")
            if let objection = PasswordRule.objection(to: password, repeated: form["repeated"], name: setUp.user.name) {
                return page(visit, setUp, note: visit.words.html(objection), status: .badRequest)
            }
            return try await finish(setUp, form, .password(try await signIn.hash(password, of: setUp.user.subject)), visit)
        }
        routes.post("/setup/passkey") { visit, form throws(OAuthError) in
            let setUp = try await setUps.current(visit)
            let passkey = try passkeys.registered(visit, form, subject: setUp.user.subject)
            return try await finish(setUp, form, .passkey(passkey), visit)
        }
    }

    /// Sets up a way to sign in, and signs the person in.
    private func finish(_ setUp: SetUp, _ form: Form, _ way: SetUp.NewWay, _ visit: Visit) async throws(OAuthError) -> PageResponse {
        let endings = SetUp.Endings(setUp.kind) { form[$0] == "yes" }
        let browser = try await setUps.finish(setUp, way, endings, from: visit.networks, agent: visit.agent) { records, _ in
            try signIn.beginSession(of: setUp.user.subject, visit, in: records)
        }
        return .local("/account", signedIn: browser, setUp: .some(nil))
    }

    /// Returns the questions about which other ways to sign in end. All boxes are ticked, because a person who asked the operator for a
    /// link may have lost the account to someone else.
    private func endings(_ visit: Visit, _ setUp: SetUp) -> HTML? {
        func box(_ name: String, _ count: Int, _ text: HTML) -> HTML? {
            count == 0 ? nil : "<label><input type=\"checkbox\" name=\"\(name)\" value=\"yes\" checked> \(text)</label>"
        }
        func name(_ link: AccountLink) -> HTML {
            visit.t("identities.at", ["subject": "\(link.subject)", "issuer": "\(link.issuer)"])
        }
        return switch setUp.kind {
        case .recovery: nil
        case .reset:
            "<p>\(visit.t("setUp.reset"))</p>"
        case .link:
            """
            <p>\(visit.t("setUp.link"))</p>
            \(box("end_passkeys", setUp.passkeys, visit.t("setUp.passkeys", ["number": "\(setUp.passkeys)"])))
            \(box("end_logins", setUp.logins, visit.t("setUp.logins", ["number": "\(setUp.logins)"])))
            \(box("end_identities", setUp.identities.count, visit.t("setUp.identities", ["list": visit.words.joined(setUp.identities.map(name))])))
            """
        }
    }

    private func page(_ visit: Visit, _ setUp: SetUp, note: HTML? = nil, status: HTTPResponse.Status = .ok) -> PageResponse {
        let user = setUp.user
        let ends = endings(visit, setUp)
        return .page(
            visit.t("setUp.title", ["name": "\(user.name)"]),
            """
            \(HTML.note(note))
            <p>\(visit.t("setUp.text", ["name": "<strong>\(user.name)</strong>"]))</p>
            \(visit.form("/setup", "\(visit.newPassword(of: user))\(ends)", button: visit.t("password.set"), .primary))
            \(visit.newPasskeyForm("/setup/passkey", user, intro: "<p>\(visit.t("passkey.or"))</p>", ends))
            """,
            status: status
        )
    }
}
