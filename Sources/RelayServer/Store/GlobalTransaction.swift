// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// What belongs to the relay and to no account, and what is read across accounts, within one transaction. Such a read may run anywhere, also
/// where the account is not served, so nothing of it comes from a cache.
package protocol GlobalTransaction {
    /// Writes an arbitrary value, to test whether the store can write.
    func probe() throws

    /// The time since which the database is complete: its creation, or its restoration from a backup.
    func databaseBegan() throws -> Int64?
    func setDatabaseBegan(_ time: Int64) throws

    /// Stores a revoked token until it expires, and deletes expired ones.
    /// - Parameter digest: The `session` of its `Login`.
    func addRevokedToken(_ digest: String, ends: Int64, now: Int64) throws
    func revokedTokens() throws -> [(digest: String, ends: Int64)]

    // MARK: Across accounts

    /// The oldest first.
    func accounts() throws -> [AccountRow]
    /// Those of all accounts, in any order.
    func names() throws -> [String]
    func account(of identity: Identity) throws -> AccountID?
    /// Whether the account of the identity was removed.
    func isRemoved(_ identity: Identity) throws -> Bool
    /// An endpoint id exists once in all accounts.
    func account(ofEndpoint id: EndpointID) throws -> AccountID?
    /// The endpoint with an identity key.
    func endpoint(keyThumbprint: String) throws -> EndpointRow?
    func revocation(of id: EndpointID) throws -> RevocationRow?

    // MARK: What is due

    /// The revocations whose logins have not ended, oldest first.
    func revocationsWithLogins(in scope: AccountScope, limit: Int) throws -> [RevocationRow]
    /// The commands whose deadline has passed, earliest first.
    func dueCommands(in scope: AccountScope, at time: Int64, limit: Int) throws -> [StoredCommandKey]
    /// The push registrations for which there is something to do, earliest first.
    func duePushes(in scope: AccountScope, at time: Int64, limit: Int) throws -> [PushKey]
    /// When the next command has its deadline, or a push registration something to do; `nil` for never.
    func nextDue(in scope: AccountScope) throws -> Int64?
    /// The endpoints with a push channel that got no wake since they were last connected, or whose last wake no provider has accepted. Ordered
    /// by id.
    func unwokenPushes(in scope: AccountScope, after endpoint: EndpointID?, at time: Int64, limit: Int) throws -> [UnwokenPush]
    /// Begins the wakes of all endpoints anew for which commands wait: they are due now. Several nodes do so when they serve the accounts.
    func restartWakes(at time: Int64) throws

    // MARK: Requests to the nodes of accounts

    /// Leaves a request for the node that serves an account.
    func add(_ request: AccountRequest, of account: AccountID, time: Int64) throws -> Int64
    /// The requests that are not answered, oldest first.
    func openRequests(in scope: AccountScope, limit: Int) throws -> [LeftRequest]
    /// Answers a request. Throws `RequestIsAnswered` if another transaction has.
    func answer(_ request: Int64, _ answer: AccountAnswer, time: Int64) throws
    func answer(of request: Int64) throws -> AccountAnswer?
    /// Deletes the requests that were answered before a time.
    func forgetRequests(answeredBefore time: Int64) throws

    // MARK: App identities and their push credentials

    /// Ordered by id.
    func appIdentities() throws -> [AppIdentity]
    func appIdentity(_ id: String) throws -> AppIdentity?
    /// Adds or replaces the identity with its apps.
    func put(_ identity: AppIdentity) throws
    /// Removes the identity with its apps and credentials.
    func removeAppIdentity(_ id: String) throws
    /// The registrations of all accounts that have this text in any place.
    func registrations(mentioning text: String) throws -> [(account: AccountID, endpoint: EndpointID, row: RegistrationRow)]
    /// Removes the registration of an app that has lost its proof. Of several nodes, the account's one does so.
    func withdraw(_ appID: String, of endpoint: EndpointID, in account: AccountID, time: Int64) throws

    /// The credentials of all identities, oldest first.
    func credentials() throws -> [CredentialRow]
    /// Adds credentials to a stored identity.
    func add(_ credential: CredentialRow) throws
    func removeCredential(_ id: String) throws

    // MARK: Tokens of push credentials, of several nodes

    /// The token of a credential.
    func pushToken(of credential: String) throws -> PushTokenRow?
    /// Stores a token of stored credentials, unless another version is there: 0 if there must be none.
    func replacePushToken(of credential: String, version: Int64, by sealed: [UInt8]) throws
}
