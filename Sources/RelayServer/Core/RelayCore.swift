// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CoreMetrics
import Dispatch
package import Logging
package import RelayLog
package import RelayProtocol
import Synchronization

/// The relay's core. It finds or creates the `AccountRelay` of each input, and carries out its actions.
///
/// Accounts are spread over shards with one lock each, so that accounts on different event loops seldom wait for each other. The
/// decisions of an account reach the store and the peers in the order in which they were made.
package final class RelayCore: RelayCoreProtocol {
    /// State of the relay as a whole.
    struct Node: Sendable {
        var isStarted = false
        var isStopping = false
        var isStoreFailing = false
        /// Whether transactions that end due commands are running.
        var isEndingCommands = false
        var loginsPass = LoginsPass.idle
        /// When to retry the logins of revoked endpoints that could not be ended.
        var nextLoginsPass: Int64 = 0
        /// Whether due push registrations are being read.
        var isWaking = false
        var wakeSearch = WakeSearch.done
        /// Whether a step of that search is running.
        var isSearching = false
        var wakeable = WakeableApps()
        /// How often that has changed.
        var wakeableVersion = 0
    }

    let store: any RelayStore
    let relay: RelayID
    let limits: Limits
    let now: @Sendable () -> Milliseconds
    let logger: Logger
    /// `nil` if there are no logins to end.
    let logins: (any LoginEnding)?
    /// `nil` if the relay sends no wakes.
    let wakes: (any WakeSender)?
    /// Told what happens to accounts and endpoints, never under a lock.
    let events: @Sendable (RelayEvent) -> Void
    /// Called after each change of an account's identities.
    let identityChanged: @Sendable (IdentityChange) -> Void
    let nameAccount: NameAccount
    let tasks: BackgroundTasks
    let shards: AccountShards
    let node = Mutex(Node())
    let tunnels: TunnelRegistry

    /// - Parameter tasks: Owns what runs beside the callers.
    package init(
        store: any RelayStore,
        relay: RelayID,
        limits: Limits,
        now: @escaping @Sendable () -> Milliseconds,
        logger: Logger,
        logins: (any LoginEnding)? = nil,
        wakes: (any WakeSender)? = nil,
        events: @escaping @Sendable (RelayEvent) -> Void = { _ in },
        identityChanged: @escaping @Sendable (IdentityChange) -> Void = { _ in },
        nameAccount: @escaping NameAccount = { _, _ in nil },
        tasks: BackgroundTasks = BackgroundTasks(),
        tunnelMetrics: TunnelMetrics = TunnelMetrics(factory: NOOPMetricsHandler.instance)
    ) {
        self.store = store
        self.relay = relay
        self.limits = limits
        self.now = now
        self.logger = logger
        self.logins = logins
        self.wakes = wakes
        self.events = events
        self.identityChanged = identityChanged
        self.nameAccount = nameAccount
        self.tasks = tasks
        self.shards = AccountShards()
        self.tunnels = TunnelRegistry(metrics: tunnelMetrics)
    }

    /// Starts the admission of endpoints.
    package func start(tunnelPorts: [Int] = []) async throws {
        let time = now().count
        let began = try await store.transactGlobally { store in
            if let began = try store.databaseBegan() { return began }
            try store.setDatabaseBegan(time)
            return time
        }
        let rules = RelayRules(
            relay: relay,
            limits: limits,
            databaseBegan: began,
            startTime: time,
            tunnelPorts: tunnelPorts,
            hasLogins: logins != nil,
            nameAccount: nameAccount,
            wakeable: wakes?.wakeable ?? WakeableApps()
        )
        for shard in shards.all { shard.state.withLock { $0.rules = rules } }
        node.withLock { node in
            node.isStarted = true
            node.wakeable = rules.wakeable
            if wakes != nil { node.wakeSearch = .waiting(until: time + Presences.startingPeriod) }
        }
        endLogins()
    }

    /// Stops the admission of endpoints, and tells the connected ones when to reconnect. The transport then closes their channels.
    package func stop() {
        node.withLock { $0.isStopping = true }
        for shard in shards.all {
            let accounts = shard.state.withLock { state in
                state.isStopping = true
                return Array(state.accounts.keys)
            }
            for account in accounts { change(account) { $0.stop() } }
            // Nothing that was verified before reaches the store after the stop.
            shard.verification.sync {}
        }
    }

    /// Called about once a second.
    package func handleDeadlines() {
        guard node.withLock({ $0.isStarted }) else { return }
        endCommands()
        endLoginsIfDue()
        handleDuePushes()
        refreshWakeable()
        probeStore()
        let now = now()
        for shard in shards.all {
            let due = shard.state.withLock { $0.takeDueAccounts(at: now) }
            for account in due { change(account) { $0.handleDeadlines() } }
        }
    }

    // MARK: Channels

    /// Connects an endpoint that has proved its identity. Calls back once, from any thread.
    package func connect(
        _ hello: ProvedHello,
        peer: any ControlPeer,
        completion: @escaping @Sendable (Result<AcceptedChannel, RelayMessage.Rejected>) -> Void
    ) {
        // Uses the account id derived from the identity, unless the store has another one. The identity is proved, so only its own
        // endpoints cause work for this account.
        connect(hello, to: AccountID(of: hello.identity), peer: peer, completion: completion)
    }

    func connect(
        _ hello: ProvedHello,
        to account: AccountID,
        peer: any ControlPeer,
        completion: @escaping @Sendable (Result<AcceptedChannel, RelayMessage.Rejected>) -> Void
    ) {
        let shard = shards[account]
        let id = shard.state.withLock { state -> ChannelID? in
            guard state.rules != nil, !state.isStopping else { return nil }
            let id = shards.nextChannel(in: shard, &state)
            state.arriving[id] = .init(peer: peer, completion: completion)
            return id
        }
        guard let id else { return completion(.failure(.unavailable)) }
        change(account) { $0.connect(hello, as: id, isVerified: false) }
    }

    /// Verifies off the store's thread, which all accounts share.
    func verify(_ hello: ProvedHello, as id: ChannelID, in account: AccountID) {
        shards[account].verification.async { [self] in
            do throws(RecordError) {
                _ = try Signed<EndpointRecord>(verifying: hello.record.encoded, limits: limits)
            } catch {
                let rejected = RelayMessage.Rejected(error)
                change(account) { $0.perform(.reject(id, rejected)) }
                return
            }
            change(account) { relay in
                if relay.isStopping { return relay.perform(.reject(id, .unavailable)) }
                relay.connect(hello, as: id, isVerified: true)
            }
        }
    }

    /// Handles a message on a connected channel. Messages arrive in order; answers and events go through the peer.
    /// - Returns: whether the peer may pass the next message. If not, it waits until it is resumed.
    package func receive(_ message: EndpointMessage, on id: ChannelID) -> Bool {
        let shard = shards[id]
        let found = shard.state.withLock { state in state.rules.flatMap { rules in state.channels[id].map { ($0, rules) } } }
        guard let (open, rules) = found else { return true }
        let checked = CheckedMessage(message, on: open.channel, rules: rules)
        change(open.channel.account) { $0.receive(checked, on: open.channel) }
        return store.hasRoom(for: id, of: open.channel.account, waiter: open.peer)
    }

    package func link(_ identity: Identity, ref: RequestRef, on id: ChannelID) {
        let shard = shards[id]
        guard let channel = shard.state.withLock({ $0.channels[id] })?.channel else { return }
        change(channel.account) { $0.link(identity, ref, on: channel) }
    }

    /// The channel was closed or timed out.
    package func disconnected(_ id: ChannelID, isSilent: Bool) {
        let shard = shards[id]
        guard let channel = shard.state.withLock({ $0.channels[id] })?.channel else { return }
        change(channel.account) { $0.disconnected(id) }
        logger.debug("channel closed", metadata: ["endpoint": "\(channel.endpoint.label)", "silent": "\(isSilent)"])
    }
}

extension RelayCore {
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
        let isFirst = node.withLock { node in
            defer { node.isStoreFailing = true }
            return !node.isStoreFailing
        }
        if isFirst { logger.error("the store cannot be used", metadata: ["error": "\(error)"]) }
    }

    /// Logs that the store works again, after a successful write: reads succeed even if the disk is full.
    private func probeStore() {
        guard node.withLock({ $0.isStoreFailing && !$0.isStopping }) else { return }
        transact { store in
            try store.probe()
        } then: { [self] result in
            guard case .success = result else { return }
            let isBack = node.withLock { node in
                defer { node.isStoreFailing = false }
                // The loss of a connection may not have been stored, and with it the time of a wake.
                if node.isStoreFailing, wakes != nil { node.wakeSearch = .at(nil) }
                return node.isStoreFailing
            }
            if isBack { logger.notice("the store can be used again") }
        }
    }
}

extension ChannelID: Comparable {
    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}
