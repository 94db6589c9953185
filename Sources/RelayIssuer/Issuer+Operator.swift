// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Logging
package import RelayProtocol

/// What the relay and its operator do with users, logins and resource servers.
extension Issuer {
    // MARK: Users

    /// Creates a user.
    /// - Returns: The subject of the user's tokens.
    package func createUser(name: String) async throws(IssuerError) -> String {
        let name = try Issuer.checked(name)
        let user = IssuerUser(name: name)
        let now = context.now()
        try await store.write { records in
            guard try records.user(named: name) == nil else { throw IssuerError.nameTaken }
            try records.insert(user, key: name.key, now: now)
        }
        return user.subject
    }

    /// Returns all users, oldest first.
    package func users() async throws(IssuerError) -> [IssuerUser] { try await store.read { try $0.users() } }

    /// Creates a code that admits one endpoint to the user's account. It is valid for ten minutes.
    package func invite(subject: String) async throws(IssuerError) -> Secret<String> { try await invitations.make(subject: subject) }

    /// Records an event at the relay for a user's account.
    package func note(_ kind: AccountEvent.Kind, of subject: String, detail: String) async throws(IssuerError) {
        let now = context.now()
        try await store.write { records in
            guard try records.hasUser(subject) else { return }
            try records.note(kind, of: subject, detail, now: now)
        }
    }

    /// Throws `nameInvalid` if a user cannot have the name.
    package static func checked(_ name: String) throws(IssuerError) -> AccountName {
        guard let name = AccountName(name) else { throw .nameInvalid }
        return name
    }

    package func rename(_ subject: String, to name: String) async throws(IssuerError) {
        let name = try Issuer.checked(name)
        try await store.write { records in
            guard try records.hasUser(subject) else { throw IssuerError.unknownUser }
            let holder = try records.user(named: name)
            guard holder == nil || holder?.subject == subject else { throw IssuerError.nameTaken }
            try records.rename(subject, to: name)
        }
    }

    /// Removes a user with all logins and invitations. The call may be repeated.
    package func remove(_ subject: String) async throws(IssuerError) { try await logins.removeUser(subject) }

    // MARK: How users sign in

    /// Makes a link with which the account's owner sets a password or a passkey. It works once, within a day, and replaces the account's
    /// former link.
    /// - Parameters:
    ///   - origin: A public URL of the service, without a path.
    ///   - isReset: Whether the password, passkeys, recovery codes and browsers end at once. Apps, devices and identities of other issuers
    ///     then end when the link is used.
    package func setUpLink(subject: String, origin: String, isReset: Bool = false) async throws(IssuerError) -> Secret<String> {
        let token = SetUpToken()
        let now = context.now()
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
        await context.log(.info, "made a set-up link", of: subject)
        return Secret("\(origin)\(Issuer.path)/setup?token=\(token.text.exposed)")
    }

    /// Throws `passwordInvalid` if an account with this name cannot have the password.
    package static func check(password: Secret<String>, name: String) throws(IssuerError) {
        if let objection = PasswordRule.objection(to: password, name: name) { throw .passwordInvalid(objection.english) }
    }

    /// Sets an account's password, and ends its sessions in browsers.
    package func setPassword(subject: String, to password: Secret<String>) async throws(IssuerError) {
        guard let user = try await store.read({ try $0.user(subject) }) else { throw .unknownUser }
        try Issuer.check(password: password, name: user.name)
        let hash: PasswordHash
        do throws(PasswordHasher.Rejection) {
            hash = try await signIn.hasher.hash(password, for: .init(name: subject, isKnown: true))
        } catch {
            throw .busy
        }
        let now = context.now()
        try await store.write { records in
            guard try records.hasUser(subject) else { throw IssuerError.unknownUser }
            try records.replacePassword(hash, of: subject, "", now: now)
        }
    }

    /// Returns the events of an account, newest first.
    package func events(of subject: String) async throws(IssuerError) -> [AccountEvent] {
        try await store.read { try $0.events(of: subject) }
    }

    // MARK: Logins

    /// Ends all logins of a revoked endpoint. The call may be repeated after a crash.
    /// - Parameters:
    ///   - thumbprint: The thumbprint of the endpoint's key.
    ///   - session: The `sid` of a token that it used.
    package func endLogins(boundTo thumbprint: String, session: String?) async throws(IssuerError) {
        try await logins.end(boundTo: thumbprint, session: session)
    }

    /// Revokes a login by the `sid` of its access tokens.
    package func endLogin(session: String) async throws(IssuerError) { try await logins.end(session: session, because: "ended a login") }

    // MARK: Signing keys

    /// A key that signs access tokens, without its secret.
    package struct SigningKey: Hashable, Sendable {
        package enum Phase: String, Codable, Sendable {
            /// - former: it signs no more, but its tokens are still accepted.
            case former, signing, next
        }

        /// The key's thumbprint, `kid` in its tokens.
        package var id: String
        package var phase: Phase
        /// When it begins to sign.
        package var activates: Milliseconds
    }

    /// The stored signing keys, oldest first. There is none before the first token.
    package func signingKeys() async throws(IssuerError) -> [SigningKey] {
        let (now, ring) = (context.now(), try await keyRing.stored())
        let signer = ring.signer(at: now)
        return ring.entries.map { entry in
            let phase: SigningKey.Phase = entry == signer ? .signing : entry.activates > now ? .next : .former
            return SigningKey(id: entry.id, phase: phase, activates: entry.activates)
        }
    }

    /// Removes a signing key that others may have. If it signs, a new key signs from now on. The login behind each of its tokens stays.
    package func removeSigningKey(_ id: String) async throws(IssuerError) { try await keyRing.remove(id, at: context.now()) }

    /// Returns the signing keys that this or another process has removed since the last call, without those that were never used here.
    package func removedKeys() async throws(IssuerError) -> Set<String> { try await keyRing.look() }

    // MARK: Resource servers

    /// Registers a resource server, or replaces its secret.
    /// - Returns: The secret with which it authenticates by HTTP Basic.
    package func addResourceServer(_ name: String) async throws(IssuerError) -> Secret<String> {
        // Only characters that OAuth's encoding for HTTP Basic (RFC 6749 §2.3.1) does not change.
        guard (1...64).contains(name.utf8.count), FormCoding.encode(name).utf8.elementsEqual(name.utf8) else {
            throw .resourceServerNameInvalid
        }
        let secret = Secret(Base64.url.encode(randomBytes(32)))
        let digest = Digest256(hashing: Array(secret.exposed.utf8))
        try await store.write { try $0.setResourceServer(name, secret: digest) }
        return secret
    }

    /// Removes a resource server.
    /// - Returns: Whether it existed.
    package func removeResourceServer(_ name: String) async throws(IssuerError) -> Bool {
        try await store.write { try $0.removeResourceServer(name) }
    }

    /// The names of the registered resource servers.
    package func resourceServers() async throws(IssuerError) -> [String] { try await store.read { try $0.resourceServers() } }
}
