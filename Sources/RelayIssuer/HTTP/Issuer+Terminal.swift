// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import RelayLog
import RelayProtocol
import Synchronization

/// Signs a device in, and sets a password, with input at the device's own terminal. The device knows the relay by its key, so it needs no
/// web page and no certificate of an authority.
extension Issuer {
    func addTerminalRoutes<Context: RequestContext>(
        to router: some RouterMethods<Context>,
        networks: @escaping @Sendable (Request, Context) -> ClientNetworks
    ) {
        func post(
            _ place: String,
            _ body: @escaping @Sendable (TerminalVisit, Form) async throws(OAuthError) -> some Encodable
        ) {
            router.post(RouterPath("\(Issuer.path)/terminal/\(place)")) { [self] request, context in
                let client = networks(request, context)
                return await answer(client) { () async throws(OAuthError) -> Response in
                    // Browsers send an Origin with each POST. Rejecting it keeps web pages from trying passwords here.
                    guard Issuer.values(of: "origin", in: request).isEmpty else {
                        throw OAuthError(.invalidRequest, "this address is for programs; a browser uses \(Issuer.path)/login")
                    }
                    let visit = TerminalVisit(
                        networks: client,
                        agent: BrowserName.of(Issuer.values(of: "user-agent", in: request).first ?? ""),
                        issuer: url(for: request),
                        now: now()
                    )
                    return Issuer.response(try await body(visit, try await Issuer.form(of: request)))
                }
            }
        }
        post("device") { [self] visit, form throws(OAuthError) in try await allowDevice(form, visit) }
        post("recovery") { [self] visit, form throws(OAuthError) in try await useRecoveryCode(form, visit) }
        post("setup") { [self] visit, form throws(OAuthError) in
            let (_, setUp) = try await setUp(of: form, visit)
            // Only with a set-up link does the person choose what else ends.
            return TerminalSetUp(
                account: setUp.user.name,
                isChoice: setUp.kind == .link,
                passkeys: setUp.passkeys,
                logins: setUp.logins,
                identities: setUp.identities.count
            )
        }
        post("password") { [self] visit, form throws(OAuthError) in
            form["token"] == nil ? try await changePassword(form, visit) : try await setPassword(form, visit)
        }
    }

    private static let wrongPassword = OAuthError(.accessDenied, "The name or the password is wrong.", status: 401)

    private func checked(_ form: Form, _ visit: TerminalVisit) async throws(OAuthError) -> CheckedPassword {
        let (name, password) = (try form.required("name"), Secret(try form.required("password")))
        let attempt = SignInAttempt(name: name, networks: visit.networks, agent: visit.agent, now: visit.now)
        let checked = try await signingIn(
            by: .password,
            account: name,
            from: visit.networks,
            app: visit.agent,
            name: { (checked: CheckedPassword) in checked.user.name },
            { () async throws(OAuthError) in try await check(attempt, password: password) }
        )
        guard let checked else { throw Issuer.wrongPassword }
        return checked
    }

    /// Performs the device grant (RFC 8628). The user's decision is made at once.
    private func allowDevice(_ form: Form, _ visit: TerminalVisit) async throws(OAuthError) -> AllowedDevice {
        _ = try TokenRequest.client(form)
        let user = try await checked(form, visit)
        let begun = try await authorizeDevice(form, from: visit.networks, at: visit.issuer, allowedBy: user)
        return AllowedDevice(account: user.user.name, deviceCode: begun.deviceCode)
    }

    private func useRecoveryCode(_ form: Form, _ visit: TerminalVisit) async throws(OAuthError) -> RecoveredAccount {
        let (name, code) = (try form.required("name"), try form.required("code"))
        let attempt = SignInAttempt(name: name, networks: visit.networks, agent: visit.agent, now: visit.now)
        let token = try await signingIn(
            by: .recoveryCode,
            account: name,
            from: visit.networks,
            app: visit.agent,
            name: { (_: SetUpToken) in attempt.name?.text ?? "" },
            { () async throws(OAuthError) in try await check(attempt, recoveryCode: code) }
        )
        guard let token else {
            throw OAuthError(.accessDenied, "The name or the code is wrong, or the code was used.", status: 401)
        }
        return RecoveredAccount(token: token.text)
    }

    private func setUp(of form: Form, _ visit: TerminalVisit) async throws(OAuthError) -> (SetUpToken, SetUp) {
        guard let token = SetUpToken(parsing: try form.required("token")), let setUp = try await setUp(token, now: visit.now) else {
            settings.events(.signInFailed(account: "", .setUpLink, address: Issuer.shown(visit.networks), .wrongCredentials))
            throw Issuer.unknownLink
        }
        return (token, setUp)
    }

    /// Returns the hash of the form's new password. Throws if the user may not have this password.
    private func newHash(_ form: Form, of user: IssuerUser) async throws(OAuthError) -> PasswordHash {
        let password = Secret(try form.required("new_password"))
        if let objection = PasswordRule.objection(to: password, name: user.name) { throw OAuthError(.invalidRequest, objection) }
        return try await hashing { () async throws(PasswordHasher.Rejection) in
            try await hasher.hash(password, for: .init(name: user.subject, isKnown: true))
        }
    }

    private func setPassword(_ form: Form, _ visit: TerminalVisit) async throws(OAuthError) -> SetPassword {
        let (token, setUp) = try await setUp(of: form, visit)
        let hash = try await newHash(form, of: setUp.user)
        let endings = Endings(setUp.kind) { form[$0] != "no" }
        let codes = try await finish(setUp, token, .password(hash), endings, from: visit.networks, agent: visit.agent) {
            [self] records, now in try firstRecoveryCodes(of: setUp.user.subject, visit.agent, now: now, in: records)
        }
        return SetPassword(account: setUp.user.name, recoveryCodes: codes.map(\.text))
    }

    private func changePassword(_ form: Form, _ visit: TerminalVisit) async throws(OAuthError) -> SetPassword {
        let known = try await checked(form, visit)
        let hash = try await newHash(form, of: known.user)
        let codes = try await answering { () async throws(IssuerError) in
            try await store.write { [self] records -> [RecoveryCode]? in
                // Another password may have been set meanwhile.
                guard try records.password(of: known.user.subject) == known.stored else { return nil }
                try Issuer.setPassword(hash, of: known.user.subject, visit.agent, now: visit.now, in: records)
                return try firstRecoveryCodes(of: known.user.subject, visit.agent, now: visit.now, in: records)
            }
        }
        guard let codes else { throw Issuer.wrongPassword }
        return SetPassword(account: known.user.name, recoveryCodes: codes.map(\.text))
    }

    /// Makes recovery codes for a user who has none. Existing codes stay valid.
    private func firstRecoveryCodes(
        of subject: String,
        _ agent: String,
        now: Milliseconds,
        in records: any IssuerTransaction
    ) throws -> [RecoveryCode] {
        try records.recoveryCodes(of: subject) == 0 ? makeRecoveryCodes(of: subject, agent, now: now, in: records) : []
    }
}

/// A request from a device's terminal.
private struct TerminalVisit: Sendable {
    let networks: ClientNetworks
    let agent: String
    /// The issuer's URL that the program used.
    let issuer: String
    let now: Milliseconds
}

private struct AllowedDevice: Encodable, Sendable {
    var account: String
    var deviceCode: Secret<String>

    enum CodingKeys: String, CodingKey {
        case account
        case deviceCode = "device_code"
    }
}

private struct RecoveredAccount: Encodable, Sendable {
    var token: Secret<String>
}

/// The account of a set-up, and what the set-up would end.
private struct TerminalSetUp: Encodable, Sendable {
    var account: String
    var isChoice: Bool
    var passkeys: Int
    var logins: Int
    var identities: Int

    enum CodingKeys: String, CodingKey {
        case account, passkeys, logins, identities
        case isChoice = "is_choice"
    }
}

private struct SetPassword: Encodable, Sendable {
    var account: String
    /// New recovery codes if the account had none; otherwise empty.
    var recoveryCodes: [Secret<String>]

    enum CodingKeys: String, CodingKey {
        case account
        case recoveryCodes = "recovery_codes"
    }
}
