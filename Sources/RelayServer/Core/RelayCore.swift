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
    let store: any RelayStore
    let relay: RelayID
    package let limits: Limits
    let now: @Sendable () -> Milliseconds
    let logger: Logger
    /// `nil` if this node is the only one.
    let leases: (any AccountLeases)?
    /// Where endpoints reach this node of several.
    let nodeURL: Origin?
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
    let jobs: Mutex<NodeJobs>
    let tunnels: TunnelRegistry
    let pulse = Pulse()

    /// - Parameter tasks: Owns what runs beside the callers.
    package init(
        store: any RelayStore,
        leases: (any AccountLeases)? = nil,
        nodeURL: Origin? = nil,
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
        self.leases = leases
        self.nodeURL = nodeURL
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
        self.jobs = Mutex(NodeJobs(hasLogins: logins != nil, hasWakes: wakes != nil, hasNodes: leases != nil))
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
            tunnelPorts: tunnelPorts,
            hasLogins: logins != nil,
            nameAccount: nameAccount,
            wakeable: wakes?.wakeable ?? WakeableApps()
        )
        for shard in shards.all {
            shard.state.withLock { state in
                state.rules = rules
                state.started = Milliseconds(clamping: time)
                if leases != nil { state.served = [:] }
            }
        }
        leases?.begin { [weak self] event in
            self?.take(event)
        }
        run(jobs.withLock { $0.start(rules.wakeable, at: time) })
    }

    /// Stops the admission of endpoints, and tells the connected ones when to reconnect. The transport then closes their channels.
    package func stop() async {
        jobs.withLock { $0.stop() }
        // Its endpoints find other nodes at once.
        await leases?.giveBackAll()
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

    // MARK: Channels

    /// Connects an endpoint that has proved its identity. Calls back once, from any thread.
    package func connect(
        _ hello: ProvedHello,
        peer: any ControlPeer,
        completion: @escaping @Sendable (Result<AcceptedChannel, RelayMessage.Rejected>) -> Void
    ) {
        // Uses the account id derived from the identity, unless the store has another one. The identity is proved, so only its own
        // endpoints cause work for this account.
        connect(hello, to: .of(hello.identity), peer: peer, completion: completion)
    }

    func connect(
        _ hello: ProvedHello,
        to account: ClaimedAccount,
        peer: any ControlPeer,
        completion: @escaping @Sendable (Result<AcceptedChannel, RelayMessage.Rejected>) -> Void
    ) {
        claim(account) { [self] claim in
            switch claim {
            case .here(let account, _):
                // Through the URL of all nodes, its tunnels would reach any of them.
                if let nodeURL, hello.mayMove, hello.origin != "\(nodeURL)" { return completion(.failure(.moved(to: nodeURL))) }
                connect(hello, at: account, peer: peer, completion: completion)
            case .elsewhere(_, let url): completion(.failure(hello.mayMove ? .moved(to: url) : .unavailable))
            case .nowhere(let time): completion(.failure(.unavailable(retryAfter: time)))
            }
        }
    }

    private func connect(
        _ hello: ProvedHello,
        at account: AccountID,
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

    // MARK: Leases

    /// Makes this node serve an account, unless another one does. Calls back once, from any thread, and within the call if this node is the
    /// only one.
    func claim(_ account: ClaimedAccount, answer: @escaping @Sendable (AccountClaim) -> Void) {
        guard let leases else { return answer(.here(account.likely, since: 0)) }
        leases.claim(account) { [self] claim in
            if case .here(let account, let since) = claim { shards[account].state.withLock { $0.served?[account] = since } }
            answer(claim)
        }
    }

    /// A single node always has one.
    var hasYoungBeat: Bool { leases?.hasYoungBeat ?? true }

    private func take(_ event: LeaseEvent) {
        switch event {
        case .lost(let account): lost(account)
        case .nodeLeft:
            logger.notice("another node has ended, or takes no accounts any more")
            jobs.withLock { $0.nodeLeft(at: now().count) }
        case .becameAnother: logger.warning("the other nodes have found this one dead; it goes on as another node")
        case .cutOff(let reason):
            let text =
                switch reason {
                case .forLong: "this node has been of no use for long"
                case .alone: "this node does not reach its database, and another node does"
                }
            logger.warning("\(text); the channels are closed, so that endpoints try other nodes")
            for shard in shards.all {
                for account in shard.state.withLock({ Array(($0.served ?? [:]).keys) }) { lost(account) }
            }
        case .suspended(let reason?): logger.warning("this node takes no accounts now", metadata: ["reason": "\(reason)"])
        case .suspended(nil): logger.notice("this node takes accounts again")
        case .databaseBegan(let time): databaseBegan(time)
        case .hasTooMany(let count): giveBack(count)
        }
    }

    /// Another node may serve the account from now on.
    private func lost(_ account: AccountID) {
        shards[account].state.withLock { $0.served?[account] = nil }
        change(account) { $0.leave() }
    }

    /// The store is complete only since this time. The accounts take note when they are served anew.
    private func databaseBegan(_ time: Milliseconds) {
        var isNew = false
        for shard in shards.all {
            shard.state.withLock { state in
                guard let rules = state.rules, rules.admission.databaseBegan != time.count else { return }
                state.rules = rules.changed(databaseBegan: time.count)
                isNew = true
            }
        }
        guard isNew else { return }
        logger.warning("the database may have lost something; what was sent before now may stay without a known outcome")
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
        let checked = CheckedMessage(message, on: open.channel, rules: rules, mayRelay: !message.isRelayed || hasYoungBeat)
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

extension ChannelID: Comparable {
    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}
