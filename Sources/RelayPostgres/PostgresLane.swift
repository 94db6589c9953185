// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import RelayProtocol
import RelayServer
import RelayStorage
import Synchronization

/// A thread of the store, with its connection, and the leases of the accounts that it writes.
final class PostgresLane: Sendable {
    private static let largestGroup = 64
    /// How long a group may take before the thread counts as stuck.
    private static let longestGroup = Duration.seconds(4)

    struct Counts: Sendable {
        /// The accounts that the node serves on this thread.
        var served = 0
        /// The leases that the node has taken, and those that it has lost, or given back.
        var (taken, lost) = (0, 0)
    }

    private struct Claim: Sendable {
        var account: ClaimedAccount
        var answer: @Sendable (AccountClaim) -> Void
    }

    private struct State {
        var claims: [Claim] = []
        var returned: [AccountID] = []
        /// When the group began that the thread works on.
        var begun: ContinuousClock.Instant?
        var counts = Counts()
    }

    let thread: StoreThread
    private let node: PostgresNode
    private let now: @Sendable () -> Milliseconds
    /// Takes a claim of an account whose thread is another one.
    private let forward: @Sendable (AccountID, @escaping @Sendable (AccountClaim) -> Void) -> Void
    private let isOwn: @Sendable (AccountID) -> Bool
    private let lost: @Sendable (AccountID) -> Void
    private let state = Mutex(State())
    /// Used on the thread.
    private nonisolated(unsafe) let writer: PostgresWriter
    private let isStopped: PostgresWriter.StopFlag

    /// - Parameters:
    ///   - isOwn: Whether this is the thread of an account; `nil` for the relay's own work.
    ///   - forward: Passes a claim to the thread of an account.
    ///   - lost: Is called on the thread for each lost lease.
    init(
        _ number: Int,
        _ parameters: [(name: String, value: String)],
        _ node: PostgresNode,
        metrics: StoreMetrics,
        now: @escaping @Sendable () -> Milliseconds,
        isOwn: (@Sendable (AccountID) -> Bool)?,
        forward: @escaping @Sendable (AccountID, @escaping @Sendable (AccountClaim) -> Void) -> Void,
        lost: @escaping @Sendable (AccountID) -> Void
    ) {
        thread = StoreThread("relay.store.\(number)", largestGroup: Self.largestGroup, metrics: metrics)
        (self.node, self.now, self.forward, self.lost, self.isOwn) = (node, now, forward, lost, isOwn ?? { _ in false })
        writer = PostgresWriter(
            parameters,
            node: node.id,
            thread: number,
            leases: isOwn == nil ? nil : PostgresLeases(),
            mayUse: { node.mayUse($0) },
            hasLost: { node.withBeats { $0.lacks(at: PostgresNode.time) } }
        )
        isStopped = writer.isStopped
    }

    var counts: Counts { state.withLock { $0.counts } }

    /// Whether the thread has not been at one group for too long.
    var isAlive: Bool { state.withLock { $0.begun.map { .now - $0 < Self.longestGroup } ?? true } }

    func submit(_ work: StoreWork) {
        thread.submit(work) { [self] group in
            turn()
            // If threads share a core, others may be waiting for it with work for the store. The cost of a commit is shared by all work in it.
            repeat { sched_yield() } while thread.join(&group) > 0
            let outcome = busy { writer.commit(group) }
            // The core is to know at once, also if nothing more comes.
            if !outcome.lost.isEmpty { thread.async { self.turn() } }
            return outcome
        }
    }

    /// Does something on the thread that may take long.
    private func busy<Value>(_ body: () -> Value) -> Value {
        state.withLock { $0.begun = .now }
        defer { state.withLock { $0.begun = nil } }
        return body()
    }

    /// Waits no longer for a database that does not answer.
    func stopWaiting() { isStopped.set() }

    func claim(_ account: ClaimedAccount, answer: @escaping @Sendable (AccountClaim) -> Void) {
        state.withLock { $0.claims.append(Claim(account: account, answer: answer)) }
        thread.async { self.turn() }
    }

    func giveBack(_ account: AccountID) {
        // Its work so far is first.
        submit(
            StoreWork(account: account, run: { _ in nil }) { [self] _ in
                state.withLock { $0.returned.append(account) }
                thread.async { self.turn() }
            }
        )
    }

    /// Continues under a new node id, without leases.
    func become(_ node: NodeID) {
        thread.async { [self] in
            writer.become(node)
            turn()
        }
    }

    /// Looks whether the database has all that this thread has stored.
    func confirm(_ answer: @escaping @Sendable (Bool) -> Void) {
        thread.async { [self] in
            let isConfirmed = writer.confirm()
            turn()
            answer(isConfirmed)
        }
    }

    /// Serves no account any more.
    func loseAll() {
        thread.async { [self] in
            writer.loseAll()
            turn()
        }
    }

    /// Serves no account any more. What it has stored may be lost.
    func beginAnew() {
        thread.async { [self] in
            writer.beginAnew()
            turn()
        }
    }

    /// Gives all leases back.
    func giveBackAll(_ completion: @escaping @Sendable () -> Void) {
        thread.async { [self] in
            if let held = writer.leases?.accounts { state.withLock { $0.returned += held } }
            turn()
            completion()
        }
    }

    func close() { thread.sync { writer.close() } }

    // MARK: Between groups

    /// Tells which leases are lost, and gives back and takes leases, in this order. The reports of earlier groups are through.
    private func turn() { busy { turnLeases() } }

    private func turnLeases() {
        guard let leases = writer.leases else { return }
        let (claims, returned) = state.withLock { state in
            defer { (state.claims, state.returned) = ([], []) }
            return (state.claims, state.returned.filter { leases.has($0) })
        }
        if !returned.isEmpty { giveBack(returned, leases) }
        let losses = leases.takeLost()
        for account in losses { lost(account) }
        if !claims.isEmpty { answer(claims, leases) }
        state.withLock { state in
            // What it has now and had not before, or has lost since.
            let taken = leases.count - state.counts.served + losses.count
            state.counts = Counts(served: leases.count, taken: state.counts.taken + taken, lost: state.counts.lost + losses.count)
        }
    }

    private func giveBack(_ accounts: [AccountID], _ leases: PostgresLeases) {
        // Without an answer it is not known, so the leases count as lost, too.
        _ = writer.transact { try leases.sendGivingBack(accounts, node: writer.node, on: $0) }
        leases.gaveBack(accounts)
        for account in accounts { writer.forget(account) }
    }

    private func answer(_ claims: [Claim], _ leases: PostgresLeases) {
        guard node.serves, writer.node == node.id else { return refuse(claims) }
        var (here, open): ([(Claim, AccountID)], [Claim]) = ([], [])
        for claim in claims {
            if leases.has(claim.account.likely) { here.append((claim, claim.account.likely)) } else { open.append(claim) }
        }
        for (claim, account) in here { claim.answer(.here(account, since: leases.since(account) ?? now())) }
        guard !open.isEmpty else { return }
        guard !node.isSuspended else { return refuse(open) }
        let identities = open.compactMap { claim in if case .of(let identity) = claim.account { identity } else { nil } }
        let homes = identities.isEmpty ? [:] : writer.transact { try PostgresLeases.accounts(of: identities, on: $0) }
        guard let homes else { return refuse(open) }
        var wanted: [AccountID: [Claim]] = [:]
        for claim in open {
            let home = if case .of(let identity) = claim.account { homes[identity] ?? claim.account.likely } else { claim.account.likely }
            if isOwn(home) { wanted[home, default: []].append(claim) } else { forward(home, claim.answer) }
        }
        take(wanted, leases)
    }

    private func take(_ wanted: [AccountID: [Claim]], _ leases: PostgresLeases) {
        let accounts = wanted.keys.filter { !leases.has($0) }
        let taken =
            accounts.isEmpty
            ? [:] : writer.transact { try PostgresLeases.take(Array(accounts), for: writer.node, since: node.began, on: $0) }
        let time = now()
        for (account, claims) in wanted {
            var owner: NodeID?
            switch taken?[account] {
            case .here(let epoch)?:
                leases.took(account, epoch: epoch, at: time)
                writer.forget(account)
            case .elsewhere(let other, let url)?:
                // It may be dead, and is found to be so in some seconds.
                if !node.isSilent(other) {
                    for claim in claims { claim.answer(.elsewhere(account, url)) }
                    continue
                }
                owner = other
            case nil: break
            }
            guard let since = leases.since(account) else {
                refuse(claims, of: owner)
                continue
            }
            for claim in claims { claim.answer(.here(account, since: since)) }
        }
    }

    /// - Parameter owner: The node that may be dead, and has the leases.
    private func refuse(_ claims: [Claim], of owner: NodeID? = nil) {
        for claim in claims { claim.answer(.nowhere(retryAfter: node.pause(for: owner))) }
    }
}
#endif
