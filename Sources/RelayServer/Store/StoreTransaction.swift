// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// What is stored of an endpoint.
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
    /// The device that the record is of.
    package var system: SystemID
    /// The JWK thumbprint of the identity key, by which an issuer knows the endpoint.
    package var keyThumbprint: String
    /// Whether it may revoke others and invite: it was the account's first endpoint, is part of the device of an established one, or was
    /// vouched for by one.
    package var isEstablished: Bool
    /// Whether it was the account's first endpoint, which is established by the word of no other one.
    package var isFirst: Bool
    /// How it came into the account.
    package var joining: Joining
    /// The login of the token that it last said hello with, if that names one.
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
        isFirst: Bool = false,
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
        self.isFirst = isFirst
        self.joining = joining
        self.login = login
    }
}

extension EndpointRow {
    /// Whether it is held to what a newcomer may use of a target: nobody established vouches for it, and it is of another device.
    func isNewcomer(to target: EndpointRow) -> Bool { !isEstablished && system != target.system }
}

/// What is stored of an endpoint that was revoked.
package struct RevocationRow: Hashable, Sendable {
    package var endpoint: EndpointID
    package var account: AccountID
    /// The signed statement and who signed it; `nil` if the relay's operator revoked the endpoint.
    package var statement: Statement?
    /// Milliseconds since 1970.
    package var time: Int64
    /// Whether it is kept for ever. Else it is only there until the endpoint's logins have ended.
    package var isKept: Bool
    /// What the endpoint's logins are found by.
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

/// What is stored of a published app.
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
    /// In the order of the app ids.
    package var registrations: [Blob<BlobKinds.AppRegistration>]
}

/// Names a command in the whole store.
package struct StoredCommandKey: Hashable, Sendable {
    package var account: AccountID
    package var command: CommandKey

    package init(account: AccountID, command: CommandKey) {
        self.account = account
        self.command = command
    }

    /// Hardly ever is a sender of two accounts, so the account would tell no more.
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

/// The rows, within one transaction. What names an account sees that account's rows only.
package protocol StoreTransaction {
    /// What a body threw, as whoever submitted it shall know it: an error of the database is a `StoreError`.
    func failure(_ error: any Error) -> any Error

    /// Writes something, whatever it is: where that fails, nothing can be stored.
    func probe() throws

    /// Since when the database has missed nothing: when it was begun, or restored from a copy.
    func databaseBegan() throws -> Int64?
    func setDatabaseBegan(_ time: Int64) throws

    /// Remembers a single revoked token until its time is over, and forgets those whose time is.
    /// - Parameter digest: The `session` of its `Login`.
    func addRevokedToken(_ digest: String, ends: Int64, now: Int64) throws
    func revokedTokens() throws -> [(digest: String, ends: Int64)]

    // MARK: Across accounts: which account something is of, or what is due in any. A transaction writes to the rows of one account only.

    func account(of identity: Identity) throws -> AccountID?
    /// An endpoint's id is registered once.
    func account(ofEndpoint id: EndpointID) throws -> AccountID?
    /// The endpoint with an identity key.
    func endpoint(keyThumbprint: String) throws -> EndpointRow?
    func revocation(of id: EndpointID) throws -> RevocationRow?
    /// Those whose endpoint's logins have not ended, the oldest first.
    func revocationsWithLogins(limit: Int) throws -> [RevocationRow]
    /// The commands whose deadline has come, the earliest first.
    func dueCommands(at time: Int64, limit: Int) throws -> [StoredCommandKey]

    // MARK: Accounts

    /// Makes an account, with its first identity.
    func addAccount(_ id: AccountID, identity: Identity, time: Int64) throws
    /// The oldest first.
    func accounts() throws -> [AccountRow]
    func account(_ id: AccountID) throws -> AccountRow?
    func isDisabled(_ id: AccountID) throws -> Bool
    /// Throws `AccountNameTaken` if another account has the name.
    func setName(_ name: String, of id: AccountID) throws
    func setDisabled(_ isDisabled: Bool, of id: AccountID) throws
    /// Adds an identity that is of no account.
    func add(_ identity: Identity, to id: AccountID) throws
    /// Removes the account with all that is of it, and remembers its identities as removed.
    func removeAccount(_ id: AccountID, time: Int64) throws
    /// Whether the account of the identity was removed.
    func isRemoved(_ identity: Identity) throws -> Bool
    /// What its commands, outcomes and registrations take, with what this transaction has written.
    func storedBytes(of account: AccountID) throws -> Int

    // MARK: Endpoints

    func endpoint(_ id: EndpointID, of account: AccountID) throws -> EndpointRow?
    /// In the order of the ids.
    func endpoints(of account: AccountID) throws -> [EndpointRow]
    /// The same with all that watchers are told of them.
    func directory(of account: AccountID) throws -> [DirectoryEntry]
    /// Adds the endpoint, or replaces what was stored of it. Throws if it belongs to another account.
    func put(_ endpoint: EndpointRow) throws
    /// Removes the endpoint with its registrations and vouchers.
    func removeEndpoint(_ id: EndpointID, of account: AccountID) throws

    /// Remembers that an endpoint was revoked; the first word stays.
    func add(_ revocation: RevocationRow) throws
    /// Those that are kept, the oldest first.
    func revocations(of account: AccountID) throws -> [RevocationRow]
    /// How many there are, those that are not kept included.
    func revocationCount(of account: AccountID) throws -> Int
    /// The endpoint's logins have ended: a revocation that is not kept is forgotten.
    func loginsEnded(of id: EndpointID) throws

    /// In the order of the app ids.
    func registrations(of endpoint: EndpointID) throws -> [RegistrationRow]
    /// Adds or replaces an app of an endpoint that is there.
    func put(_ registration: RegistrationRow, of endpoint: EndpointID, in account: AccountID) throws
    func removeRegistration(_ appID: String, of endpoint: EndpointID, in account: AccountID) throws

    /// In the order of those who vouch.
    func vouchers(for endpoint: EndpointID) throws -> [[UInt8]]
    /// What one endpoint says for others.
    func vouchers(by endpoint: EndpointID, of account: AccountID) throws -> [[UInt8]]
    /// Adds or replaces what one endpoint of the account says for another.
    func putVoucher(_ voucher: [UInt8], for endpoint: EndpointID, by other: EndpointID, of account: AccountID) throws

    // MARK: Commands

    func command(_ key: StoredCommandKey) throws -> MailboxCommand?
    /// - Returns: whether it was added: `false` if the key is there, and then nothing has changed.
    func add(_ command: MailboxCommand, blob: [UInt8], account: AccountID) throws -> Bool
    /// Writes a command's state. What is final gives up its blob.
    func update(_ command: MailboxCommand, account: AccountID) throws
    /// Remembers a command's state for as long as there is room for it in memory, if there is any, and writes nothing.
    func note(_ command: MailboxCommand, account: AccountID) throws
    func removeCommand(_ key: StoredCommandKey) throws
    func blob(of key: StoredCommandKey) throws -> [UInt8]?
    /// What has not ended, in the order in which it was stored.
    func mailbox(of target: EndpointID, account: AccountID) throws -> [CommandDescriptor]
    /// What each sender has of it; no sender has nothing.
    func mailboxShares(of target: EndpointID, account: AccountID) throws -> [EndpointID: MailboxUse]
    /// Of the commands stored in the lane.
    func use(of lane: CommandLane, account: AccountID) throws -> LaneUse
    /// All commands of a sender, in the order in which they were stored.
    func commands(from sender: EndpointID, isFinal: Bool, account: AccountID) throws -> [CommandKey]
    /// The outcomes that wait for a sender.
    func outcomesUse(of sender: EndpointID, account: AccountID) throws -> MailboxUse
}

extension StoreTransaction {
    func mailboxUse(of target: EndpointID, account: AccountID) throws -> MailboxUse {
        try mailboxShares(of: target, account: account).values.reduce(into: MailboxUse()) { sum, share in
            sum.commands += share.commands
            sum.bytes += share.bytes
        }
    }

    /// Of the commands stored in the lane.
    func highestNumber(in lane: CommandLane, account: AccountID) throws -> UInt64? { try use(of: lane, account: account).highest }
}
