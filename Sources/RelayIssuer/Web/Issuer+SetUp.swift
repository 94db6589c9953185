// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import Logging
package import RelayProtocol

/// Setting up how a person signs in: by a link that the operator makes.
extension Issuer {
    /// Makes a link with which the account's owner sets a password. It works once, within a day, and replaces the account's
    /// former link.
    /// - Parameter origin: A public URL of the service, without a path.
    package func setUpLink(subject: String, origin: String) async throws(IssuerError) -> Secret<String> {
        let token = SetUpToken()
        let now = now()
        try await store.write { records in
            guard try records.hasUser(subject) else { throw IssuerError.unknownUser }
            try records.forget(before: now)
            try records.setSetUpToken(token.digest, of: subject, expires: Milliseconds(clamping: now.count + SetUpToken.life))
            try records.note(.setUpLinkMade, of: subject, "", now: now)
        }
        logger.info("made a set-up link", metadata: metadata(subject))
        return Secret("\(origin)\(Issuer.path)/setup?token=\(token.text.exposed)")
    }

    /// Throws `passwordInvalid` if an account with this name cannot have the password.
    package static func check(password: Secret<String>, name: String) throws(IssuerError) {
        if let objection = PasswordRule.objection(to: password, name: name) { throw .passwordInvalid(objection) }
    }

    /// Sets an account's password, and ends its sessions in browsers.
    package func setPassword(subject: String, to password: Secret<String>) async throws(IssuerError) {
        guard let user = try await store.read({ try $0.user(subject) }) else { throw .unknownUser }
        try Issuer.check(password: password, name: user.name)
        let hash: PasswordHash
        do throws(PasswordHasher.Rejection) {
            hash = try await hasher.hash(password, for: .init(name: subject, isKnown: true))
        } catch {
            throw .busy
        }
        let now = now()
        try await store.write { records in
            guard try records.hasUser(subject) else { throw IssuerError.unknownUser }
            try Issuer.setPassword(hash, of: subject, "", now: now, in: records)
        }
    }

    /// What happened to an account, the newest first.
    package func events(of subject: String) async throws(IssuerError) -> [AccountEvent] {
        try await store.read { try $0.events(of: subject) }
    }

    /// Ends all sessions of the user: one of them may belong to a thief of the old password.
    static func setPassword(
        _ hash: PasswordHash,
        of subject: String,
        _ agent: String,
        now: Milliseconds,
        in records: any IssuerTransaction
    ) throws {
        try records.setPassword(hash, of: subject)
        try records.removeSetUpToken(of: subject)
        try records.removeSessions(of: subject)
        try records.note(.passwordSet, of: subject, agent, now: now)
    }

    func addSetUpPages<Context: RequestContext>(to pages: Pages<Context, some RouterMethods<Context>>) {
        pages.get("/setup") { [self] visit, query throws(OAuthError) in
            if let text = query["token"] {
                // Moves the secret out of the address. Opening the link does not use it up: programs preview links.
                guard let token = SetUpToken(parsing: text), try await user(setUp: token, now: visit.now) != nil else {
                    throw Issuer.unknownLink
                }
                return .local("/setup", setUp: token)
            }
            guard let token = visit.setUp, let user = try await user(setUp: token, now: visit.now) else { throw Issuer.unknownLink }
            return setUpPage(visit, user)
        }
        pages.post("/setup") { [self] visit, form throws(OAuthError) in
            guard let token = visit.setUp, let user = try await user(setUp: token, now: visit.now) else { throw Issuer.unknownLink }
            let password = Secret(form["password"] ?? "")
            if let objection = Issuer.objection(to: password, repeated: form["repeated"], user) {
                return setUpPage(visit, user, note: objection, status: .badRequest)
            }
            let hash = try await hashing { () async throws(PasswordHasher.Rejection) in
                try await hasher.hash(password, for: .init(name: user.subject, isKnown: true))
            }
            let browser = try await answering { () async throws(IssuerError) in
                try await store.write { [self] records -> SignedInBrowser? in
                    guard try records.subject(ofSetUpToken: token.digest, now: visit.now) == user.subject else { return nil }
                    try Issuer.setPassword(hash, of: user.subject, visit.agent, now: visit.now, in: records)
                    return try beginSession(of: user.subject, visit, in: records)
                }
            }
            guard let browser else { throw Issuer.unknownLink }
            return .local("/account", signedIn: browser, setUp: .some(nil))
        }
    }

    static func objection(to password: Secret<String>, repeated: String?, _ user: IssuerUser) -> String? {
        if let objection = PasswordRule.objection(to: password, name: user.name) { return objection }
        let typed = OpaqueString.prepare(Secret(repeated ?? "")).exposed
        guard typed.utf8.elementsEqual(OpaqueString.prepare(password).exposed.utf8) else { return "The two passwords differ." }
        return nil
    }

    static let unknownLink = OAuthError(
        .accessDenied,
        "This link was used or has expired. Ask the operator of the relay for a new one.",
        status: 403
    )

    func user(setUp token: SetUpToken, now: Milliseconds) async throws(OAuthError) -> IssuerUser? {
        try await answering { () async throws(IssuerError) in
            try await store.read { records in try records.subject(ofSetUpToken: token.digest, now: now).flatMap { try records.user($0) } }
        }
    }

    private func setUpPage(_ visit: Visit, _ user: IssuerUser, note: String? = nil, status: HTTPResponse.Status = .ok) -> PageResponse {
        .page(
            "Welcome, \(user.name)",
            """
            \(note.map { "<p class=\"note\" role=\"alert\">\($0)</p>" })
            <p>Choose how you sign in to this relay. Your name here is <strong>\(user.name)</strong>.</p>
            \(visit.form("/setup", HTML.newPassword(of: user), button: "Set the password"))
            \(newPasskeyForm(visit, "/setup/passkey", user, intro: "<p>Or without a password:</p>"))
            """,
            status: status
        )
    }
}
