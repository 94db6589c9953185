// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Everything the issuer must not forget. A transaction is one closure over rows.
protocol IssuerStore: Sendable {
    /// Does all of something or nothing of it. Returns when it is durable.
    func write<Result: Sendable>(_ body: @escaping @Sendable (any IssuerTransaction) throws -> Result) async throws(IssuerError) -> Result
    func read<Result: Sendable>(_ body: @escaping @Sendable (any IssuerTransaction) throws -> Result) async throws(IssuerError) -> Result
    func close() throws(IssuerError)
}

/// The issuer's rows, within one transaction.
protocol IssuerTransaction {
    // MARK: Users

    /// - Parameter key: What the name is looked up by.
    func insert(_ user: IssuerUser, key: String, now: Milliseconds) throws
    /// The oldest first.
    func users() throws -> [IssuerUser]
    func hasUser(_ subject: String) throws -> Bool
    func rename(_ subject: String, to name: AccountName) throws
    /// Removes a user with all that is of it.
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
    /// Writes its counter.
    func update(_ passkey: Passkey) throws
    func removePasskey(_ id: [UInt8]) throws
    func removePasskeys(of subject: String) throws
    /// Replaces the user's former token.
    func setSetUpToken(_ token: Digest256, _ kind: SetUpKind, of subject: String, expires: Milliseconds) throws
    func setUp(_ token: Digest256, now: Milliseconds) throws -> (subject: String, kind: SetUpKind)?
    func removeSetUpToken(of subject: String) throws
    /// Replaces the user's former codes.
    func setRecoveryCodes(_ codes: [Digest256], of subject: String) throws
    /// Removes the code.
    /// - Returns: Whether there was one.
    func useRecoveryCode(_ code: Digest256, of subject: String) throws -> Bool
    /// How many are left.
    func recoveryCodes(of subject: String) throws -> Int

    // MARK: Signed-in browsers

    /// Ends the least recently used session of a user who has too many.
    func insert(_ session: WebSession) throws
    func session(_ id: Digest256) throws -> WebSession?
    /// The most recently used first.
    func sessions(of subject: String) throws -> [WebSession]
    func setUsed(_ id: Digest256, at now: Milliseconds) throws
    /// Whether there was one.
    func removeSession(_ id: Digest256, of subject: String) throws -> Bool
    /// Ends all sessions, and what they have allowed apps and devices that have not asked for their tokens yet.
    func removeSessions(of subject: String) throws

    // MARK: What happened to an account

    /// Adds an event, and forgets the oldest of too many.
    func note(_ kind: AccountEvent.Kind, of subject: String, _ detail: String, now: Milliseconds) throws
    /// The newest first.
    func events(of subject: String) throws -> [AccountEvent]

    // MARK: Invitations

    func insert(_ invitation: Invitation) throws
    func openInvitations(of subject: String, now: Milliseconds) throws -> Int
    func invitation(_ code: Digest256) throws -> Invitation?
    /// Deletes the unused invitations of an inviter.
    func removeOpenInvitations(madeBy key: String) throws
    func redeem(_ code: Digest256, _ redemption: Invitation.Redemption) throws

    // MARK: What users allow clients

    /// Forgets the oldest of too many codes of its user.
    func insert(_ code: AuthorizationCode) throws
    func authorizationCode(_ code: Digest256) throws -> AuthorizationCode?
    func redeem(authorizationCode code: Digest256, _ redemption: Invitation.Redemption) throws

    /// - Parameter client: The networks of the device.
    func insert(_ authorization: DeviceAuthorization, from client: ClientNetworks) throws
    func deviceAuthorization(_ code: Digest256) throws -> DeviceAuthorization?
    func deviceAuthorization(userCode: Digest256) throws -> DeviceAuthorization?
    /// Whether there is room for one more. If too many devices wait, the one makes room that has waited longest at the address with the most
    /// waiting devices, of the network with the most.
    func makeRoomForDeviceAuthorization(at now: Milliseconds) throws -> Bool
    func decide(_ code: Digest256, _ decision: DeviceAuthorization.Decision) throws
    func removeDeviceAuthorization(_ code: Digest256) throws

    // MARK: Resource servers

    func setResourceServer(_ name: String, secret: Digest256) throws
    /// - Returns: Whether there was one.
    func removeResourceServer(_ name: String) throws -> Bool
    func secret(ofResourceServer name: String) throws -> Digest256?
    /// Their names, in order.
    func resourceServers() throws -> [String]

    // MARK: Logins

    func insert(_ family: RefreshFamily) throws
    func family(_ id: FamilyID) throws -> RefreshFamily?
    /// The login that access tokens call by this name.
    func family(session: String) throws -> RefreshFamily?
    /// The logins of a key, and the one of a session, that were not revoked.
    func openLogins(boundTo key: String, session: String?) throws -> [RefreshFamily]
    /// All logins of a user that were not revoked.
    func openLogins(of subject: String) throws -> [RefreshFamily]
    /// The `count` most recently used of them, the latest first.
    func openLogins(of subject: String, upTo count: Int) throws -> [RefreshFamily]
    /// All but the `count` most recently used of them.
    func openLogins(of subject: String, beyond count: Int) throws -> [RefreshFamily]
    /// Notes of the logins of a key, and of the one of a session, that their endpoint was revoked.
    func endpointRevoked(boundTo key: String, session: String?) throws
    /// The logins that were revoked since.
    func revoked(since time: Milliseconds) throws -> [RefreshFamily]
    /// Writes what changes of a login: its current token, and whether it is revoked.
    func update(_ family: RefreshFamily) throws
    /// Forgets the oldest of too many revoked logins of a user. Those that were revoked after a time stay, so that their tokens stay
    /// known as revoked.
    func forgetRevokedLogins(of subject: String, before time: Milliseconds) throws
    /// Forgets what can no longer matter.
    func forget(before now: Milliseconds) throws

    // MARK: Keys

    func insert(_ key: SealedSigningKey) throws
    func removeKey(_ id: String) throws
    func sealedKeys() throws -> [SealedSigningKey]
    /// What the master key sealed when the rows were begun.
    func seal() throws -> [UInt8]?
    func setSeal(_ seal: [UInt8]) throws
}

/// A signing key as it is stored.
struct SealedSigningKey: Hashable, Sendable {
    var entry: SigningKeyRing.Entry
    var sealed: [UInt8]
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
    func checkSeal(by master: MasterKey) throws {
        let label = "seal"
        if let sealed = try seal() {
            _ = try master.open(sealed, label: label)
        } else {
            try setSeal(master.seal([], label: label))
        }
    }
}
