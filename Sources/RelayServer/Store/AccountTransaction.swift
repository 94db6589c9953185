// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The rows of one account, within one transaction. A method with an account parameter sees only the rows of that account.
package protocol AccountTransaction {
    /// For what an account reads across accounts.
    var global: any GlobalTransaction { get }

    // MARK: Accounts

    /// Adds an account with its first identity.
    func addAccount(_ id: AccountID, identity: Identity, time: Int64) throws
    func account(_ id: AccountID) throws -> AccountRow?
    /// Those of no account, if there is no such account.
    func facts(of id: AccountID) throws -> AccountFacts
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
    /// The bytes of its commands, outcomes and registrations, with the writes of this transaction.
    func storedBytes(of account: AccountID) throws -> Int

    /// The limits that are set for it.
    func quotas(of account: AccountID) throws -> AccountQuotas
    /// - Parameter value: `nil` gives it the relay's own value.
    func setQuota(_ limit: Limit, to value: Int?, of account: AccountID) throws

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
    /// Begins the wakes of an account's endpoints anew for which commands wait: they are due now.
    func restartWakes(of account: AccountID, at time: Int64) throws

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
}

extension AccountTransaction {
    func mailboxUse(of target: EndpointID, account: AccountID) throws -> MailboxUse {
        try mailboxShares(of: target, account: account).values.reduce(into: MailboxUse()) { sum, share in
            sum.commands += share.commands
            sum.bytes += share.bytes
        }
    }

    func highestNumber(in lane: CommandLane, account: AccountID) throws -> UInt64? { try use(of: lane, account: account).highest }
}
