// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Logging
package import RelayLog
package import RelayProtocol
import RelayStorage

/// The embedded issuer: manages the users and issues the tokens that authenticate them. It has no private access to the relay.
package final class Issuer: Sendable {
    let context: IssuerContext
    let limits: IssuerLimits
    let keyRing: KeyRing
    let accessTokens: AccessTokens
    let logins: Logins
    let invitations: Invitations
    let tokens: TokenEndpoint
    let introspection: IntrospectionEndpoint
    let devices: DeviceAuthorizations
    let signIn: SignIn
    let passkeys: Passkeys
    let setUps: SetUps
    let accounts: (any AccountHolder)?

    package struct Settings: Sendable {
        /// The service's public URLs without a path, the main URL first. Each of them is a name of the issuer. An empty list
        /// limits the issuer to the operator's commands.
        package var origins: [String]
        /// The audience of access tokens: the relay.
        package var audience: String
        /// Who runs the relay, for the header of pages.
        package var operatorName: String?
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
        context = IssuerContext(
            store: store,
            master: master,
            now: now,
            logger: logger,
            events: settings.events,
            origins: settings.origins,
            operatorName: settings.operatorName
        )
        limits = IssuerLimits(settings, store: store, now: now)
        keyRing = KeyRing(store: store, master: master)
        accounts = settings.accounts
        accessTokens = AccessTokens(context: context, keyRing: keyRing, audience: settings.audience)
        logins = Logins(context, limits, revoked: revoked)
        invitations = Invitations(context: context, limits: limits, accessTokens: accessTokens, mayInvite: settings.mayInvite)
        tokens = TokenEndpoint(context, logins: logins, accessTokens: accessTokens)
        introspection = IntrospectionEndpoint(context: context, accessTokens: accessTokens)
        devices = DeviceAuthorizations(context, perTenMinutes: settings.deviceRequestsPerTenMinutes)
        signIn = SignIn(context, attemptsPerHour: settings.passwordAttemptsPerHour, cost: settings.passwordCost)
        passkeys = Passkeys(context, signIn: signIn, perMinute: settings.passkeySignInsPerMinute)
        setUps = SetUps(context: context, logins: logins, accounts: settings.accounts)
    }

    /// Opens the issuer whose database and key file are in a directory, or creates them.
    package static func open(
        _ directory: String,
        settings: Settings,
        now: @escaping @Sendable () -> Milliseconds,
        logger: Logger,
        revoked: @escaping @Sendable (RevokedLogin) -> Void = { _ in }
    ) throws(IssuerError) -> Issuer {
        let (store, master) = try openStore(in: directory)
        return Issuer(store: store, master: master, settings: settings, now: now, logger: logger, revoked: revoked)
    }

    /// The name of the file with the key that seals the store.
    package static let keyFileName = "issuer.key"

    /// Opens the database and the key file in a directory, or creates them.
    package static func openStore(in directory: String) throws(IssuerError) -> (any IssuerStore, MasterKey) {
        let database = directory + "/issuer.sqlite"
        let master = try MasterKey(path: "\(directory)/\(keyFileName)", mayCreate: !PrivateFile.exists(database))
        return (try SQLiteIssuerStore(path: database, master: master), master)
    }

    /// Closes the store. Later requests fail.
    package func close() throws(IssuerError) { try store.close() }

    var store: any IssuerStore { context.store }
    var master: MasterKey { context.master }

    /// The values of `iss`, the main URL first.
    package var urls: [String] { context.urls }

    /// Returns the public keys that verify the issuer's tokens.
    package func publishedKeys() async throws(IssuerError) -> JSONWebKeySet { try await keyRing.published(at: context.now()) }

    /// Returns the logins that were revoked since a time, and whose access tokens may still be valid. A relay loads all of them at its start.
    package func revokedLogins(since time: Milliseconds = 0) async throws(IssuerError) -> [RevokedLogin] {
        try await logins.revoked(since: time)
    }
}
