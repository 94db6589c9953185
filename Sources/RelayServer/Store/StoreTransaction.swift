// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The stored state of an endpoint.
package struct EndpointRow: Hashable, Sendable {
    package var id: EndpointID
    package var account: AccountID
    package var version: UInt64
    /// The signed record.
    package var record: [UInt8]
    /// Whether it ever had a host channel.
    package var hasHosted: Bool
    /// How its last host channel ended, unless it is open or the relay stopped first.
    package var departure: Departure?
    /// The device of the record.
    package var system: SystemID
    /// The JWK thumbprint of the identity key, by which an issuer knows the endpoint.
    package var keyThumbprint: String
    /// Whether it may revoke other endpoints and invite: it was the account's first endpoint, belongs to the device of an established
    /// one, or has a voucher from one.
    package var isEstablished: Bool
    /// Whether it is established without any other one: it was the account's first endpoint, or one that let it in has left.
    package var isRoot: Bool
    /// How it joined the account.
    package var joining: Joining
    /// The login of the token in its last hello, if the token names one.
    package var login: Login?

    package struct Departure: Hashable, Sendable {
        package var reason: Presence.Reason
        /// Milliseconds since 1970.
        package var time: Int64

        package init(reason: Presence.Reason, time: Int64) {
            self.reason = reason
            self.time = time
        }
    }

    package init(
        id: EndpointID,
        account: AccountID,
        version: UInt64,
        record: [UInt8],
        hasHosted: Bool = false,
        departure: Departure? = nil,
        system: SystemID,
        keyThumbprint: String,
        isEstablished: Bool = false,
        isRoot: Bool = false,
        joining: Joining,
        login: Login? = nil
    ) {
        self.id = id
        self.account = account
        self.version = version
        self.record = record
        self.hasHosted = hasHosted
        self.departure = departure
        self.system = system
        self.keyThumbprint = keyThumbprint
        self.isEstablished = isEstablished
        self.isRoot = isRoot
        self.joining = joining
        self.login = login
    }
}

extension EndpointRow {
    /// Whether the limits for new endpoints apply to it at a target: it is not established, and belongs to another device.
    func isNew(to target: EndpointRow) -> Bool { !isEstablished && system != target.system }
}

/// The stored state of a revoked endpoint.
package struct RevocationRow: Hashable, Sendable {
    package var endpoint: EndpointID
    package var account: AccountID
    /// The signed statement and its signer; `nil` if the operator revoked the endpoint.
    package var statement: Statement?
    /// Milliseconds since 1970.
    package var time: Int64
    /// Whether it is kept permanently. Otherwise it exists only until the endpoint's logins have ended.
    package var isKept: Bool
    /// Identifies the endpoint's logins.
    package var keyThumbprint: String
    package var login: Login?
    /// Whether the endpoint's logins have ended.
    package var loginsEnded: Bool

    package struct Statement: Hashable, Sendable {
        package var revoker: EndpointID
        package var revocation: [UInt8]

        package init(revoker: EndpointID, revocation: [UInt8]) {
            self.revoker = revoker
            self.revocation = revocation
        }
    }

    package init(of endpoint: EndpointRow, statement: Statement?, time: Int64, isKept: Bool, loginsEnded: Bool) {
        self.init(
            endpoint: endpoint.id,
            account: endpoint.account,
            statement: statement,
            time: time,
            isKept: isKept,
            keyThumbprint: endpoint.keyThumbprint,
            login: endpoint.login,
            loginsEnded: loginsEnded
        )
    }

    init(
        endpoint: EndpointID,
        account: AccountID,
        statement: Statement?,
        time: Int64,
        isKept: Bool,
        keyThumbprint: String,
        login: Login?,
        loginsEnded: Bool
    ) {
        self.endpoint = endpoint
        self.account = account
        self.statement = statement
        self.time = time
        self.isKept = isKept
        self.keyThumbprint = keyThumbprint
        self.login = login
        self.loginsEnded = loginsEnded
    }
}

/// The stored state of a published app.
package struct RegistrationRow: Hashable, Sendable {
    package var appID: String
    package var version: UInt64
    /// The signed registration.
    package var registration: [UInt8]

    package init(appID: String, version: UInt64, registration: [UInt8]) {
        self.appID = appID
        self.version = version
        self.registration = registration
    }
}

/// An endpoint as its account sees it.
package struct DirectoryEntry: Hashable, Sendable {
    package var endpoint: EndpointRow
    package var introduction: Introduction
    /// Ordered by app id.
    package var registrations: [Blob<BlobKinds.AppRegistration>]
}

/// Identifies a command in the whole store.
package struct StoredCommandKey: Hashable, Sendable {
    package var account: AccountID
    package var command: CommandKey

    package init(account: AccountID, command: CommandKey) {
        self.account = account
        self.command = command
    }

    /// A sender hardly ever belongs to two accounts, so hashing the account would add nothing.
    package func hash(into hasher: inout Hasher) { hasher.combine(command) }
}

/// The commands stored in a lane.
package struct LaneUse: Hashable, Sendable {
    package var commands: Int
    /// Their highest number; `nil` if there are none.
    package var highest: UInt64?

    package init(commands: Int = 0, highest: UInt64? = nil) {
        self.commands = commands
        self.highest = highest
    }
}

/// The rows, within one transaction. A method with an account parameter sees only the rows of that account.
package protocol StoreTransaction {
    /// Converts an error of a body for the submitter: a database error becomes a `StoreError`.
    func failure(_ error: any Error) -> any Error

    /// Writes an arbitrary value, to test whether the store can write.
    func probe() throws

    /// The time since which the database is complete: its creation, or its restoration from a backup.
    func databaseBegan() throws -> Int64?
    func setDatabaseBegan(_ time: Int64) throws

    /// Stores a revoked token until it expires, and deletes expired ones.
    /// - Parameter digest: The `session` of its `Login`.
    func addRevokedToken(_ digest: String, ends: Int64, now: Int64) throws
    func revokedTokens() throws -> [(digest: String, ends: Int64)]

    // MARK: Across accounts. A transaction writes to the rows of one account only.

    func account(of identity: Identity) throws -> AccountID?
    /// An endpoint id exists once in all accounts.
    func account(ofEndpoint id: EndpointID) throws -> AccountID?
    /// The endpoint with an identity key.
    func endpoint(keyThumbprint: String) throws -> EndpointRow?
    func revocation(of id: EndpointID) throws -> RevocationRow?
    /// The revocations whose logins have not ended, oldest first.
    func revocationsWithLogins(limit: Int) throws -> [RevocationRow]
    /// The commands whose deadline has passed, earliest first.
    func dueCommands(at time: Int64, limit: Int) throws -> [StoredCommandKey]
    /// The push registrations for which there is something to do, earliest first.
    func duePushes(at time: Int64, limit: Int) throws -> [PushKey]
    /// The endpoints with a push channel that got no wake since they were last connected, or whose last wake no provider has accepted. Ordered
    /// by id.
    func unwokenPushes(after endpoint: EndpointID?, at time: Int64, limit: Int) throws -> [UnwokenPush]
    /// Begins the wakes of all endpoints anew for which commands wait: they are due now.
    func restartWakes(at time: Int64) throws

    // MARK: Accounts

    /// Adds an account with its first identity.
    func addAccount(_ id: AccountID, identity: Identity, time: Int64) throws
    /// The oldest first.
    func accounts() throws -> [AccountRow]
    func account(_ id: AccountID) throws -> AccountRow?
    func isDisabled(_ id: AccountID) throws -> Bool
    /// `nil` if there is no such account, or it has no name.
    func name(of id: AccountID) throws -> String?
    /// Throws `AccountNameTaken` if another account has the name.
    func setName(_ name: String, of id: AccountID) throws
    func setDisabled(_ isDisabled: Bool, of id: AccountID) throws
    /// Adds an identity that is of no account.
    func add(_ identity: AccountIdentity, to id: AccountID) throws
    /// Removes an identity from its account.
    func remove(_ identity: Identity, from id: AccountID) throws
    /// Removes the account with all that is of it, and remembers its identities as removed.
    func removeAccount(_ id: AccountID, time: Int64) throws
    /// Whether the account of the identity was removed.
    func isRemoved(_ identity: Identity) throws -> Bool
    /// The bytes of its commands, outcomes and registrations, with the writes of this transaction.
    func storedBytes(of account: AccountID) throws -> Int

    // MARK: Endpoints

    func endpoint(_ id: EndpointID, of account: AccountID) throws -> EndpointRow?
    /// Ordered by id.
    func endpoints(of account: AccountID) throws -> [EndpointRow]
    /// The endpoints with everything that watchers receive about them.
    func directory(of account: AccountID) throws -> [DirectoryEntry]
    /// Adds or replaces the endpoint. Throws if it belongs to another account.
    func put(_ endpoint: EndpointRow) throws
    /// Removes the endpoint with its registrations and vouchers.
    func removeEndpoint(_ id: EndpointID, of account: AccountID) throws

    /// Stores a revocation. The first one for an endpoint stays.
    func add(_ revocation: RevocationRow) throws
    /// The revocations that are kept, oldest first.
    func revocations(of account: AccountID) throws -> [RevocationRow]
    /// The number of revocations, with those that are not kept.
    func revocationCount(of account: AccountID) throws -> Int
    /// Records that the endpoint's logins have ended, and deletes a revocation that is not kept.
    func loginsEnded(of id: EndpointID) throws

    /// Ordered by app id.
    func registrations(of endpoint: EndpointID) throws -> [RegistrationRow]
    /// Adds or replaces an app of a stored endpoint.
    func put(_ registration: RegistrationRow, of endpoint: EndpointID, in account: AccountID) throws
    func removeRegistration(_ appID: String, of endpoint: EndpointID, in account: AccountID) throws
    /// The registrations of all accounts that have this text in any place.
    func registrations(mentioning text: String) throws -> [(account: AccountID, endpoint: EndpointID, row: RegistrationRow)]

    /// Ordered by the endpoints that gave them.
    func vouchers(for endpoint: EndpointID) throws -> [[UInt8]]
    /// The vouchers that one endpoint gave.
    func vouchers(by endpoint: EndpointID, of account: AccountID) throws -> [[UInt8]]
    /// Adds or replaces the voucher of one endpoint of the account for another.
    func putVoucher(_ voucher: [UInt8], for endpoint: EndpointID, by other: EndpointID, of account: AccountID) throws

    // MARK: Push registrations

    func push(of endpoint: EndpointID) throws -> PushRow?
    func pushes(of account: AccountID) throws -> [PushRow]
    /// Adds or replaces the registration of a stored endpoint.
    func put(_ push: PushRow) throws

    // MARK: Commands

    func command(_ key: StoredCommandKey) throws -> MailboxCommand?
    /// Adds a command that has neither ended nor been cancelled.
    /// - Parameter urgency: the class of the wakes for it.
    /// - Returns: whether it was added: `false` if the key exists, and then nothing has changed.
    func add(_ command: MailboxCommand, urgency: WakePayload.Urgency, blob: [UInt8], account: AccountID) throws -> Bool
    /// Writes a command's state, and deletes the blob of a final command.
    func update(_ command: MailboxCommand, account: AccountID) throws
    /// Keeps a command's state in a cache, if there is one, and writes nothing.
    func note(_ command: MailboxCommand, account: AccountID) throws
    func removeCommand(_ key: StoredCommandKey) throws
    func blob(of key: StoredCommandKey) throws -> [UInt8]?
    /// The commands that have not ended, in the order of storage.
    func mailbox(of target: EndpointID, account: AccountID) throws -> [CommandDescriptor]
    /// The most urgent commands among those that have neither ended nor expired; `nil` if there are none.
    func waiting(for target: EndpointID, account: AccountID, at time: Int64) throws -> WaitingCommands?
    /// The part of each sender. Senders without commands are absent.
    func mailboxShares(of target: EndpointID, account: AccountID) throws -> [EndpointID: MailboxUse]
    func use(of lane: CommandLane, account: AccountID) throws -> LaneUse
    /// All commands of a sender, in the order of storage.
    func commands(from sender: EndpointID, isFinal: Bool, account: AccountID) throws -> [CommandKey]
    /// The outcomes that wait for a sender.
    func outcomesUse(of sender: EndpointID, account: AccountID) throws -> MailboxUse

    // MARK: App identities and their push credentials, which belong to the relay and to no account

    /// Ordered by id.
    func appIdentities() throws -> [AppIdentity]
    func appIdentity(_ id: String) throws -> AppIdentity?
    /// Adds or replaces the identity with its apps.
    func put(_ identity: AppIdentity) throws
    /// Removes the identity with its apps and credentials.
    func removeAppIdentity(_ id: String) throws

    /// The credentials of all identities, oldest first.
    func credentials() throws -> [CredentialRow]
    /// Adds credentials to a stored identity.
    func add(_ credential: CredentialRow) throws
    func removeCredential(_ id: String) throws
}

extension StoreTransaction {
    func mailboxUse(of target: EndpointID, account: AccountID) throws -> MailboxUse {
        try mailboxShares(of: target, account: account).values.reduce(into: MailboxUse()) { sum, share in
            sum.commands += share.commands
            sum.bytes += share.bytes
        }
    }

    func highestNumber(in lane: CommandLane, account: AccountID) throws -> UInt64? { try use(of: lane, account: account).highest }
}
