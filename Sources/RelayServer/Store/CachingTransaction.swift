// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Adds a cache of recently read and written rows to any store. It returns the same values as the backend.
struct CachingTransaction<Backend: StoreTransaction>: StoreTransaction {
    let backend: Backend
    let cache: StoreCache

    func failure(_ error: any Error) -> any Error { backend.failure(error) }
    func probe() throws { try backend.probe() }
    func databaseBegan() throws -> Int64? { try backend.databaseBegan() }
    func setDatabaseBegan(_ time: Int64) throws { try backend.setDatabaseBegan(time) }

    func addRevokedToken(_ digest: String, ends: Int64, now: Int64) throws {
        try backend.addRevokedToken(digest, ends: ends, now: now)
    }
    func revokedTokens() throws -> [(digest: String, ends: Int64)] { try backend.revokedTokens() }

    // MARK: Across accounts

    func account(of identity: Identity) throws -> AccountID? { try backend.account(of: identity) }
    func account(ofEndpoint id: EndpointID) throws -> AccountID? { try backend.account(ofEndpoint: id) }
    func endpoint(keyThumbprint: String) throws -> EndpointRow? { try backend.endpoint(keyThumbprint: keyThumbprint) }
    func revocation(of id: EndpointID) throws -> RevocationRow? { try backend.revocation(of: id) }
    func revocationsWithLogins(in scope: AccountScope, limit: Int) throws -> [RevocationRow] {
        try backend.revocationsWithLogins(in: scope, limit: limit)
    }
    func dueCommands(in scope: AccountScope, at time: Int64, limit: Int) throws -> [StoredCommandKey] {
        try backend.dueCommands(in: scope, at: time, limit: limit)
    }
    func nextDue(in scope: AccountScope) throws -> Int64? { try backend.nextDue(in: scope) }
    func duePushes(in scope: AccountScope, at time: Int64, limit: Int) throws -> [PushKey] {
        try backend.duePushes(in: scope, at: time, limit: limit)
    }
    func unwokenPushes(in scope: AccountScope, after endpoint: EndpointID?, at time: Int64, limit: Int) throws -> [UnwokenPush] {
        try backend.unwokenPushes(in: scope, after: endpoint, at: time, limit: limit)
    }
    func restartWakes(at time: Int64) throws { try backend.restartWakes(at: time) }
    func restartWakes(of account: AccountID, at time: Int64) throws { try backend.restartWakes(of: account, at: time) }

    // MARK: Requests

    func add(_ request: AccountRequest, of account: AccountID, time: Int64) throws -> Int64 {
        try backend.add(request, of: account, time: time)
    }
    func openRequests(in scope: AccountScope, limit: Int) throws -> [LeftRequest] { try backend.openRequests(in: scope, limit: limit) }
    func answer(_ request: Int64, _ answer: AccountAnswer, time: Int64) throws { try backend.answer(request, answer, time: time) }
    func answer(of request: Int64) throws -> AccountAnswer? { try backend.answer(of: request) }
    func forgetRequests(answeredBefore time: Int64) throws { try backend.forgetRequests(answeredBefore: time) }
    func withdraw(_ appID: String, of endpoint: EndpointID, in account: AccountID, time: Int64) throws {
        // The relay's own work has a cache only where one node serves all accounts.
        try removeRegistration(appID, of: endpoint, in: account)
    }

    // MARK: Accounts

    func addAccount(_ id: AccountID, identity: Identity, time: Int64) throws {
        try backend.addAccount(id, identity: identity, time: time)
    }

    func accounts() throws -> [AccountRow] { try backend.accounts() }
    func names() throws -> [String] { try backend.names() }
    func account(_ id: AccountID) throws -> AccountRow? { try backend.account(id) }
    func facts(of id: AccountID) throws -> AccountFacts { try backend.facts(of: id) }
    func isDisabled(_ id: AccountID) throws -> Bool { try backend.isDisabled(id) }
    func name(of id: AccountID) throws -> String? { try backend.name(of: id) }
    func setName(_ name: String, of id: AccountID) throws { try backend.setName(name, of: id) }
    func setDisabled(_ isDisabled: Bool, of id: AccountID) throws { try backend.setDisabled(isDisabled, of: id) }
    func add(_ identity: AccountIdentity, to id: AccountID) throws { try backend.add(identity, to: id) }
    func remove(_ identity: Identity, from id: AccountID) throws { try backend.remove(identity, from: id) }
    func isRemoved(_ identity: Identity) throws -> Bool { try backend.isRemoved(identity) }

    func removeAccount(_ id: AccountID, time: Int64) throws {
        let bytes = try storedBytes(of: id)
        try backend.removeAccount(id, time: time)
        cache.use.add(-bytes, to: id)
        // It happens seldom; to find what was of it would take longer.
        cache.forgetAll()
    }

    func storedBytes(of account: AccountID) throws -> Int {
        try cache.use.bytes(of: account) { try backend.storedBytes(of: account) }
    }

    func quotas(of account: AccountID) throws -> AccountQuotas {
        try cache.quotas(of: account) { try backend.quotas(of: account) }
    }

    func setQuota(_ limit: Limit, to value: Int?, of account: AccountID) throws {
        try backend.setQuota(limit, to: value, of: account)
        cache.forgetQuotas(of: account)
    }

    // MARK: Endpoints

    func endpoint(_ id: EndpointID, of account: AccountID) throws -> EndpointRow? {
        if let known = cache.endpoints[id]?.row { return known.account == account ? known : nil }
        guard let found = try backend.endpoint(id, of: account) else { return nil }
        cache.keep(.init(row: found))
        return found
    }

    func endpoints(of account: AccountID) throws -> [EndpointRow] { try backend.endpoints(of: account) }

    func directory(of account: AccountID) throws -> [DirectoryEntry] {
        try cache.directory(of: account) { try backend.directory(of: account) }
    }

    func put(_ endpoint: EndpointRow) throws {
        try backend.put(endpoint)
        cache.keep(.init(row: endpoint, vouchers: cache.endpoints[endpoint.id]?.vouchers))
        cache.forgetDirectory(of: endpoint.account)
    }

    func removeEndpoint(_ id: EndpointID, of account: AccountID) throws {
        guard try endpoint(id, of: account) != nil else { return }
        let bytes = try backend.registrations(of: id).reduce(0) { $0 + AccountUse.bytes(of: $1) }
        try backend.removeEndpoint(id, of: account)
        cache.use.add(-bytes, to: account)
        // The removal also deletes its vouchers for other endpoints.
        cache.forgetEndpoints()
        cache.forgetDirectory(of: account)
    }

    func add(_ revocation: RevocationRow) throws { try backend.add(revocation) }
    func revocations(of account: AccountID) throws -> [RevocationRow] { try backend.revocations(of: account) }
    func revocationCount(of account: AccountID) throws -> Int { try backend.revocationCount(of: account) }
    func loginsEnded(of id: EndpointID) throws { try backend.loginsEnded(of: id) }

    func registrations(of endpoint: EndpointID) throws -> [RegistrationRow] { try backend.registrations(of: endpoint) }

    func put(_ registration: RegistrationRow, of endpoint: EndpointID, in account: AccountID) throws {
        let before = try registrationBytes(registration.appID, of: endpoint)
        try backend.put(registration, of: endpoint, in: account)
        cache.use.add(AccountUse.bytes(of: registration) - before, to: account)
        cache.forgetDirectory(of: account)
    }

    func removeRegistration(_ appID: String, of endpoint: EndpointID, in account: AccountID) throws {
        let before = try registrationBytes(appID, of: endpoint)
        try backend.removeRegistration(appID, of: endpoint, in: account)
        cache.use.add(-before, to: account)
        cache.forgetDirectory(of: account)
    }

    func registrations(mentioning text: String) throws -> [(account: AccountID, endpoint: EndpointID, row: RegistrationRow)] {
        try backend.registrations(mentioning: text)
    }

    private func registrationBytes(_ appID: String, of endpoint: EndpointID) throws -> Int {
        try backend.registrations(of: endpoint).first { $0.appID == appID }.map(AccountUse.bytes(of:)) ?? 0
    }

    func push(of endpoint: EndpointID) throws -> PushRow? { try backend.push(of: endpoint) }
    func pushes(of account: AccountID) throws -> [PushRow] { try backend.pushes(of: account) }
    func put(_ push: PushRow) throws { try backend.put(push) }

    func vouchers(for endpoint: EndpointID) throws -> [[UInt8]] {
        if let known = cache.endpoints[endpoint]?.vouchers { return known }
        let found = try backend.vouchers(for: endpoint)
        if let row = cache.endpoints[endpoint]?.row { cache.keep(.init(row: row, vouchers: found)) }
        return found
    }

    func vouchers(by endpoint: EndpointID, of account: AccountID) throws -> [[UInt8]] {
        try backend.vouchers(by: endpoint, of: account)
    }

    func putVoucher(_ voucher: [UInt8], for endpoint: EndpointID, by other: EndpointID, of account: AccountID) throws {
        try backend.putVoucher(voucher, for: endpoint, by: other, of: account)
        cache.forget(endpoint)
        cache.forgetDirectory(of: account)
    }

    // MARK: Commands

    func command(_ key: StoredCommandKey) throws -> MailboxCommand? { try stored(key)?.row }

    private func stored(_ key: StoredCommandKey) throws -> StoreCache.Command? {
        if let known = cache.commands[key] { return known }
        guard let row = try backend.command(key) else { return nil }
        let found = StoreCache.Command(row: row)
        cache.keep(found, as: key)
        return found
    }

    func add(_ command: MailboxCommand, urgency: WakePayload.Urgency, blob: [UInt8], account: AccountID) throws -> Bool {
        guard try backend.add(command, urgency: urgency, blob: blob, account: account) else { return false }
        let key = StoredCommandKey(account: account, command: command.command.key)
        cache.changed(key, from: nil, to: .init(row: command, blob: blob))
        return true
    }

    func update(_ command: MailboxCommand, account: AccountID) throws {
        let key = StoredCommandKey(account: account, command: command.command.key)
        let old = try stored(key)
        try backend.update(command, account: account)
        cache.changed(key, from: old?.row, to: .init(row: command, blob: command.isFinal ? nil : old?.blob))
    }

    func note(_ command: MailboxCommand, account: AccountID) throws {
        let key = StoredCommandKey(account: account, command: command.command.key)
        guard let old = try stored(key) else { return }
        cache.changed(key, from: old.row, to: .init(row: command, blob: old.blob))
    }

    func removeCommand(_ key: StoredCommandKey) throws {
        guard let old = try stored(key) else { return }
        try backend.removeCommand(key)
        cache.changed(key, from: old.row, to: nil)
    }

    func blob(of key: StoredCommandKey) throws -> [UInt8]? {
        guard var command = try stored(key) else { return nil }
        if let known = command.blob { return known }
        command.blob = try backend.blob(of: key)
        cache.keep(command, as: key)
        return command.blob
    }

    func mailbox(of target: EndpointID, account: AccountID) throws -> [CommandDescriptor] {
        try backend.mailbox(of: target, account: account)
    }

    func waiting(for target: EndpointID, account: AccountID, at time: Int64) throws -> WaitingCommands? {
        try backend.waiting(for: target, account: account, at: time)
    }

    func mailboxShares(of target: EndpointID, account: AccountID) throws -> [EndpointID: MailboxUse] {
        try cache.mailboxShares(.init(account: account, endpoint: target)) { try backend.mailboxShares(of: target, account: account) }
    }

    func outcomesUse(of sender: EndpointID, account: AccountID) throws -> MailboxUse {
        try cache.outcomesUse(.init(account: account, endpoint: sender)) { try backend.outcomesUse(of: sender, account: account) }
    }

    func use(of lane: CommandLane, account: AccountID) throws -> LaneUse {
        try cache.laneUse(.init(account: account, lane: lane)) { try backend.use(of: lane, account: account) }
    }

    func commands(from sender: EndpointID, isFinal: Bool, account: AccountID) throws -> [CommandKey] {
        try backend.commands(from: sender, isFinal: isFinal, account: account)
    }
}

/// App identities are read seldom, so the cache does not keep them.
extension CachingTransaction {
    func appIdentities() throws -> [AppIdentity] { try backend.appIdentities() }
    func appIdentity(_ id: String) throws -> AppIdentity? { try backend.appIdentity(id) }
    func put(_ identity: AppIdentity) throws { try backend.put(identity) }
    func removeAppIdentity(_ id: String) throws { try backend.removeAppIdentity(id) }
    func credentials() throws -> [CredentialRow] { try backend.credentials() }
    func add(_ credential: CredentialRow) throws { try backend.add(credential) }
    func removeCredential(_ id: String) throws { try backend.removeCredential(id) }
    func pushToken(of credential: String) throws -> PushTokenRow? { try backend.pushToken(of: credential) }
    func replacePushToken(of credential: String, version: Int64, by sealed: [UInt8]) throws {
        try backend.replacePushToken(of: credential, version: version, by: sealed)
    }
}
