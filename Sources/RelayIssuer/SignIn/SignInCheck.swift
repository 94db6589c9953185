// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// An attempt of a person to sign in with a name.
struct SignInAttempt: Sendable {
    /// `nil` if the typed name is not valid.
    let name: AccountName?
    let networks: ClientNetworks
    /// The client's cookie from an earlier sign-in.
    let known: KnownBrowser?
    /// The client, as the account's events show it.
    let agent: String
    let now: Milliseconds

    init(name: String, networks: ClientNetworks, known: KnownBrowser? = nil, agent: String, now: Milliseconds) {
        self.name = AccountName(name)
        self.networks = networks
        self.known = known
        self.agent = agent
        self.now = now
    }

    init(name: String, _ visit: Visit) {
        self.init(name: name, networks: visit.networks, known: visit.known, agent: visit.agent, now: visit.now)
    }
}

/// A user whose password was right.
struct CheckedPassword: Sendable {
    var user: IssuerUser
    /// The stored hash that the password matched. It may be replaced later, so callers compare it again before they rely on it.
    var stored: PasswordHash
}

/// Checks of the secrets with which people sign in by name. Every page and route that takes a password or a recovery code calls them.
///
/// The limits use the time of the check, because a client decides how long after the head of its request it sends the form.
extension Issuer {
    /// Checks a name and its password.
    /// - Returns: `nil` if the name or the password is wrong.
    /// - Throws: 429 if there were too many attempts, 503 if too many passwords are hashed at this moment.
    func check(_ attempt: SignInAttempt, password: Secret<String>) async throws(OAuthError) -> CheckedPassword? {
        // Such a name or password cannot be right, so nothing is hashed, and no limit is needed.
        guard let name = attempt.name, PasswordRule.hasAllowedLength(password) else { return nil }
        let found = try await answering { () async throws(IssuerError) in
            try await store.read { records -> (user: IssuerUser, password: PasswordHash?)? in
                try records.user(named: name).map { ($0, try records.password(of: $0.subject)) }
            }
        }
        let account = account(of: name, found?.user)
        let client = client(of: attempt, found?.user)
        let isCorrect = try await hashing { () async throws(PasswordHasher.Rejection) in
            try await hasher.matches(password, found?.password, for: client.ofHasher) {
                bounds.withLock { $0.passwords.attempt(account, by: client, now: now()) }
            }
        }
        guard isCorrect, let found, let stored = found.password else {
            if let user = found?.user { try await noteFailure(of: user, attempt) }
            return nil
        }
        bounds.withLock { $0.passwords.succeed(account, by: client, now: now()) }
        return try await renewing(CheckedPassword(user: found.user, stored: stored), password)
    }

    /// Replaces the stored hash if it has another cost.
    private func renewing(_ checked: CheckedPassword, _ password: Secret<String>) async throws(OAuthError) -> CheckedPassword {
        guard checked.stored.cost != hasher.cost else { return checked }
        let subject = checked.user.subject
        let hash = try await hashing { () async throws(PasswordHasher.Rejection) in
            try await hasher.hash(password, for: .init(name: subject, isKnown: true))
        }
        let isRenewed = try await answering { () async throws(IssuerError) in
            try await store.write { records in
                guard try records.password(of: subject) == checked.stored else { return false }
                try records.setPassword(hash, of: subject)
                return true
            }
        }
        return isRenewed ? CheckedPassword(user: checked.user, stored: hash) : checked
    }

    /// Checks a name and a recovery code, and consumes the code.
    /// - Returns: A secret with which the person sets up a new way to sign in; `nil` if the name or the code is wrong.
    /// - Throws: 429 if there were too many attempts.
    func check(_ attempt: SignInAttempt, recoveryCode: String) async throws(OAuthError) -> SetUpToken? {
        guard let name = attempt.name else { return nil }
        let user = try await answering { () async throws(IssuerError) in try await store.read { try $0.user(named: name) } }
        let (account, client) = (account(of: name, user), client(of: attempt, user))
        if let wait = bounds.withLock({ $0.recoveries.attempt(account, by: client, now: now()) }) {
            throw Issuer.tooManyAttempts(wait)
        }
        guard let user, let code = RecoveryCode(typed: recoveryCode) else { return nil }
        let (digest, token) = (code.digest(by: master.recoveryKey), SetUpToken())
        let isCorrect = try await answering { () async throws(IssuerError) in
            try await store.write { records in
                guard try records.useRecoveryCode(digest, of: user.subject) else { return false }
                let expires = Milliseconds(clamping: attempt.now.count + SetUpToken.recoveryLife)
                try records.setSetUpToken(token.digest, .recovery, of: user.subject, expires: expires)
                try records.note(.recoveryCodeUsed, of: user.subject, attempt.agent, now: attempt.now)
                return true
            }
        }
        guard isCorrect else { return nil }
        bounds.withLock { $0.recoveries.succeed(account, by: client, now: now()) }
        return token
    }

    private func account(of name: AccountName, _ user: IssuerUser?) -> SignInLimits.Account {
        user.map { .user(subject: $0.subject) } ?? .none(Digest256(hashing: Array(name.key.utf8)))
    }

    private func client(of attempt: SignInAttempt, _ user: IssuerUser?) -> SignInLimits.Client {
        if let known = attempt.known, let user, known.isOf(user.subject, by: master.knownBrowserKey) {
            return .known(known, of: user.subject)
        }
        return .new(attempt.networks)
    }

    private func noteFailure(of user: IssuerUser, _ attempt: SignInAttempt) async throws(OAuthError) {
        try await answering { () async throws(IssuerError) in
            try await store.write { try $0.note(.signInFailed, of: user.subject, attempt.agent, now: attempt.now) }
        }
    }
}
