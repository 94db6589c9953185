// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Hummingbird
import RelayLog
import RelayProtocol

/// Signs a device in, and sets a password, with input at the device's own terminal. The device knows the relay by its key, so it needs no
/// web page and no certificate of an authority.
struct TerminalRoutes: Sendable {
    let context: IssuerContext
    let signIn: SignIn
    let setUps: SetUps
    let devices: DeviceAuthorizations

    func add<Context: RequestContext>(to routes: IssuerRoutes<Context, some RouterMethods<Context>>) {
        func post(
            _ place: String,
            _ body: @escaping @Sendable (TerminalVisit, Form) async throws(OAuthError) -> some Encodable & SendableMetatype
        ) {
            routes.endpoint("/terminal/\(place)") { request, client throws(OAuthError) in
                // Browsers send an Origin with each POST. Rejecting it keeps web pages from trying passwords here.
                guard request.values(of: "origin").isEmpty else {
                    throw OAuthError(.invalidRequest, "this address is for programs; a browser uses \(Issuer.path)/login")
                }
                let site = context.url(for: request)
                let visit = TerminalVisit(networks: client, agent: request.agent, issuer: site, now: context.now())
                return .json(try await body(visit, try await request.form()))
            }
        }
        post("device") { visit, form throws(OAuthError) in try await allowDevice(form, visit) }
        post("recovery") { visit, form throws(OAuthError) in try await useRecoveryCode(form, visit) }
        post("setup") { visit, form throws(OAuthError) in
            let setUp = try await setUp(of: form, visit)
            // Only with a set-up link does the person choose what else ends.
            return TerminalSetUp(
                account: setUp.user.name,
                isChoice: setUp.kind == .link,
                passkeys: setUp.passkeys,
                logins: setUp.logins,
                identities: setUp.identities.count
            )
        }
        post("password") { visit, form throws(OAuthError) in
            form["token"] == nil ? try await changePassword(form, visit) : try await setPassword(form, visit)
        }
    }

    private static let wrongPassword = OAuthError(.accessDenied, PageText("signIn.wrong"), status: 401)

    private func checked(_ form: Form, _ visit: TerminalVisit) async throws(OAuthError) -> CheckedPassword {
        let (name, password) = (try form.required("name"), Secret(try form.required("password")))
        let attempt = SignInAttempt(name: name, networks: visit.networks, agent: visit.agent, now: visit.now)
        let checked = try await context.signingIn(
            by: .password,
            account: name,
            from: visit.networks,
            app: visit.agent,
            name: { (checked: CheckedPassword) in checked.user.name },
            { () async throws(OAuthError) in try await signIn.check(attempt, password: password) }
        )
        guard let checked else { throw TerminalRoutes.wrongPassword }
        return checked
    }

    /// Performs the device grant (RFC 8628). The user's decision is made at once.
    private func allowDevice(_ form: Form, _ visit: TerminalVisit) async throws(OAuthError) -> AllowedDevice {
        _ = try TokenRequest.client(form)
        let user = try await checked(form, visit)
        let begun = try await devices.authorize(form, from: visit.networks, at: visit.issuer, allowedBy: user)
        return AllowedDevice(account: user.user.name, deviceCode: begun.deviceCode)
    }

    private func useRecoveryCode(_ form: Form, _ visit: TerminalVisit) async throws(OAuthError) -> RecoveredAccount {
        let (name, code) = (try form.required("name"), try form.required("code"))
        let attempt = SignInAttempt(name: name, networks: visit.networks, agent: visit.agent, now: visit.now)
        guard let token = try await signIn.recover(attempt, code: code) else {
            throw OAuthError(.accessDenied, PageText("recovery.wrong"), status: 401)
        }
        return RecoveredAccount(token: token.text)
    }

    private func setUp(of form: Form, _ visit: TerminalVisit) async throws(OAuthError) -> SetUp {
        try await setUps.opened(try form.required("token"), from: visit.networks, now: visit.now)
    }

    /// Returns the hash of the form's new password. Throws if the user may not have this password.
    private func newHash(_ form: Form, of user: IssuerUser) async throws(OAuthError) -> PasswordHash {
        let password = Secret(try form.required("new_password"))
        if let objection = PasswordRule.objection(to: password, name: user.name) { throw OAuthError(.invalidRequest, objection) }
        return try await signIn.hash(password, of: user.subject)
    }

    private func setPassword(_ form: Form, _ visit: TerminalVisit) async throws(OAuthError) -> SetPassword {
        let setUp = try await setUp(of: form, visit)
        let hash = try await newHash(form, of: setUp.user)
        let endings = SetUp.Endings(setUp.kind) { form[$0] != "no" }
        let codes = try await setUps.finish(setUp, .password(hash), endings, from: visit.networks, agent: visit.agent) { records, now in
            try firstRecoveryCodes(of: setUp.user.subject, visit.agent, now: now, in: records)
        }
        return SetPassword(account: setUp.user.name, recoveryCodes: codes.map(\.text))
    }

    private func changePassword(_ form: Form, _ visit: TerminalVisit) async throws(OAuthError) -> SetPassword {
        let known = try await checked(form, visit)
        let hash = try await newHash(form, of: known.user)
        let codes = try await context.write { records -> [RecoveryCode]? in
            // Another password may have been set meanwhile.
            guard try records.password(of: known.user.subject) == known.stored else { return nil }
            try records.replacePassword(hash, of: known.user.subject, visit.agent, now: visit.now)
            return try firstRecoveryCodes(of: known.user.subject, visit.agent, now: visit.now, in: records)
        }
        guard let codes else { throw TerminalRoutes.wrongPassword }
        return SetPassword(account: known.user.name, recoveryCodes: codes.map(\.text))
    }

    /// Makes recovery codes for a user who has none. Existing codes stay valid.
    private func firstRecoveryCodes(
        of subject: String,
        _ agent: String,
        now: Milliseconds,
        in records: any IssuerTransaction
    ) throws -> [RecoveryCode] {
        try records.recoveryCodes(of: subject) == 0 ? signIn.makeRecoveryCodes(of: subject, agent, now: now, in: records) : []
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
