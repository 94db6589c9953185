// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOPosix
import RelayCollections
import RelayProtocol
import Synchronization

/// Carries out the relay's own jobs.
extension RelayCore {
    /// The number of commands per pass, so that a backlog does not delay other work.
    private static let maximumDueCommands = 64
    /// The number of revoked endpoints per pass.
    private static let maximumRevocations = 256
    /// The number of registrations per second, so that a backlog neither delays other work nor floods the providers.
    private static let maximumDuePushes = 256
    /// The number of registrations per second that are searched for commands.
    private static let maximumSearchedPushes = 1_024

    /// Waits until something may be due.
    package func untilDue() async throws {
        try await Task.sleep(for: Pulse.pause)
        let now = now()
        guard let next = nextDue(at: now) else { return }
        await pulse.rest(for: min(.milliseconds((next - now).count), Pulse.longestRest), on: EventLoops.connections.any())
        try Task.checkCancellation()
    }

    /// When something is due next, as the last pass has found; `nil` if that is not known.
    private func nextDue(at now: Milliseconds) -> Milliseconds? {
        guard let stored = jobs.withLock({ $0.nextDue }) else { return nil }
        let times = shards.all.compactMap { shard in shard.state.withLock { $0.deadlines.first } }
        let next = times.reduce(Milliseconds(clamping: stored), min)
        return next > now ? next : nil
    }

    package func handleDeadlines() {
        pulse.begin()
        let (now, wakeable) = (now(), wakeable)
        run(jobs.withLock { $0.tick(wakeable, at: now.count) })
        for shard in shards.all {
            let due = shard.state.withLock { $0.takeDueAccounts(at: now) }
            for account in due { change(account) { $0.handleDeadlines() } }
        }
    }

    /// What the relay can wake now.
    var wakeable: WakeableApps { wakes?.wakeable ?? WakeableApps() }

    func run(_ jobs: [NodeJobs.Job]) {
        for job in jobs {
            switch job {
            case .endCommands: endCommands()
            case .endLogins: endLogins()
            case .handlePushes: handleDuePushes()
            case .searchUnwoken(let position): searchUnwoken(after: position)
            case .tell(let wakeable, let version): tell(wakeable, version: version)
            case .serveRequests: serveRequests()
            case .giveBackIdle: giveBackIdle()
            case .probeStore: probeStore()
            }
        }
    }

    // MARK: Commands

    /// Finds commands that have expired, were not answered or were not acknowledged, and passes them to their accounts.
    private func endCommands() {
        let (now, scope) = (now, scope)
        transact { store in
            let due = try store.dueCommands(in: scope, at: now().count, limit: Self.maximumDueCommands)
            return (due, due.isEmpty ? try store.nextDue(in: scope) ?? .max : nil)
        } then: { [self] result in
            let (due, next) = (try? result.get()) ?? ([], nil)
            let accounts = Dictionary(grouping: due, by: \.account)
            jobs.withLock { $0.commandsRead(of: accounts.count, mayBeMore: due.count == Self.maximumDueCommands, next: next) }
            for (account, keys) in accounts {
                perform(.endCommands(keys.map(\.command)), on: account) { [self] answer in
                    run(jobs.withLock { $0.accountEnded(isStored: (try? answer.get()) != nil) })
                }
            }
        }
    }

    // MARK: Logins

    /// Ends the logins of revoked endpoints. The issuer has its own store, so the revocation's row records that logins are still to be ended.
    /// After a crash between the two commits they are ended at the next start.
    private func endLogins() {
        guard let logins else { return }
        let scope = scope
        tasks.start { [self] in
            let rows = (try? await store.transactGlobally { try $0.revocationsWithLogins(in: scope, limit: Self.maximumRevocations) }) ?? []
            // A failure does not stop the loop.
            for row in rows {
                do {
                    try await logins.endLogins(keyThumbprint: row.keyThumbprint, login: row.login)
                    _ = try await perform(.loginsEnded(row.endpoint), on: row.account)
                    logger.info("ended the logins of a revoked endpoint", metadata: ["endpoint": "\(row.endpoint.label)"])
                } catch {
                    logger.error("the logins of a revoked endpoint could not be ended; it is tried again", metadata: ["error": "\(error)"])
                }
            }
            run(jobs.withLock { $0.loginsEnded(at: now().count) })
        }
    }

    // MARK: Wakes

    private func handleDuePushes() {
        let (now, scope) = (now().count, scope)
        transact { store in
            try store.duePushes(in: scope, at: now, limit: Self.maximumDuePushes)
        } then: { [self] result in
            jobs.withLock { $0.pushesRead() }
            for push in (try? result.get()) ?? [] { handlePush(push) }
        }
    }

    /// A command that was offered just before the relay ended may wait for an endpoint that has not connected since. Nothing is due for it:
    /// it was connected when the command was stored. A wake that no provider had accepted may be lost, and the next one may be far away.
    private func searchUnwoken(after position: EndpointID?) {
        let (now, scope) = (now().count, scope)
        transact { store in
            try store.unwokenPushes(in: scope, after: position, at: now, limit: Self.maximumSearchedPushes)
        } then: { [self] result in
            guard case .success(let found) = result else { return jobs.withLock { $0.searchFailed() } }
            jobs.withLock { $0.searched(to: found.count == Self.maximumSearchedPushes ? found.last?.key.endpoint : nil) }
            for push in found where push.waits { handlePush(push.key) }
        }
    }

    private func handlePush(_ push: PushKey) {
        claim(.known(push.account)) { [self] claim in
            guard case .here = claim else { return }
            change(push.account) { $0.handlePush(of: push.endpoint) }
        }
    }

    // MARK: Nodes

    private static let maximumRequests = 256
    /// How long a request that fails is tried.
    private static let triedTime: Int64 = 60_000
    /// How long answers are kept.
    private static let answersKept: Int64 = 86_400_000
    /// How long an account without anything in memory is kept.
    private static let idleTime: Int64 = 120_000

    private var scope: AccountScope { leases?.scope ?? .all }

    private func serveRequests() {
        let (scope, time) = (scope, now().count)
        tasks.start { [self] in
            let found = try? await store.transactGlobally { store in
                try store.forgetRequests(answeredBefore: time - Self.answersKept)
                return try store.openRequests(in: scope, limit: Self.maximumRequests)
            }
            for request in found ?? [] { await serve(request) }
            jobs.withLock { $0.requestsServed() }
        }
    }

    private func serve(_ left: LeftRequest) async {
        do throws(StoreError) {
            _ = try await serve(left.request, on: left.account, left: left.id)
        } catch {
            // Another node may have taken the account, which finds the request then. What still fails after a while cannot be done.
            guard error != .leaseLost, now().count - left.made >= Self.triedTime else { return }
            logger.error("a request of another node cannot be done", metadata: ["error": "\(error)"])
            let time = now().count
            _ = try? await store.transactGlobally { try $0.answer(left.id, .failed, time: time) }
        }
    }

    /// Gives so many accounts back, of those that lose least: they have no tunnels, and no wakes, which would be lost with the account.
    func giveBack(_ count: Int) {
        var rest = count
        for shard in shards.all.shuffled() where rest > 0 {
            let free = shard.state.withLock { state in
                (state.served ?? [:]).keys.filter { state.accounts[$0]?.tunnels.tunnels.isEmpty ?? true }
            }
            let accounts = Array(free.lazy.filter { self.wakes?.hasWakes(of: $0) != true }.prefix(rest))
            for account in accounts { leases?.giveBack(account) }
            rest -= accounts.count
        }
    }

    private func giveBackIdle() {
        guard let leases else { return }
        let before = now().count - Self.idleTime
        for shard in shards.all {
            let idle = shard.state.withLock { state in
                (state.served ?? [:]).filter { $0.value.count < before && state.accounts[$0.key] == nil }.map(\.key)
            }
            // Wakes would be lost with the account.
            for account in idle where wakes?.hasWakes(of: account) != true { leases.giveBack(account) }
        }
    }

    /// Tells the accounts what the relay can wake.
    private func tell(_ wakeable: WakeableApps, version: Int) {
        for shard in shards.all {
            let changed = shard.state.withLock { state -> (RelayRules, [AccountID])? in
                guard let rules = state.rules, rules.version < version else { return nil }
                let new = rules.changed(wakeable, version: version)
                state.rules = new
                return (new, Array(state.accounts.keys))
            }
            guard let (rules, accounts) = changed else { continue }
            for account in accounts { change(account) { $0.update(rules) } }
        }
    }

    // MARK: The store

    /// Runs a transaction of the relay itself, which writes no rows that an account's relay keeps in memory.
    func transact<Value: Sendable>(
        _ body: @escaping @Sendable (any GlobalTransaction) throws -> Value,
        then completion: @escaping @Sendable (Result<Value, any Error>) -> Void
    ) {
        store.submit(for: nil, { try body($0) }) { [self] result in
            if case .failure(let error as StoreError) = result { storeFailed(error) }
            completion(result)
        }
    }

    /// Logs the first failure of the store.
    func storeFailed(_ error: StoreError) {
        if jobs.withLock({ $0.storeFailed() }) { logger.error("the store cannot be used", metadata: ["error": "\(error)"]) }
    }

    /// Logs that the store works again, after a successful write: reads succeed even if the disk is full.
    private func probeStore() {
        transact { store in
            try store.probe()
        } then: { [self] result in
            guard case .success = result, jobs.withLock({ $0.storeWorks() }) else { return }
            logger.notice("the store can be used again")
        }
    }
}
