// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The issuer's durable data. A transaction is one closure over rows.
package protocol IssuerStore: Sendable {
    /// Runs a transaction, which is applied completely or not at all. Returns when it is durable.
    /// - Parameter body: It may run again, so it must have no effects outside.
    /// - Throws: An error of the body, or of the store. After `unavailable` the transaction may be applied nevertheless.
    func write<Result: Sendable>(_ body: @escaping @Sendable (any IssuerTransaction) throws -> Result) async throws(IssuerError) -> Result
    func read<Result: Sendable>(_ body: @escaping @Sendable (any IssuerTransaction) throws -> Result) async throws(IssuerError) -> Result
    /// Runs a transaction that counts. Concurrent ones run at the same time, but wait for each other with a name that one of them holds.
    /// - Parameter body: As in `write`.
    func count<Result: Sendable>(_ body: @escaping @Sendable (any AttemptTransaction) throws -> Result) async throws(IssuerError) -> Result
    func close() throws(IssuerError)
}

/// The rows of attempts, within one transaction. See `AttemptLimit` for the names.
package protocol AttemptTransaction {
    func attempts(_ id: Digest256) throws -> Attempts?
    /// As `attempts`. Until the transaction ends, no other one holds the name or changes what is counted under it.
    func heldAttempts(_ id: Digest256, now: Milliseconds) throws -> Attempts?
    /// Replaces attempts that are held.
    func set(_ attempts: Attempts, _ id: Digest256) throws
    /// Counts one attempt less, and ends the wait.
    func takeAttemptBack(_ id: Digest256) throws
    func removeAttempts(_ id: Digest256) throws
    /// Deletes attempts, proofs and challenges that do not count any more. It is apart from `IssuerTransaction.use`, because transactions that
    /// both delete such rows do not fit to each other.
    func forgetEnded(before now: Milliseconds) throws
}

/// What may be used once: a DPoP proof, or a challenge that a passkey answers.
package enum UsedOnce {
    /// How long it is remembered after its end, in milliseconds. The clock of another node may be behind.
    package static let memory: Int64 = 60_000
}

/// The issuer's rows, within one transaction. It is an error to insert a row that is there already, or a row of a user who is not, and to
/// write in a transaction that reads.
package protocol IssuerTransaction {
    // MARK: Users

    /// - Parameter key: The key by which the name is looked up.
    func insert(_ user: IssuerUser, key: String, now: Milliseconds) throws
    /// Returns all users, oldest first.
    func users() throws -> [IssuerUser]
    func hasUser(_ subject: String) throws -> Bool
    func rename(_ subject: String, to name: AccountName) throws
    /// Removes a user with all its rows.
    func removeUser(_ subject: String) throws

    func user(_ subject: String) throws -> IssuerUser?
    func user(named name: AccountName) throws -> IssuerUser?

    // MARK: How users sign in

    func password(of subject: String) throws -> PasswordHash?
    func setPassword(_ hash: PasswordHash, of subject: String) throws
    func removePassword(of subject: String) throws
    func insert(_ passkey: Passkey) throws
    func passkey(_ id: [UInt8]) throws -> Passkey?
    func passkeys(of subject: String) throws -> [Passkey]
    /// Writes the passkey's counter.
    func update(_ passkey: Passkey) throws
    func removePasskey(_ id: [UInt8]) throws
    func removePasskeys(of subject: String) throws
    /// Replaces the user's former token.
    func setSetUpToken(_ token: Digest256, _ kind: SetUpKind, of subject: String, expires: Milliseconds) throws
    func setUp(_ token: Digest256, now: Milliseconds) throws -> (subject: String, kind: SetUpKind)?
    func removeSetUpToken(of subject: String) throws
    /// Replaces the user's former codes.
    func setRecoveryCodes(_ codes: [Digest256], of subject: String) throws
    /// Removes a code.
    /// - Returns: Whether it existed.
    func useRecoveryCode(_ code: Digest256, of subject: String) throws -> Bool
    /// Returns the number of unused codes.
    func recoveryCodes(of subject: String) throws -> Int

    // MARK: Signed-in browsers

    /// Inserts a session. If the user has too many, the least recently used one ends.
    func insert(_ session: WebSession) throws
    func session(_ id: Digest256) throws -> WebSession?
    /// Returns the sessions of a user, most recently used first.
    func sessions(of subject: String) throws -> [WebSession]
    func setUsed(_ id: Digest256, at now: Milliseconds) throws
    /// Removes a session.
    /// - Returns: Whether it existed.
    func removeSession(_ id: Digest256, of subject: String) throws -> Bool
    /// Ends all sessions. Also deletes their authorizations of apps and devices that have not requested their tokens yet.
    func removeSessions(of subject: String) throws

    // MARK: Account events

    /// Adds an event, and deletes the oldest events beyond the bound.
    func note(_ kind: AccountEvent.Kind, of subject: String, _ detail: String, now: Milliseconds) throws
    /// Returns the events of an account, newest first.
    func events(of subject: String) throws -> [AccountEvent]

    // MARK: Invitations

    func insert(_ invitation: Invitation) throws
    func openInvitations(of subject: String, now: Milliseconds) throws -> Int
    func invitation(_ code: Digest256) throws -> Invitation?
    /// Deletes the unused invitations of an inviter.
    func removeOpenInvitations(madeBy key: String) throws
    func redeem(_ code: Digest256, _ redemption: Invitation.Redemption) throws

    // MARK: Authorizations of clients

    /// Inserts a code, and deletes the oldest codes of its user beyond the bound.
    func insert(_ code: AuthorizationCode) throws
    func authorizationCode(_ code: Digest256) throws -> AuthorizationCode?
    func redeem(authorizationCode code: Digest256, _ redemption: Invitation.Redemption) throws

    /// - Parameter client: The networks of the device.
    func insert(_ authorization: DeviceAuthorization, from client: ClientNetworks) throws
    func deviceAuthorization(_ code: Digest256) throws -> DeviceAuthorization?
    func deviceAuthorization(userCode: Digest256) throws -> DeviceAuthorization?
    /// Makes room for one more pending device. If there are too many, it deletes the oldest one at the address with the most pending
    /// devices, in the network with the most.
    /// - Returns: Whether there is room.
    func makeRoomForDeviceAuthorization(at now: Milliseconds) throws -> Bool
    func decide(_ code: Digest256, _ decision: DeviceAuthorization.Decision) throws
    func removeDeviceAuthorization(_ code: Digest256) throws

    // MARK: Proofs and challenges

    /// Uses a proof or a challenge for what the transaction grants.
    /// - Parameter end: When it is no longer valid.
    /// - Returns: Whether it was not used before.
    func use(_ id: Digest256, until end: Milliseconds) throws -> Bool

    // MARK: Resource servers

    func setResourceServer(_ name: String, secret: Digest256) throws
    /// - Returns: Whether it existed.
    func removeResourceServer(_ name: String) throws -> Bool
    func secret(ofResourceServer name: String) throws -> Digest256?
    /// Returns the names, sorted.
    func resourceServers() throws -> [String]

    // MARK: Logins

    func insert(_ family: RefreshFamily) throws
    func family(_ id: FamilyID) throws -> RefreshFamily?
    /// Returns the login whose access tokens have this `sid`.
    func family(session: String) throws -> RefreshFamily?
    /// Returns the logins of a key, and the login of a session, that are not revoked.
    func openLogins(boundTo key: String, session: String?) throws -> [RefreshFamily]
    /// Returns all logins of a user that are not revoked.
    func openLogins(of subject: String) throws -> [RefreshFamily]
    /// Returns the `count` most recently used logins of a user that are not revoked, latest first.
    func openLogins(of subject: String, upTo count: Int) throws -> [RefreshFamily]
    /// Returns all but the `count` most recently used logins of a user that are not revoked.
    func openLogins(of subject: String, beyond count: Int) throws -> [RefreshFamily]
    /// Marks the logins of a key, and the login of a session, as logins of a revoked endpoint.
    func endpointRevoked(boundTo key: String, session: String?) throws
    /// Returns the logins that were revoked after a time.
    func revoked(since time: Milliseconds) throws -> [RefreshFamily]
    /// Writes the parts of a login that change: its current token, and its revocation.
    func update(_ family: RefreshFamily) throws
    /// Deletes the oldest revoked logins of a user beyond the bound. Logins that were revoked after `time` stay, so that their tokens stay
    /// known as revoked.
    func forgetRevokedLogins(of subject: String, before time: Milliseconds) throws
    /// Deletes expired rows.
    func forget(before now: Milliseconds) throws

    // MARK: Keys

    func insert(_ key: SealedSigningKey) throws
    func removeKey(_ id: String) throws
    func sealedKeys() throws -> [SealedSigningKey]
    /// Returns the seal that the master key made when the database was created.
    func seal() throws -> [UInt8]?
    func setSeal(_ seal: [UInt8]) throws
}

/// A signing key as it is stored.
package struct SealedSigningKey: Hashable, Sendable {
    package var entry: SigningKeyRing.Entry
    package var sealed: [UInt8]
}

extension IssuerTransaction {
    func insert(_ key: P256SigningKey, activates: Milliseconds, sealedBy master: MasterKey) throws {
        let id = key.publicKey.jwkThumbprint
        let sealed = try master.seal(key.rawRepresentation, label: id)
        try insert(SealedSigningKey(entry: .init(id: id, activates: activates), sealed: sealed))
    }

    func keys(openedBy master: MasterKey) throws -> [(entry: SigningKeyRing.Entry, key: P256SigningKey)] {
        try sealedKeys().map { key in
            (key.entry, try P256SigningKey(rawRepresentation: master.open(key.sealed, label: key.entry.id)))
        }
    }

    /// Checks that the key is the one with which these rows were created. Call it first.
    package func checkSeal(by master: MasterKey) throws {
        let label = "seal"
        if let sealed = try seal() {
            _ = try master.open(sealed, label: label)
        } else {
            try setSeal(master.seal([], label: label))
        }
    }
}
