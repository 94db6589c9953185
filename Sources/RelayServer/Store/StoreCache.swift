// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayStorage

/// Recently read and written rows, so that the steps of a command need no new lookups. The rows are authoritative: the cache holds the
/// same values, and is emptied after a rollback or when it grows too large. Only `CachingTransaction` uses it, on the store's thread.
package final class StoreCache: GroupCommitCache {
    package init() {}

    struct Command {
        var row: MailboxCommand
        /// `nil` if it was not read, or was deleted.
        var blob: [UInt8]?
    }

    struct Endpoint {
        var row: EndpointRow
        /// `nil` if they were not read.
        var vouchers: [[UInt8]]?
    }

    /// The key of an endpoint as target or as sender.
    struct Box: Hashable {
        var account: AccountID
        var endpoint: EndpointID

        /// An endpoint hardly ever belongs to two accounts, so hashing the account would add nothing.
        func hash(into hasher: inout Hasher) { hasher.combine(endpoint) }
    }

    struct Lane: Hashable {
        var account: AccountID
        var lane: CommandLane

        func hash(into hasher: inout Hasher) { hasher.combine(lane) }
    }

    /// The maximum for the whole cache.
    private static let maximumBytes = 16 << 20
    /// What each entry counts in addition to its bytes.
    private static let overhead = 512

    /// Not emptied with the rest, because it is slow to read. It has a bound of its own.
    let use = AccountUse()
    private(set) var commands: [StoredCommandKey: Command] = [:]
    private(set) var endpoints: [EndpointID: Endpoint] = [:]
    /// By sender.
    private var mailboxes: [Box: [EndpointID: MailboxUse]] = [:]
    private var outcomes: [Box: MailboxUse] = [:]
    private var lanes: [Lane: LaneUse] = [:]
    private var directories: [AccountID: [DirectoryEntry]] = [:]
    /// Also of accounts without any.
    private var quotas: [AccountID: AccountQuotas] = [:]
    /// The sum of all entries added since the cache was emptied.
    private var bytes = 0

    // MARK: Commit and rollback

    package func workSucceeded() { use.workSucceeded() }

    /// A transaction has failed before its first write.
    package func workFailed() { use.workUndone() }

    /// The writes of one transaction were rolled back.
    package func workUndone() {
        forgetAll()
        use.workUndone()
    }

    package func groupCommitted() { use.groupCommitted() }

    /// All writes since the last commit were rolled back.
    package func groupUndone() {
        forgetAll()
        use.groupUndone()
    }

    package func forgetAll() {
        guard bytes > 0 else { return }
        commands = [:]
        endpoints = [:]
        mailboxes = [:]
        outcomes = [:]
        lanes = [:]
        directories = [:]
        quotas = [:]
        bytes = 0
    }

    /// Forgets the rows of one account, which another node may change from now on. What they count for the maximum stays.
    package func forget(_ account: AccountID) {
        use.forget(account)
        commands = commands.filter { $0.key.account != account }
        endpoints = endpoints.filter { $0.value.row.account != account }
        mailboxes = mailboxes.filter { $0.key.account != account }
        outcomes = outcomes.filter { $0.key.account != account }
        lanes = lanes.filter { $0.key.account != account }
        directories[account] = nil
        quotas[account] = nil
    }

    private func count(_ size: Int) {
        if bytes > Self.maximumBytes { forgetAll() }
        bytes += size + Self.overhead
    }

    // MARK: Commands

    func keep(_ command: Command, as key: StoredCommandKey) {
        count((command.blob?.count ?? 0) + command.row.resultSize)
        commands[key] = command
    }

    /// A command was added, changed, or removed (`new` is `nil`).
    func changed(_ key: StoredCommandKey, from old: MailboxCommand?, to new: Command?) {
        // Before its end, a command always counts the same.
        if let old, let new, !old.isFinal, !new.row.isFinal { return keep(new, as: key) }
        use.add((new.map { AccountUse.bytes(of: $0.row) } ?? 0) - (old.map(AccountUse.bytes(of:)) ?? 0), to: key.account)
        if let old { add(old, -1, in: key.account) }
        if let new {
            add(new.row, 1, in: key.account)
            if old == nil { lanes[Lane(account: key.account, lane: new.row.command.lane)]?.add(new.row.command.number) }
            keep(new, as: key)
        } else if let old {
            let lane = Lane(account: key.account, lane: old.command.lane)
            // The database must find the new highest number, unless the lane is empty.
            if lanes[lane]?.remove(old.command.number) == false { lanes[lane] = nil }
            commands[key] = nil
        }
    }

    private func add(_ row: MailboxCommand, _ sign: Int, in account: AccountID) {
        let lane = row.command.lane
        if row.isFinal {
            outcomes[Box(account: account, endpoint: lane.sender)]?.add(sign, bytes: row.resultSize)
        } else {
            mailboxes[Box(account: account, endpoint: lane.target)]?.add(sign, bytes: row.command.size, from: lane.sender)
        }
    }

    // Written out for each dictionary: key paths are slow at run time.

    func laneUse(_ lane: Lane, otherwise read: () throws -> LaneUse) rethrows -> LaneUse {
        if let known = lanes[lane] { return known }
        let use = try read()
        count(0)
        lanes[lane] = use
        return use
    }

    func mailboxShares(_ box: Box, otherwise read: () throws -> [EndpointID: MailboxUse]) rethrows -> [EndpointID: MailboxUse] {
        if let known = mailboxes[box] { return known }
        let shares = try read()
        count(shares.count * MemoryLayout<MailboxUse>.size)
        mailboxes[box] = shares
        return shares
    }

    func outcomesUse(_ box: Box, otherwise read: () throws -> MailboxUse) rethrows -> MailboxUse {
        if let known = outcomes[box] { return known }
        let use = try read()
        count(0)
        outcomes[box] = use
        return use
    }

    // MARK: Endpoints

    func keep(_ endpoint: Endpoint) {
        count(endpoint.row.record.count + (endpoint.vouchers ?? []).reduce(0) { $0 + $1.count })
        endpoints[endpoint.row.id] = endpoint
    }

    func forget(_ endpoint: EndpointID) { endpoints[endpoint] = nil }
    func forgetEndpoints() { endpoints = [:] }

    /// Cached, because after a restart all endpoints of an account request it.
    func directory(of account: AccountID, otherwise read: () throws -> [DirectoryEntry]) rethrows -> [DirectoryEntry] {
        if let known = directories[account] { return known }
        let directory = try read()
        count(directory.reduce(0) { $0 + $1.size })
        directories[account] = directory
        return directory
    }

    func forgetDirectory(of account: AccountID) { directories[account] = nil }

    // MARK: Accounts

    /// Cached, because each command needs them.
    func quotas(of account: AccountID, otherwise read: () throws -> AccountQuotas) rethrows -> AccountQuotas {
        if let known = quotas[account] { return known }
        let found = try read()
        count(0)
        quotas[account] = found
        return found
    }

    func forgetQuotas(of account: AccountID) { quotas[account] = nil }
}

extension [EndpointID: MailboxUse] {
    /// Senders without commands are removed.
    fileprivate mutating func add(_ sign: Int, bytes: Int, from sender: EndpointID) {
        guard let index = index(forKey: sender) else { return self[sender] = MailboxUse(commands: sign, bytes: sign * bytes) }
        values[index].add(sign, bytes: bytes)
        if values[index].commands == 0 { remove(at: index) }
    }
}

extension LaneUse {
    fileprivate mutating func add(_ number: UInt64) {
        commands += 1
        highest = max(highest ?? 0, number)
    }

    /// - Returns: whether the highest number is still known.
    fileprivate mutating func remove(_ number: UInt64) -> Bool {
        commands -= 1
        guard number == highest else { return true }
        highest = nil
        return commands == 0
    }
}

extension DirectoryEntry {
    /// Counts the record once, because it is shared.
    fileprivate var size: Int {
        endpoint.record.count + introduction.vouchers.reduce(0) { $0 + $1.bytes.count } + registrations.reduce(0) { $0 + $1.bytes.count }
    }
}

extension MailboxCommand {
    var isFinal: Bool { if case .final = state { true } else { false } }

    /// The size of the result that waits for the sender.
    var resultSize: Int {
        guard case .final(let final, _) = state else { return 0 }
        return (final.receipt?.count ?? 0) + (final.reply?.count ?? 0)
    }
}

extension MailboxUse {
    fileprivate mutating func add(_ sign: Int, bytes: Int) {
        commands += sign
        self.bytes += sign * bytes
    }
}
