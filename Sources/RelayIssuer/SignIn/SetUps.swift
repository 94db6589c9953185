// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Logging
import RelayLog
import RelayProtocol

/// A set-up of how a person signs in, with a link that the operator made or after a recovery code.
struct SetUp: Sendable {
    let token: SetUpToken
    var user: IssuerUser
    var kind: SetUpKind
    /// What may end with it.
    var passkeys: Int
    var logins: Int
    /// The identities of other issuers that can be removed.
    var identities: [AccountLink] = []

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
}

/// Finds and finishes set-ups.
struct SetUps: Sendable {
    let context: IssuerContext
    let logins: Logins
    let accounts: (any AccountHolder)?

    /// Returns the set-up of a link. Reports a link that does not work to the operator.
    func opened(_ text: String, from networks: ClientNetworks, now: Milliseconds) async throws(OAuthError) -> SetUp {
        guard let token = SetUpToken(parsing: text), let found = try await find(token, now: now) else {
            context.events(.signInFailed(account: "", .setUpLink, address: networks.shown, .wrongCredentials))
            throw .unknownLink
        }
        return found
    }

    /// Returns the set-up of a browser.
    func current(_ visit: Visit) async throws(OAuthError) -> SetUp {
        guard let token = visit.setUp, let found = try await find(token, now: visit.now) else { throw .unknownLink }
        return found
    }

    private func find(_ token: SetUpToken, now: Milliseconds) async throws(OAuthError) -> SetUp? {
        var found = try await context.read { records -> SetUp? in
            guard let (subject, kind) = try records.setUp(token.digest, now: now), let user = try records.user(subject) else { return nil }
            return SetUp(
                token: token,
                user: user,
                kind: kind,
                passkeys: try records.passkeys(of: subject).count,
                logins: try records.openLogins(of: subject).filter { !$0.isOver(at: now) }.count
            )
        }
        if let subject = found?.user.subject, let accounts {
            found?.identities = try await context.relaying { try await accounts.identities(of: subject) }.filter(\.isRemovable)
        }
        return found
    }

    /// Sets up a way to sign in, and ends other ways that someone else may know.
    /// - Parameter then: Runs last in the transaction, and gets the current time.
    func finish<Result: Sendable>(
        _ setUp: SetUp,
        _ way: SetUp.NewWay,
        _ endings: SetUp.Endings,
        from networks: ClientNetworks,
        agent: String,
        then: @escaping @Sendable (any IssuerTransaction, Milliseconds) throws -> Result
    ) async throws(OAuthError) -> Result {
        let (subject, now) = (setUp.user.subject, context.now())
        if endings.identities, let accounts {
            // This comes first. If the relay does not answer, the link stays valid.
            for link in setUp.identities {
                _ = try await context.relaying { try await accounts.unlink(issuer: link.issuer, subject: link.subject, of: subject) }
            }
        }
        let done = try await context.signingIn(
            by: setUp.kind == .recovery ? .recoveryCode : .setUpLink,
            account: setUp.user.name,
            from: networks,
            app: agent,
            name: { _ in setUp.user.name }
        ) { () async throws(OAuthError) -> (result: Result, ended: [RevokedLogin])? in
            let done = try await context.write { records -> Swift.Result<(result: Result, ended: [RevokedLogin]), OAuthError> in
                guard let found = try records.setUp(setUp.token.digest, now: now), found.subject == subject else {
                    return .failure(.unknownLink)
                }
                if case .passkey(let passkey) = way {
                    let others = endings.passkeys ? 0 : try records.passkeys(of: subject).count
                    guard try records.passkey(passkey.id) == nil, others < Passkey.maximum else { return .failure(.passkeyIsRefused) }
                }
                if endings.passkeys { try records.removePasskeys(of: subject) }
                // An intruder may have made or read the recovery codes.
                if setUp.kind != .recovery { try records.setRecoveryCodes([], of: subject) }
                switch way {
                case .password(let hash): try records.replacePassword(hash, of: subject, agent, now: now)
                case .passkey(let passkey):
                    _ = try records.add(passkey, now: now)
                    // The person does not know the former password, but a thief may.
                    try records.removePassword(of: subject)
                }
                try records.removeSetUpToken(of: subject)
                try records.removeSessions(of: subject)
                let ended = endings.logins ? try records.openLogins(of: subject).map { try logins.revoke($0, now: now, in: records) } : []
                return .success((try then(records, now), ended))
            }
            return try done.get()
        }
        guard let done else { throw .unknownLink }
        await logins.report(done.ended, "revoked a login: its user set up a new way to sign in")
        return done.result
    }
}

extension OAuthError {
    static let unknownLink = OAuthError(
        .accessDenied,
        PageText("error.linkUsed"),
        status: 403
    )
}
