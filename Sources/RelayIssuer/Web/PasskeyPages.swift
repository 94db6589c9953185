// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Hummingbird
import RelayLog
import RelayProtocol

/// Sign-in with passkeys, and the passkeys of an account.
struct PasskeyPages: Sendable {
    let context: IssuerContext
    let passkeys: Passkeys

    func add<Context: RequestContext>(to routes: IssuerRoutes<Context, some RouterMethods<Context>>) {
        routes.post("/login/passkey") { visit, form throws(OAuthError) in
            let signedIn = try await context.signingIn(by: .passkey, visit) { () async throws(OAuthError) in
                try await passkeys.signIn(visit, form)
            }
            guard let browser = signedIn else {
                throw OAuthError(
                    .accessDenied,
                    PageText("error.passkeyUnknown"),
                    status: 403
                )
            }
            return .local(NextPage(form["next"]).text, signedIn: browser)
        }
        routes.post(recentlySignedIn: "/account/passkey") { visit, session, form throws(OAuthError) in
            let passkey = try passkeys.registered(visit, form, subject: session.subject)
            guard try await context.write({ try $0.add(passkey, now: visit.now) }) else { throw .passkeyIsRefused }
            return .local("/account")
        }
        routes.post(recentlySignedIn: "/account/passkey/remove") { visit, session, form throws(OAuthError) in
            let id = form["passkey"].flatMap(Base64.url.decode) ?? []
            let found = try await context.read { try $0.passkey(id) }
            guard let found, found.subject == session.subject else { return .local("/account") }
            guard form["confirmed"] == "yes" else {
                let name: HTML = found.name.isEmpty ? visit.t("browser.unnamed") : "\(found.name)"
                return visit.confirmation(
                    "/account/passkey/remove",
                    ("passkey", Base64.url.encode(id)),
                    question: visit.t("passkey.remove.question", ["name": "<strong>\(name)</strong>"]),
                    button: visit.t("remove")
                )
            }
            try await context.write { records in
                guard let passkey = try records.passkey(id), passkey.subject == session.subject else { return }
                try records.removePasskey(id)
                try records.note(.passkeyRemoved, of: session.subject, passkey.name, now: visit.now)
            }
            return .local("/account")
        }
        routes.file(.passkey)
    }
}
