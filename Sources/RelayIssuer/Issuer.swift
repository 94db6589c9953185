// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Logging
package import RelayProtocol
import Synchronization

/// The embedded issuer: who has an account here, and the tokens that prove it. It has no private way into the relay.
package final class Issuer: Sendable {
    let settings: Settings
    let now: @Sendable () -> Milliseconds
    let logger: Logger
    let store: any IssuerStore
    let keyRing: KeyRing
    let master: MasterKey
    let revoked: @Sendable (RevokedLogin) -> Void
    let bounds: Mutex<Bounds>

    package struct Settings: Sendable {
        /// Where `issuer.sqlite` and its key file are.
        package var directory: String
        /// The service's public URLs, without a path, the main one first. The issuer is known under each of them. Without any it serves its
        /// operator alone.
        package var origins: [String]
        /// What access tokens are for: the relay.
        package var audience: String
        /// Requests of one client address that may fail in a minute. Valid ones are served all the same.
        package var failuresPerMinute = 60
        /// Of how many addresses failures are counted.
        package var failureAddresses = 10_000
        /// Tokens and invitations that one user may have in a minute.
        package var grantsPerMinute = 640
        /// Of these, tokens and invitations that one login may have. An endpoint refreshes once in a quarter of an hour.
        package var grantsPerLoginAndMinute = 32
        /// Whether the endpoint with the key of this thumbprint may invite others into the account of a subject.
        package var mayInvite: @Sendable (_ thumbprint: String, _ subject: String) async -> Bool = { _, _ in true }

        package init(directory: String, origins: [String], audience: String) {
            self.directory = directory
            self.origins = origins
            self.audience = audience
        }
    }

    /// A login whose tokens shall work no longer, those on live channels included.
    package struct RevokedLogin: Hashable, Sendable {
        package let subject: String
        /// The `sid` of its access tokens.
        package let session: String
        /// When the last of them has ended, whatever clock it is read by.
        package let tokensEnd: Milliseconds

        init(_ family: RefreshFamily, at time: Milliseconds) {
            self.subject = family.subject
            self.session = family.id.session
            self.tokensEnd = Milliseconds(clamping: time.count + RevokedLogin.memory)
        }

        /// The life of an access token, and what clocks may be apart.
        static let memory = AccessToken.life + 120_000
    }

    struct Bounds {
        var proofs = ReplayCache()
        var failures: WindowCounts
        var grants: WindowCounts
        var logins: WindowCounts

        init(_ settings: Settings) {
            failures = WindowCounts(perWindow: settings.failuresPerMinute, capacity: settings.failureAddresses)
            grants = WindowCounts(perWindow: settings.grantsPerMinute, capacity: 10_000)
            logins = WindowCounts(perWindow: settings.grantsPerLoginAndMinute, capacity: 10_000)
        }
    }

    /// The path of the issuer below each public URL.
    package static let path = "/auth"

    /// Opens the issuer, or makes it.
    /// - Parameters:
    ///   - now: the relay's clock.
    ///   - revoked: called after a login was revoked.
    package init(
        settings: Settings,
        now: @escaping @Sendable () -> Milliseconds,
        logger: Logger,
        revoked: @escaping @Sendable (RevokedLogin) -> Void = { _ in }
    ) throws(IssuerError) {
        self.settings = settings
        self.now = now
        self.logger = logger
        self.revoked = revoked
        let database = settings.directory + "/issuer.sqlite"
        self.master = try MasterKey(path: settings.directory + "/issuer.key", mayCreate: !PrivateFile.exists(database))
        self.store = try SQLiteIssuerStore(path: database, master: master)
        self.keyRing = KeyRing(store: store, master: master)
        self.bounds = Mutex(Bounds(settings))
    }

    /// Closes the database. Requests fail from then on.
    package func close() throws(IssuerError) { try store.close() }

    /// What `iss` is, main one first.
    package var urls: [String] { settings.origins.map { $0 + Issuer.path } }

    /// The keys that check its tokens.
    package func publishedKeys() async throws(IssuerError) -> JSONWebKeySet {
        try await keyRing.published(at: now())
    }

    /// The logins that were revoked and may still have access tokens: what a relay that starts must know.
    package func revokedLogins() async throws(IssuerError) -> [RevokedLogin] {
        let start = Milliseconds(clamping: now().count - RevokedLogin.memory)
        return try await store.read { records in
            try records.revoked(since: start).compactMap { family in family.revoked.map { RevokedLogin(family, at: $0) } }
        }
    }

    // MARK: Users

    /// Makes a user.
    /// - Returns: the subject that tokens name.
    package func makeUser(name: String) async throws(IssuerError) -> String {
        guard (1...IssuerUser.maximumNameCharacters).contains(name.unicodeScalars.count), DisplayText.isPlain(name),
            DisplayText.isVisible(name)
        else { throw .nameInvalid }
        let user = IssuerUser(name: name)
        let now = now()
        try await store.write { records in
            guard try !records.hasUser(named: name) else { throw IssuerError.nameTaken }
            try records.insert(user, now: now)
        }
        return user.subject
    }

    /// All users, oldest first.
    package func users() async throws(IssuerError) -> [IssuerUser] {
        try await store.read { try $0.users() }
    }

    /// Makes a code that lets one endpoint into the user's account within ten minutes.
    package func invite(subject: String) async throws(IssuerError) -> Secret<String> {
        try await makeInvitation(subject: subject)
    }

    /// - Parameters:
    ///   - inviter: the endpoint that invites; `nil` for the operator.
    ///   - session: the inviter's login, which must not be revoked.
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
                // In the transaction that makes the invitation, so that what revokes the login finds it.
                guard let family = try records.family(session: session), family.revoked == nil else { throw IssuerError.unknownLogin }
            }
            try records.forget(before: now)
            guard try records.openInvitations(of: subject, now: now) < Invitation.maximumOpen else { throw IssuerError.tooManyInvitations }
            try records.insert(Invitation(code: code.digest, subject: subject, inviter: inviter, expires: expires))
        }
        logger.info("made an invitation", metadata: metadata(subject))
        return code.text
    }
}
