// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Logging
package import RelayLog
package import RelayProtocol
import RelayStorage
import Synchronization

/// The embedded issuer: manages the users and issues the tokens that authenticate them. It has no private access to the relay.
package final class Issuer: Sendable {
    let settings: Settings
    let now: @Sendable () -> Milliseconds
    let logger: Logger
    let store: any IssuerStore
    let keyRing: KeyRing
    let master: MasterKey
    let revoked: @Sendable (RevokedLogin) -> Void
    let bounds: Mutex<Bounds>
    let hasher: PasswordHasher

    package struct Settings: Sendable {
        /// The service's public URLs without a path, the main URL first. Each of them is a name of the issuer. An empty list
        /// limits the issuer to the operator's commands.
        package var origins: [String]
        /// The audience of access tokens: the relay.
        package var audience: String
        /// The maximum number of failed requests per minute for each client address. Valid requests are not limited.
        package var failuresPerMinute = 60
        /// The maximum number of addresses whose failures are counted.
        package var failureAddresses = 10_000
        /// The maximum number of tokens per minute for each user, and the same number of invitations.
        package var grantsPerMinute = 640
        /// The maximum number of refreshes per minute for each login, within the user's limit, and the same number of invitations. An
        /// endpoint refreshes every 15 minutes.
        package var grantsPerLoginAndMinute = 32
        /// The maximum number of sign-ins with a password per hour for each account, over all clients in which its user has not signed in
        /// before. Beyond it, the owner can still use a browser with an earlier sign-in, a passkey or a recovery code.
        package var passwordAttemptsPerHour = 100
        /// The maximum number of sign-ins with a passkey per minute for each user.
        package var passkeySignInsPerMinute = 60
        /// The cost of a new password's hash, as the base-2 logarithm of scrypt's N. With 17, a hash takes 128 MiB and a quarter of a
        /// second.
        package var passwordCost = 17
        /// The maximum number of devices that an address may begin to sign in, in ten minutes.
        package var deviceRequestsPerTenMinutes = 30
        /// Whether the endpoint with the key of this thumbprint may invite devices into the account of a subject.
        package var mayInvite: @Sendable (_ thumbprint: String, _ subject: String) async -> Bool = { _, _ in true }

        /// Is called for every sign-in, successful or not.
        package var events: @Sendable (RelayEvent) -> Void = { _ in }
        /// The relay; `nil` if the account pages show no devices.
        package var accounts: (any AccountHolder)?

        package init(origins: [String], audience: String) {
            self.origins = origins
            self.audience = audience
        }
    }

    /// A revoked login. Its tokens are invalid, including tokens on live channels.
    package struct RevokedLogin: Hashable, Sendable {
        package let subject: String
        /// The `sid` of its access tokens.
        package let session: String
        /// The time at which the last of its access tokens has expired, including clock skew.
        package let tokensEnd: Milliseconds

        init(_ family: RefreshFamily, at time: Milliseconds) {
            self.subject = family.subject
            self.session = family.id.session
            self.tokensEnd = Milliseconds(clamping: time.count + RevokedLogin.memory)
        }

        /// The life of an access token plus the clock skew.
        static let memory = AccessTokenClaims.life + 120_000
    }

    /// The kinds of grants that are limited for each user and login.
    enum GrantKind: String {
        case tokens, invitations
    }

    /// The limits of one kind of grant.
    struct GrantLimits {
        private var users: RateLimiter
        private var logins: RateLimiter

        init(perUser: Int, perLogin: Int) {
            users = RateLimiter(perWindow: perUser, capacity: 10_000)
            logins = RateLimiter(perWindow: perLogin, capacity: 10_000)
        }

        enum Excess: Hashable {
            case login(Milliseconds)
            case user(Milliseconds)
        }

        /// Counts a grant.
        /// - Parameter login: The requesting login. It has a limit of its own, so that it cannot use up the limit of the user's other
        ///   logins.
        /// - Returns: The limit that is reached, and the time to wait.
        mutating func add(_ subject: String, login: String?, now: Milliseconds) -> Excess? {
            if let wait = login.flatMap({ logins.add($0, now: now) }) { return .login(wait) }
            return users.add(subject, now: now).map { .user($0) }
        }
    }

    struct Bounds {
        var proofs: ReplayCache
        /// The challenges that passkeys answered. `passkeys` bounds them for each user, so that no user can fill the cache.
        var challenges: ReplayCache
        /// Sign-ins with a passkey by subject.
        var passkeys: RateLimiter
        var failures: RateLimiter
        var tokens: GrantLimits
        var invitations: GrantLimits
        var deviceRequests: RateLimiter
        /// Polls of pending devices. The window is a little shorter than the interval, because the network may shorten the interval.
        var polls = RateLimiter(perWindow: 1, capacity: 2 * DeviceAuthorization.maximum, window: DeviceAuthorization.interval * 4 / 5)
        /// Attempts with user codes.
        var userCodes = BackOff()
        /// Attempts with passwords. Each attempt costs a hash, so attackers cannot cheaply displace other entries from the tables.
        var passwords: SignInLimits
        /// Attempts with recovery codes.
        var recoveries: SignInLimits

        init(_ settings: Settings, began: Milliseconds) {
            proofs = ReplayCache(began: began)
            challenges = ReplayCache(began: began)
            failures = RateLimiter(perWindow: settings.failuresPerMinute, capacity: settings.failureAddresses)
            tokens = GrantLimits(perUser: settings.grantsPerMinute, perLogin: settings.grantsPerLoginAndMinute)
            invitations = tokens
            deviceRequests = RateLimiter(perWindow: settings.deviceRequestsPerTenMinutes, capacity: 10_000, window: 600_000)
            passkeys = RateLimiter(perWindow: settings.passkeySignInsPerMinute, capacity: 10_000)
            passwords = SignInLimits(attemptsPerHour: settings.passwordAttemptsPerHour)
            // A code cannot be guessed, so there is no hourly limit. Attackers must not be able to lock the owner out of recovery.
            recoveries = SignInLimits(attemptsPerHour: .max)
        }
    }

    /// The issuer's path below each public URL.
    package static let path = "/auth"

    /// - Parameters:
    ///   - master: The key that sealed the store.
    ///   - now: The relay's clock.
    ///   - revoked: Is called after a login was revoked.
    package init(
        store: any IssuerStore,
        master: MasterKey,
        settings: Settings,
        now: @escaping @Sendable () -> Milliseconds,
        logger: Logger,
        revoked: @escaping @Sendable (RevokedLogin) -> Void = { _ in }
    ) {
        self.settings = settings
        self.now = now
        self.logger = logger
        self.revoked = revoked
        self.master = master
        self.store = store
        self.keyRing = KeyRing(store: store, master: master)
        self.bounds = Mutex(Bounds(settings, began: now()))
        self.hasher = PasswordHasher(cost: .init(logRounds: min(max(settings.passwordCost, 1), 20)))
    }

    /// Opens the issuer whose database and key file are in a directory, or creates them.
    package static func open(
        _ directory: String,
        settings: Settings,
        now: @escaping @Sendable () -> Milliseconds,
        logger: Logger,
        revoked: @escaping @Sendable (RevokedLogin) -> Void = { _ in }
    ) throws(IssuerError) -> Issuer {
        let database = directory + "/issuer.sqlite"
        let master = try MasterKey(path: directory + "/issuer.key", mayCreate: !PrivateFile.exists(database))
        let store = try SQLiteIssuerStore(path: database, master: master)
        return Issuer(store: store, master: master, settings: settings, now: now, logger: logger, revoked: revoked)
    }

    /// Closes the store. Later requests fail.
    package func close() throws(IssuerError) { try store.close() }

    /// The values of `iss`, the main URL first.
    package var urls: [String] { settings.origins.map { $0 + Issuer.path } }

    /// Returns the public keys that verify the issuer's tokens.
    package func publishedKeys() async throws(IssuerError) -> JSONWebKeySet {
        try await keyRing.published(at: now())
    }

    /// Returns the revoked logins whose access tokens may still be valid. A relay loads them at its start.
    package func revokedLogins() async throws(IssuerError) -> [RevokedLogin] {
        let start = Milliseconds(clamping: now().count - RevokedLogin.memory)
        return try await store.read { records in
            try records.revoked(since: start).compactMap { family in family.revoked.map { RevokedLogin(family, at: $0) } }
        }
    }

    // MARK: Users

    /// Creates a user.
    /// - Returns: The subject of the user's tokens.
    package func createUser(name: String) async throws(IssuerError) -> String {
        let name = try Issuer.checked(name)
        let user = IssuerUser(name: name)
        let now = now()
        try await store.write { records in
            guard try records.user(named: name) == nil else { throw IssuerError.nameTaken }
            try records.insert(user, key: name.key, now: now)
        }
        return user.subject
    }

    /// Returns all users, oldest first.
    package func users() async throws(IssuerError) -> [IssuerUser] {
        try await store.read { try $0.users() }
    }

    /// Creates a code that admits one endpoint to the user's account. It is valid for ten minutes.
    package func invite(subject: String) async throws(IssuerError) -> Secret<String> {
        try await makeInvitation(subject: subject)
    }

    /// - Parameters:
    ///   - inviter: The inviting endpoint; `nil` for the operator.
    ///   - session: The inviter's login, which must not be revoked.
    func makeInvitation(
        subject: String,
        inviter: Invitation.Inviter? = nil,
        session: String? = nil
    ) async throws(IssuerError) -> Secret<String> {
        let code = InvitationCode()
        let now = now()
        let expires = Milliseconds(clamping: now.count + Invitation.life)
        try await store.write { records in
            guard try records.hasUser(subject) else { throw IssuerError.unknownUser }
            if let session {
                // Checked in the transaction that stores the invitation, so that a later revocation of the login finds the invitation.
                guard let family = try records.family(session: session), family.revoked == nil else { throw IssuerError.unknownLogin }
            }
            try records.forget(before: now)
            guard try records.openInvitations(of: subject, now: now) < Invitation.maximumOpen else { throw IssuerError.tooManyInvitations }
            try records.insert(Invitation(code: code.digest, subject: subject, inviter: inviter, expires: expires))
        }
        await log(.info, "made an invitation", of: subject)
        return code.text
    }
}
