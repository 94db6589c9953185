// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import Logging
import RelayLog
package import RelayProtocol

/// Set-up of how a person signs in, with a link that the operator makes or after a recovery code.
extension Issuer {
    /// Makes a link with which the account's owner sets a password or a passkey. It works once, within a day, and replaces the account's
    /// former link.
    /// - Parameters:
    ///   - origin: A public URL of the service, without a path.
    ///   - isReset: Whether the password, passkeys, recovery codes and browsers end at once. Apps, devices and identities of other issuers
    ///     then end when the link is used.
    package func setUpLink(subject: String, origin: String, isReset: Bool = false) async throws(IssuerError) -> Secret<String> {
        let token = SetUpToken()
        let now = now()
        try await store.write { records in
            guard try records.hasUser(subject) else { throw IssuerError.unknownUser }
            try records.forget(before: now)
            let expires = Milliseconds(clamping: now.count + SetUpToken.life)
            try records.setSetUpToken(token.digest, isReset ? .reset : .link, of: subject, expires: expires)
            if isReset {
                try records.removePassword(of: subject)
                try records.removePasskeys(of: subject)
                try records.setRecoveryCodes([], of: subject)
                try records.removeSessions(of: subject)
            }
            try records.note(.setUpLinkMade, of: subject, "", now: now)
        }
        await log(.info, "made a set-up link", of: subject)
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

    /// Returns the events of an account, newest first.
    package func events(of subject: String) async throws(IssuerError) -> [AccountEvent] {
        try await store.read { try $0.events(of: subject) }
    }

    /// Sets a password. Ends all sessions of the user, because one of them may belong to a thief of the old password.
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
                // Move the secret out of the address. Opening the link does not consume it, because programs preview links.
                guard let token = SetUpToken(parsing: text), try await setUp(token, now: visit.now) != nil else {
                    settings.events(.signInFailed(account: "", .setUpLink, address: Issuer.shown(visit.networks), .wrongCredentials))
                    throw Issuer.unknownLink
                }
                return .local("/setup", setUp: token)
            }
            guard let token = visit.setUp, let setUp = try await setUp(token, now: visit.now) else { throw Issuer.unknownLink }
            return setUpPage(visit, setUp)
        }
        pages.post("/setup") { [self] visit, form throws(OAuthError) in
            guard let token = visit.setUp, let setUp = try await setUp(token, now: visit.now) else { throw Issuer.unknownLink }
            let user = setUp.user
            let password = Secret(form["password"] ?? "")
            if let objection = Issuer.objection(to: password, repeated: form["repeated"], user) {
                return setUpPage(visit, setUp, note: objection, status: .badRequest)
            }
            let hash = try await hashing { () async throws(PasswordHasher.Rejection) in
                try await hasher.hash(password, for: .init(name: user.subject, isKnown: true))
            }
            return try await finish(setUp, token, form, .password(hash), visit)
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

    /// The user of a set-up, and what may end with it.
    struct SetUp: Sendable {
        var user: IssuerUser
        var kind: SetUpKind
        var passkeys: Int
        var logins: Int
        /// The identities of other issuers that can be removed.
        var identities: [AccountLink]
    }

    func setUp(_ token: SetUpToken, now: Milliseconds) async throws(OAuthError) -> SetUp? {
        var found = try await answering { () async throws(IssuerError) in
            try await store.read { records -> SetUp? in
                guard let (subject, kind) = try records.setUp(token.digest, now: now), let user = try records.user(subject) else {
                    return nil
                }
                return SetUp(
                    user: user,
                    kind: kind,
                    passkeys: try records.passkeys(of: subject).count,
                    logins: try records.openLogins(of: subject).filter { !$0.isOver(at: now) }.count,
                    identities: []
                )
            }
        }
        if let subject = found?.user.subject, let accounts = settings.accounts {
            found?.identities = try await relaying { try await accounts.identities(of: subject) }.filter(\.isRemovable)
        }
        return found
    }

    /// A new way to sign in.
    enum NewWay: Sendable {
        case password(PasswordHash)
        case passkey(Passkey)
    }

    /// The other ways to sign in that end with a set-up.
    struct Endings: Sendable {
        var passkeys: Bool
        var logins: Bool
        /// The identities of other issuers.
        var identities: Bool

        /// - Parameters:
        ///   - kind: Only with `link` does the person choose.
        ///   - chosen: Whether the person chose `end_passkeys`, `end_logins` or `end_identities`.
        init(_ kind: SetUpKind, chosen: (String) -> Bool) {
            func ends(_ name: String) -> Bool {
                switch kind {
                case .link: chosen(name)
                case .reset: true
                case .recovery: false
                }
            }
            (passkeys, logins, identities) = (ends("end_passkeys"), ends("end_logins"), ends("end_identities"))
        }
    }

    /// Sets up a way to sign in at the pages, and signs the person in.
    func finish(_ setUp: SetUp, _ token: SetUpToken, _ form: Form, _ way: NewWay, _ visit: Visit) async throws(OAuthError) -> PageResponse {
        let endings = Endings(setUp.kind) { form[$0] == "yes" }
        let subject = setUp.user.subject
        let browser = try await finish(setUp, token, way, endings, from: visit.networks, agent: visit.agent) { [self] records, _ in
            try beginSession(of: subject, visit, in: records)
        }
        return .local("/account", signedIn: browser, setUp: .some(nil))
    }

    /// Sets up a way to sign in, and ends other ways that someone else may know.
    /// - Parameter then: Runs last in the transaction, and gets the current time.
    func finish<Result: Sendable>(
        _ setUp: SetUp,
        _ token: SetUpToken,
        _ way: NewWay,
        _ endings: Endings,
        from networks: ClientNetworks,
        agent: String,
        then: @escaping @Sendable (any IssuerTransaction, Milliseconds) throws -> Result
    ) async throws(OAuthError) -> Result {
        let (subject, now) = (setUp.user.subject, now())
        if endings.identities, let accounts = settings.accounts {
            // This comes first. If the relay does not answer, the link stays valid.
            for link in setUp.identities {
                _ = try await relaying { try await accounts.unlink(issuer: link.issuer, subject: link.subject, of: subject) }
            }
        }
        let method: RelayEvent.Method = setUp.kind == .recovery ? .recoveryCode : .setUpLink
        let done = try await signingIn(
            by: method,
            account: setUp.user.name,
            from: networks,
            app: agent,
            name: { _ in setUp.user.name }
        ) { () async throws(OAuthError) -> (result: Result, ended: [RevokedLogin])? in
            let done = try await answering { () async throws(IssuerError) in
                try await store.write { [self] records -> Swift.Result<(result: Result, ended: [RevokedLogin]), OAuthError> in
                    guard let found = try records.setUp(token.digest, now: now), found.subject == subject else {
                        return .failure(Issuer.unknownLink)
                    }
                    if case .passkey(let passkey) = way {
                        let others = endings.passkeys ? 0 : try records.passkeys(of: subject).count
                        guard try records.passkey(passkey.id) == nil, others < Passkey.maximum else {
                            return .failure(Issuer.passkeyIsRefused)
                        }
                    }
                    if endings.passkeys { try records.removePasskeys(of: subject) }
                    // An intruder may have made or read the recovery codes.
                    if setUp.kind != .recovery { try records.setRecoveryCodes([], of: subject) }
                    switch way {
                    case .password(let hash): try Issuer.setPassword(hash, of: subject, agent, now: now, in: records)
                    case .passkey(let passkey):
                        _ = try Issuer.add(passkey, now: now, in: records)
                        // The person does not know the former password, but a thief may.
                        try records.removePassword(of: subject)
                    }
                    try records.removeSetUpToken(of: subject)
                    try records.removeSessions(of: subject)
                    let ended = endings.logins ? try records.openLogins(of: subject).map { try revoke($0, now: now, in: records) } : []
                    return .success((try then(records, now), ended))
                }
            }
            return try done.get()
        }
        guard let done else { throw Issuer.unknownLink }
        for login in done.ended {
            await log(.info, "revoked a login: its user set up a new way to sign in", of: login.subject)
            revoked(login)
        }
        return done.result
    }

    /// Returns the questions about which other ways to sign in end. All boxes are ticked, because a person who asked the operator for a
    /// link may have lost the account to someone else.
    private func endings(_ setUp: SetUp) -> HTML? {
        func box(_ name: String, _ count: Int, _ text: HTML) -> HTML? {
            count == 0 ? nil : "<label><input type=\"checkbox\" name=\"\(name)\" value=\"yes\" checked> \(text)</label>"
        }
        return switch setUp.kind {
        case .recovery: nil
        case .reset:
            "<p>All other ways to sign in end, those of other providers too, and so do all apps and devices that are signed in.</p>"
        case .link:
            """
            <p>Your old password and recovery codes end. Clear a tick only if nobody else can have used this account.</p>
            \(box("end_passkeys", setUp.passkeys, "Remove the passkeys until now (\(setUp.passkeys))"))
            \(box("end_logins", setUp.logins, "Sign out all apps and devices (\(setUp.logins)); they have to join or sign in again"))
            \(box("end_identities", setUp.identities.count, "Remove the identities of other providers: \(setUp.identities.map(\.shown).joined(separator: ", "))"))
            """
        }
    }

    private func setUpPage(_ visit: Visit, _ setUp: SetUp, note: String? = nil, status: HTTPResponse.Status = .ok) -> PageResponse {
        let user = setUp.user
        return .page(
            "Welcome, \(user.name)",
            """
            \(note.map { "<p class=\"note\" role=\"alert\">\($0)</p>" })
            <p>Choose how you sign in to this relay. Your name here is <strong>\(user.name)</strong>.</p>
            \(visit.form("/setup", "\(HTML.newPassword(of: user))\(endings(setUp))", button: "Set the password"))
            \(newPasskeyForm(visit, "/setup/passkey", user, intro: "<p>Or without a password:</p>", endings(setUp)))
            """,
            status: status
        )
    }
}
