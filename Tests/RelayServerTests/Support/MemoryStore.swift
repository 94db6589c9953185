// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import RelayProtocol

@testable import RelayServer

/// A store without a database, to hold the others against. Each transaction is a commit of its own.
final class MemoryStore: RelayStore {
    private let queues = AccountQueues()
    private let thread = DispatchQueue(label: "memory store")
    /// Both are used on the thread alone.
    private nonisolated(unsafe) let rows = MemoryRows()
    private nonisolated(unsafe) let cache: StoreCache?

    init(isCaching: Bool = false) { cache = isCaching ? StoreCache() : nil }

    func submit(_ work: StoreWork) {
        if queues.append(work) { thread.async { self.work() } }
    }

    func hasRoom(for channel: ChannelID, of account: AccountID, waiter: any ControlPeer) -> Bool {
        queues.hasRoom(for: channel, of: account, waiter: waiter)
    }

    private func work() {
        while true {
            let group = queues.next(64)
            if group.isEmpty { return }
            for work in group {
                run(work)
                work.report(nil)
            }
            queues.done(group)
        }
    }

    private func run(_ work: StoreWork) {
        let before = rows.tables
        let transaction: any StoreTransaction
        if let cache { transaction = CachingTransaction(backend: rows, cache: cache) } else { transaction = rows }
        if work.run(transaction) == nil {
            cache?.workSucceeded()
            cache?.groupCommitted()
        } else {
            rows.tables = before
            cache?.groupUndone()
        }
    }
}

/// Rows in dictionaries.
final class MemoryRows: StoreTransaction {
    struct Tables {
        struct Command {
            var row: MailboxCommand
            var blob: [UInt8]?
            let urgency: WakePayload.Urgency
            let sequence: Int
        }

        var began: Int64?
        struct Account {
            var name: String?
            var isDisabled = false
            let created: Int64
            var quotas = AccountQuotas()
        }

        var accounts: [Identity: (account: AccountID, row: AccountIdentity)] = [:]
        var accountRows: [AccountID: Account] = [:]
        var removed: Set<Identity> = []
        var revokedTokens: [String: Int64] = [:]
        var endpoints: [EndpointID: EndpointRow] = [:]
        var registrations: [EndpointID: [RegistrationRow]] = [:]
        /// By the endpoint of the voucher, then by its giver.
        var vouchers: [EndpointID: [EndpointID: [UInt8]]] = [:]
        var revocations: [EndpointID: RevocationRow] = [:]
        var pushes: [EndpointID: PushRow] = [:]
        var commands: [StoredCommandKey: Command] = [:]
        var lastSequence = 0
        var appIdentities: [String: AppIdentity] = [:]
        var credentials: [CredentialRow] = []
    }

    var tables = Tables()

    func failure(_ error: any Error) -> any Error { error }
    func probe() {}
    func databaseBegan() -> Int64? { tables.began }
    func setDatabaseBegan(_ time: Int64) { tables.began = time }

    private static func check(_ holds: Bool) throws {
        guard holds else { throw StoreError.unavailable("a rule of the schema is broken") }
    }

    // MARK: Across accounts

    func account(of identity: Identity) -> AccountID? { tables.accounts[identity]?.account }
    func account(ofEndpoint id: EndpointID) -> AccountID? { tables.endpoints[id]?.account }
    func endpoint(keyThumbprint: String) -> EndpointRow? { tables.endpoints.values.first { $0.keyThumbprint == keyThumbprint } }
    func revocation(of id: EndpointID) -> RevocationRow? { tables.revocations[id] }

    func revocationsWithLogins(in scope: AccountScope, limit: Int) -> [RevocationRow] {
        Array(tables.revocations.values.filter { !$0.loginsEnded }.sorted { $0.time < $1.time }.prefix(limit))
    }

    func dueCommands(in scope: AccountScope, at time: Int64, limit: Int) -> [StoredCommandKey] {
        let due = tables.commands.filter { $0.value.row.nextDeadline <= time }.sorted {
            ($0.value.row.nextDeadline, $0.value.sequence) < ($1.value.row.nextDeadline, $1.value.sequence)
        }
        return due.prefix(limit).map(\.key)
    }

    // MARK: Accounts

    func addAccount(_ id: AccountID, identity: Identity, time: Int64) throws {
        try Self.check(tables.accounts[identity] == nil && !tables.accounts.values.contains { $0.account == id })
        tables.accounts[identity] = (id, AccountIdentity(identity, added: time))
        tables.accountRows[id] = .init(created: time)
    }

    func names() -> [String] { accounts().compactMap(\.name) }

    func accounts() -> [AccountRow] {
        tables.accountRows.map { id, account in
            AccountRow(
                id: id,
                name: account.name,
                isDisabled: account.isDisabled,
                created: account.created,
                identities: tables.accounts.values.filter { $0.account == id }.map(\.row)
                    .sorted { ($0.identity.issuer, $0.identity.subject) < ($1.identity.issuer, $1.identity.subject) },
                endpoints: endpoints(of: id).count,
                quotas: account.quotas
            )
        }.sorted { ($0.created, $0.id.rawValue) < ($1.created, $1.id.rawValue) }
    }

    func account(_ id: AccountID) -> AccountRow? { accounts().first { $0.id == id } }
    func facts(of id: AccountID) -> AccountFacts {
        AccountFacts(name: name(of: id), isDisabled: isDisabled(id), endpoints: endpoints(of: id).count)
    }
    func isDisabled(_ id: AccountID) -> Bool { tables.accountRows[id]?.isDisabled ?? false }

    func name(of id: AccountID) -> String? { tables.accountRows[id]?.name }

    func setName(_ name: String, of id: AccountID) throws {
        guard !tables.accountRows.contains(where: { $0.key != id && $0.value.name == name }) else { throw AccountNameTaken() }
        tables.accountRows[id]?.name = name
    }

    func quotas(of account: AccountID) -> AccountQuotas { tables.accountRows[account]?.quotas ?? AccountQuotas() }
    func setQuota(_ limit: Limit, to value: Int?, of account: AccountID) throws {
        try Self.check(value == nil || tables.accountRows[account] != nil)
        tables.accountRows[account]?.quotas[limit] = value
    }
    func setDisabled(_ isDisabled: Bool, of id: AccountID) { tables.accountRows[id]?.isDisabled = isDisabled }

    func add(_ identity: AccountIdentity, to id: AccountID) throws {
        try Self.check(tables.accounts[identity.identity] == nil && tables.accountRows[id] != nil)
        tables.accounts[identity.identity] = (id, identity)
        tables.removed.remove(identity.identity)
    }

    func remove(_ identity: Identity, from id: AccountID) {
        if tables.accounts[identity]?.account == id { tables.accounts[identity] = nil }
    }

    func removeAccount(_ id: AccountID, time: Int64) {
        for endpoint in endpoints(of: id) { removeEndpoint(endpoint.id, of: id) }
        for key in tables.commands.keys where key.account == id { tables.commands[key] = nil }
        for (identity, owner) in tables.accounts where owner.account == id {
            tables.removed.insert(identity)
            tables.accounts[identity] = nil
        }
        tables.revocations = tables.revocations.filter { $0.value.account != id }
        tables.accountRows[id] = nil
    }

    func isRemoved(_ identity: Identity) -> Bool { tables.removed.contains(identity) }

    func addRevokedToken(_ digest: String, ends: Int64, now: Int64) {
        tables.revokedTokens = tables.revokedTokens.filter { $0.value > now }
        tables.revokedTokens[digest] = ends
    }

    func revokedTokens() -> [(digest: String, ends: Int64)] { tables.revokedTokens.map { ($0.key, $0.value) } }

    func storedBytes(of account: AccountID) -> Int {
        let commands = tables.commands.filter { $0.key.account == account }.values.reduce(0) { $0 + AccountUse.bytes(of: $1.row) }
        return tables.endpoints.values.filter { $0.account == account }.reduce(commands) { sum, endpoint in
            registrations(of: endpoint.id).reduce(sum) { $0 + AccountUse.bytes(of: $1) }
        }
    }

    // MARK: Endpoints

    func endpoint(_ id: EndpointID, of account: AccountID) -> EndpointRow? {
        tables.endpoints[id].flatMap { $0.account == account ? $0 : nil }
    }

    func endpoints(of account: AccountID) -> [EndpointRow] {
        tables.endpoints.values.filter { $0.account == account }.sorted { $0.id < $1.id }
    }

    func directory(of account: AccountID) throws -> [DirectoryEntry] {
        try endpoints(of: account).map { row in
            DirectoryEntry(
                endpoint: row,
                introduction: try introduction(of: row),
                registrations: registrations(of: row.id).map { Blob($0.registration) }
            )
        }
    }

    func put(_ endpoint: EndpointRow) throws {
        try Self.check(tables.accounts.values.contains { $0.account == endpoint.account })
        try Self.check(tables.endpoints[endpoint.id].map { $0.account == endpoint.account } ?? true)
        tables.endpoints[endpoint.id] = endpoint
    }

    func removeEndpoint(_ id: EndpointID, of account: AccountID) {
        guard endpoint(id, of: account) != nil else { return }
        tables.endpoints[id] = nil
        tables.registrations[id] = nil
        tables.vouchers[id] = nil
        tables.pushes[id] = nil
        for other in tables.vouchers.keys { tables.vouchers[other]?[id] = nil }
    }

    func add(_ revocation: RevocationRow) {
        if tables.revocations[revocation.endpoint] == nil { tables.revocations[revocation.endpoint] = revocation }
    }

    func revocations(of account: AccountID) -> [RevocationRow] {
        tables.revocations.values.filter { $0.account == account && $0.isKept }
            .sorted { ($0.time, $0.endpoint) < ($1.time, $1.endpoint) }
    }

    func revocationCount(of account: AccountID) -> Int { tables.revocations.values.count { $0.account == account } }

    func loginsEnded(of id: EndpointID) {
        if tables.revocations[id]?.isKept == false { tables.revocations[id] = nil }
        tables.revocations[id]?.loginsEnded = true
    }

    func registrations(of endpoint: EndpointID) -> [RegistrationRow] { tables.registrations[endpoint] ?? [] }

    func put(_ registration: RegistrationRow, of endpoint: EndpointID, in account: AccountID) throws {
        try Self.check(self.endpoint(endpoint, of: account) != nil)
        let others = registrations(of: endpoint).filter { $0.appID != registration.appID }
        tables.registrations[endpoint] = (others + [registration]).sorted { $0.appID < $1.appID }
    }

    func removeRegistration(_ appID: String, of endpoint: EndpointID, in account: AccountID) {
        tables.registrations[endpoint]?.removeAll { $0.appID == appID }
    }

    func registrations(mentioning text: String) -> [(account: AccountID, endpoint: EndpointID, row: RegistrationRow)] {
        tables.registrations.flatMap { endpoint, rows in
            rows.filter { !$0.registration.ranges(of: Array(text.utf8)).isEmpty }.compactMap { row in
                tables.endpoints[endpoint].map { (account: $0.account, endpoint: endpoint, row: row) }
            }
        }
    }

    func vouchers(for endpoint: EndpointID) -> [[UInt8]] {
        (tables.vouchers[endpoint] ?? [:]).sorted { $0.key < $1.key }.map(\.value)
    }

    func vouchers(by endpoint: EndpointID, of account: AccountID) -> [[UInt8]] {
        tables.vouchers.sorted { $0.key < $1.key }.compactMap { $0.value[endpoint] }
    }

    func putVoucher(_ voucher: [UInt8], for endpoint: EndpointID, by other: EndpointID, of account: AccountID) throws {
        try Self.check(self.endpoint(endpoint, of: account) != nil && self.endpoint(other, of: account) != nil)
        tables.vouchers[endpoint, default: [:]][other] = voucher
    }

    // MARK: Push registrations

    func push(of endpoint: EndpointID) -> PushRow? { tables.pushes[endpoint] }

    func pushes(of account: AccountID) -> [PushRow] {
        tables.pushes.values.filter { $0.account == account }.sorted { $0.endpoint < $1.endpoint }
    }

    func put(_ push: PushRow) throws {
        try Self.check(endpoint(push.endpoint, of: push.account) != nil)
        tables.pushes[push.endpoint] = push
    }

    func nextDue(in scope: AccountScope) -> Int64? {
        (tables.pushes.values.compactMap(\.due) + tables.commands.values.map(\.row.nextDeadline)).min()
    }

    func duePushes(in scope: AccountScope, at time: Int64, limit: Int) -> [PushKey] {
        let due = tables.pushes.values.filter { $0.due.map { $0 <= time } ?? false }
        let sorted = due.sorted { ($0.due ?? 0, $0.endpoint) < ($1.due ?? 0, $1.endpoint) }
        return sorted.prefix(limit).map { PushKey(account: $0.account, endpoint: $0.endpoint) }
    }

    func unwokenPushes(in scope: AccountScope, after endpoint: EndpointID?, at time: Int64, limit: Int) -> [UnwokenPush] {
        let found = tables.pushes.values.filter { push in
            push.channel.kind != .polling && !push.isGone && !push.isWoken && endpoint.map { $0 < push.endpoint } ?? true
        }
        return found.sorted { $0.endpoint < $1.endpoint }.prefix(limit).map { push in
            UnwokenPush(
                key: PushKey(account: push.account, endpoint: push.endpoint),
                waits: waiting(for: push.endpoint, account: push.account, at: time) != nil
            )
        }
    }

    func restartWakes(at time: Int64) { for account in tables.accountRows.keys { restartWakes(of: account, at: time) } }

    func restartWakes(of account: AccountID, at time: Int64) {
        for var push in tables.pushes.values where push.account == account && push.channel.kind != .polling && !push.isGone {
            guard waiting(for: push.endpoint, account: push.account, at: time) != nil else { continue }
            (push.due, push.suppressed, push.schedule) = (time, nil, WakeSchedule())
            tables.pushes[push.endpoint] = push
        }
    }

    func waiting(for target: EndpointID, account: AccountID, at time: Int64) -> WaitingCommands? {
        let commands = tables.commands.filter { key, command in
            key.account == account && command.row.command.lane.target == target && !command.row.isFinal
                && command.row.command.expires > time
        }.values
        let urgent = commands.filter { $0.urgency == .urgent }
        guard let expires = (urgent.isEmpty ? Array(commands) : Array(urgent)).map(\.row.command.expires).max() else { return nil }
        return WaitingCommands(urgency: urgent.isEmpty ? .background : .urgent, expires: expires)
    }

    // MARK: Requests

    /// A node without others gets none.
    func add(_ request: AccountRequest, of account: AccountID, time: Int64) throws -> Int64 { throw RequestIsAnswered() }
    func openRequests(in scope: AccountScope, limit: Int) -> [LeftRequest] { [] }
    func answer(_ request: Int64, _ answer: AccountAnswer, time: Int64) throws { throw RequestIsAnswered() }
    func answer(of request: Int64) -> AccountAnswer? { nil }
    func forgetRequests(answeredBefore time: Int64) {}
    func withdraw(_ appID: String, of endpoint: EndpointID, in account: AccountID, time: Int64) {
        removeRegistration(appID, of: endpoint, in: account)
    }

    // MARK: Commands

    func command(_ key: StoredCommandKey) -> MailboxCommand? { tables.commands[key]?.row }

    func add(_ command: MailboxCommand, urgency: WakePayload.Urgency, blob: [UInt8], account: AccountID) -> Bool {
        let key = StoredCommandKey(account: account, command: command.command.key)
        guard tables.commands[key] == nil else { return false }
        tables.lastSequence += 1
        tables.commands[key] = .init(
            row: command,
            blob: command.isFinal ? nil : blob,
            urgency: urgency,
            sequence: tables.lastSequence
        )
        return true
    }

    func update(_ command: MailboxCommand, account: AccountID) throws {
        let key = StoredCommandKey(account: account, command: command.command.key)
        try Self.check(tables.commands[key] != nil)
        tables.commands[key]?.row = command
        if command.isFinal { tables.commands[key]?.blob = nil }
    }

    func note(_ command: MailboxCommand, account: AccountID) {}

    func removeCommand(_ key: StoredCommandKey) { tables.commands[key] = nil }
    func blob(of key: StoredCommandKey) -> [UInt8]? { tables.commands[key]?.blob }

    private func commands(of account: AccountID, where holds: (MailboxCommand) -> Bool) -> [MailboxCommand] {
        tables.commands.filter { $0.key.account == account && holds($0.value.row) }.values
            .sorted { $0.sequence < $1.sequence }.map(\.row)
    }

    func mailbox(of target: EndpointID, account: AccountID) -> [CommandDescriptor] {
        commands(of: account) { $0.command.lane.target == target && !$0.isFinal }.map(\.command)
    }

    func mailboxShares(of target: EndpointID, account: AccountID) -> [EndpointID: MailboxUse] {
        mailbox(of: target, account: account).reduce(into: [:]) { shares, command in
            shares[command.lane.sender, default: MailboxUse()].commands += 1
            shares[command.lane.sender]?.bytes += command.size
        }
    }

    func use(of lane: CommandLane, account: AccountID) -> LaneUse {
        let numbers = commands(of: account) { $0.command.lane == lane }.map(\.command.number)
        return LaneUse(commands: numbers.count, highest: numbers.max())
    }

    func commands(from sender: EndpointID, isFinal: Bool, account: AccountID) -> [CommandKey] {
        commands(of: account) { $0.command.lane.sender == sender && $0.isFinal == isFinal }.map(\.command.key)
    }

    func outcomesUse(of sender: EndpointID, account: AccountID) -> MailboxUse {
        let final = commands(of: account) { $0.command.lane.sender == sender && $0.isFinal }
        return MailboxUse(commands: final.count, bytes: final.reduce(0) { $0 + $1.resultSize })
    }
}

extension MemoryRows {
    func appIdentities() -> [AppIdentity] { tables.appIdentities.values.sorted { $0.id < $1.id } }
    func appIdentity(_ id: String) -> AppIdentity? { tables.appIdentities[id] }

    func put(_ identity: AppIdentity) {
        var identity = identity
        identity.apps.sort { ($0.platform.rawValue, $0.id) < ($1.platform.rawValue, $1.id) }
        tables.appIdentities[identity.id] = identity
    }

    func removeAppIdentity(_ id: String) {
        tables.appIdentities[id] = nil
        tables.credentials.removeAll { $0.identity == id }
    }

    func credentials() -> [CredentialRow] { tables.credentials.sorted { ($0.created, $0.id) < ($1.created, $1.id) } }
    func add(_ credential: CredentialRow) { tables.credentials.append(credential) }
    func removeCredential(_ id: String) { tables.credentials.removeAll { $0.id == id } }
    func pushToken(of credential: String) -> PushTokenRow? { nil }
    func replacePushToken(of credential: String, version: Int64, by sealed: [UInt8]) {}
}
