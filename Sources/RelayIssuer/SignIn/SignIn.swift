// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import RelayLog
import RelayProtocol

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

/// Checks the secrets with which people sign in by name, and signs browsers in. Every page and route that takes a password or a recovery
/// code uses it.
///
/// The limits use the time of the check, because a client decides how long after the head of its request it sends the form.
final class SignIn: Sendable {
    private let context: IssuerContext
    let hasher: PasswordHasher
    /// Attempts with passwords. Each attempt costs a hash, so attackers cannot cheaply fill the store.
    private let passwords: SignInLimits
    /// Attempts with recovery codes. A code cannot be guessed, so there is no hourly limit. Attackers must not be able to lock the owner
    /// out of recovery.
    private let recoveries = SignInLimits(.recoveryCode)

    /// - Parameter cost: The cost of a new password's hash, as the base-2 logarithm of scrypt's N.
    init(_ context: IssuerContext, attemptsPerHour: Int, cost: Int) {
        self.context = context
        self.hasher = PasswordHasher(cost: .init(logRounds: min(max(cost, 1), 20)))
        self.passwords = SignInLimits(.password, attemptsPerHour: attemptsPerHour)
    }

    // MARK: Checks

    /// Checks a name and its password.
    /// - Returns: `nil` if the name or the password is wrong.
    /// - Throws: 429 if there were too many attempts, 503 if too many passwords are hashed at this moment.
    func check(_ attempt: SignInAttempt, password: Secret<String>) async throws(OAuthError) -> CheckedPassword? {
        // Such a name or password cannot be right, so nothing is hashed, and no limit is needed.
        guard let name = attempt.name, PasswordRule.hasAllowedLength(password) else { return nil }
        let found = try await context.read { records -> (user: IssuerUser, password: PasswordHash?)? in
            try records.user(named: name).map { ($0, try records.password(of: $0.subject)) }
        }
        let client = client(of: attempt, found?.user)
        let limits = passwords.limits(of: account(of: name, found?.user), by: client)
        let isCorrect = try await hashing { () async throws(PasswordHasher.Rejection) in
            try await hasher.matches(password, found?.password, for: client.ofHasher) { () async throws(OAuthError) in
                try await context.countAttempt(limits)
            }
        }
        guard isCorrect, let found, let stored = found.password else {
            if let user = found?.user {
                try await context.write { try $0.note(.signInFailed, of: user.subject, attempt.agent, now: attempt.now) }
            }
            return nil
        }
        await context.attemptSucceeded(limits)
        return try await renewing(CheckedPassword(user: found.user, stored: stored), password)
    }

    /// Replaces the stored hash if it has another cost.
    private func renewing(_ checked: CheckedPassword, _ password: Secret<String>) async throws(OAuthError) -> CheckedPassword {
        guard checked.stored.cost != hasher.cost else { return checked }
        let subject = checked.user.subject
        let hash = try await hash(password, of: subject)
        let isRenewed = try await context.write { records in
            guard try records.password(of: subject) == checked.stored else { return false }
            try records.setPassword(hash, of: subject)
            return true
        }
        return isRenewed ? CheckedPassword(user: checked.user, stored: hash) : checked
    }

    /// Checks a name and a recovery code, consumes the code, and reports it to the operator.
    /// - Returns: A secret with which the person sets up a new way to sign in; `nil` if the name or the code is wrong.
    /// - Throws: 429 if there were too many attempts.
    func recover(_ attempt: SignInAttempt, code: String) async throws(OAuthError) -> SetUpToken? {
        let name = attempt.name?.text ?? ""
        return try await context.signingIn(
            by: .recoveryCode,
            account: name,
            from: attempt.networks,
            app: attempt.agent,
            name: { _ in name },
            { () async throws(OAuthError) in try await check(attempt, recoveryCode: code) }
        )
    }

    private func check(_ attempt: SignInAttempt, recoveryCode: String) async throws(OAuthError) -> SetUpToken? {
        guard let name = attempt.name else { return nil }
        let user = try await context.read { try $0.user(named: name) }
        let limits = recoveries.limits(of: account(of: name, user), by: client(of: attempt, user))
        try await context.countAttempt(limits)
        guard let user, let code = RecoveryCode(typed: recoveryCode) else { return nil }
        let (digest, token) = (code.digest(by: context.master.recoveryKey), SetUpToken())
        let isCorrect = try await context.write { records in
            guard try records.useRecoveryCode(digest, of: user.subject) else { return false }
            let expires = Milliseconds(clamping: attempt.now.count + SetUpToken.recoveryLife)
            try records.setSetUpToken(token.digest, .recovery, of: user.subject, expires: expires)
            try records.note(.recoveryCodeUsed, of: user.subject, attempt.agent, now: attempt.now)
            return true
        }
        guard isCorrect else { return nil }
        await context.attemptSucceeded(limits)
        return token
    }

    private func account(of name: AccountName, _ user: IssuerUser?) -> SignInLimits.Account {
        user.map { .user(subject: $0.subject) } ?? .none(Digest256(hashing: Array(name.key.utf8)))
    }

    private func client(of attempt: SignInAttempt, _ user: IssuerUser?) -> SignInLimits.Client {
        if let known = attempt.known, let user, known.isOf(user.subject, by: context.master.knownBrowserKey) {
            return .known(known, of: user.subject)
        }
        return .new(attempt.networks)
    }

    // MARK: New secrets

    /// Hashes a new password of a user.
    func hash(_ password: Secret<String>, of subject: String) async throws(OAuthError) -> PasswordHash {
        try await hashing { () async throws(PasswordHasher.Rejection) in
            try await hasher.hash(password, for: .init(name: subject, isKnown: true))
        }
    }

    private func hashing<Result>(_ body: () async throws(PasswordHasher.Rejection) -> Result) async throws(OAuthError) -> Result {
        do throws(PasswordHasher.Rejection) {
            return try await body()
        } catch {
            switch error {
            case .busy: throw .later(PageText("error.busy"), status: 503, after: 5_000)
            case .refused(let error): throw error
            }
        }
    }

    /// Makes new recovery codes. Older ones no longer work.
    func makeRecoveryCodes(
        of subject: String,
        _ agent: String,
        now: Milliseconds,
        in records: any IssuerTransaction
    ) throws -> [RecoveryCode] {
        let codes = (0..<RecoveryCode.count).map { _ in RecoveryCode() }
        let key = context.master.recoveryKey
        try records.setRecoveryCodes(codes.map { $0.digest(by: key) }, of: subject)
        try records.note(.recoveryCodesMade, of: subject, agent, now: now)
        return codes
    }

    // MARK: Browsers

    /// Signs a user in, with a new secret for the browser. The browser's former session ends.
    func beginSession(of subject: String, _ visit: Visit, in records: any IssuerTransaction) throws -> SignedInBrowser {
        let token = BrowserToken()
        if let former = visit.session { _ = try records.removeSession(former.id, of: former.subject) }
        try records.insert(WebSession(id: token.session, subject: subject, agent: visit.agent, created: visit.now, used: visit.now))
        try records.note(.signedIn, of: subject, visit.agent, now: visit.now)
        let known = KnownBrowser(of: subject, by: context.master.knownBrowserKey, after: visit.known)
        return SignedInBrowser(subject: subject, token: token, known: known)
    }
}

extension IssuerTransaction {
    /// Sets a new password. Ends all sessions of the user, because one of them may belong to a thief of the old password.
    func replacePassword(_ hash: PasswordHash, of subject: String, _ agent: String, now: Milliseconds) throws {
        try setPassword(hash, of: subject)
        try removeSetUpToken(of: subject)
        try removeSessions(of: subject)
        try note(.passwordSet, of: subject, agent, now: now)
    }
}
