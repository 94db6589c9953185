// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CoreMetrics
import Dispatch
package import Logging
package import RelayProtocol
import Synchronization

/// What the relay does: who is in which account, what they publish, and the commands between them.
///
/// The store alone holds what is so; here is only who is connected. A request is one transaction that reads the rows, decides
/// and writes; when it is committed, its completion changes what is in memory and queues what is to be said. Transactions are
/// completed in the order in which they were run, those of one account in the order in which they were submitted. So a peer hears
/// everything in the order in which it was decided, and nothing that is not on disk. A write that fails has changed nothing.
package final class RelayCore: RelayCoreProtocol {
    /// An open control channel: what does not change of it. Looked up for every message, so it is not copied.
    final class Channel: Sendable {
        let id: ChannelID
        let account: AccountID
        let endpoint: EndpointID
        let identityKey: SigningPublicKey
        let role: EndpointMessage.Hello.Role
        let instance: Blob<BlobKinds.Instance>
        /// The digests of the registrations that were stored when the channel opened.
        let verifiedRegistrations: [Digest256]
        let peer: any ControlPeer

        init(_ id: ChannelID, _ hello: ProvedHello, in account: AccountID, registrations: [Digest256], peer: any ControlPeer) {
            self.id = id
            self.account = account
            endpoint = hello.record.payload.endpointID
            identityKey = hello.record.payload.identityKey
            role = hello.role
            instance = hello.instance
            verifiedRegistrations = registrations
            self.peer = peer
        }
    }

    /// What is in memory of an account that has a channel.
    struct Connections: Sendable {
        /// The oldest first; none is empty.
        var channels: [EndpointID: [ChannelID]] = [:]
        /// Of the endpoints heard of while a channel of the account was open; of the others the store knows.
        var presences: [EndpointID: Presence] = [:]
        /// Watchers were told that the relay is starting, and have to be told better.
        var awaitsPresence = false
    }

    enum Outgoing: Sendable {
        case send(any ControlPeer, RelayMessage)
        case close(any ControlPeer, code: UInt16, reason: String)
        case call(@Sendable () -> Void)
    }

    struct State: Sendable {
        /// `nil` before the start.
        var admission: CommandAdmission?
        var startTime: Int64 = 0
        var isStopping = false
        var lastChannel: UInt64 = 0
        var channels: [ChannelID: Channel] = [:]
        /// Those that are told what happens in the directory.
        var watching: Set<ChannelID> = []
        /// Those that said `leaving`: they get no more commands.
        var left: Set<ChannelID> = []
        /// Of the hosts whose mailbox was read.
        var deliveries: [ChannelID: CommandDelivery] = [:]
        /// The outcomes that channels have yet to be told, which ended before they were opened.
        var outcomes: [ChannelID: ArraySlice<CommandKey>] = [:]
        var accounts: [AccountID: Connections] = [:]
        /// How many commands for an endpoint are being stored that will be offered later than those that come now could be.
        var storing: [EndpointID: Int] = [:]
        var tunnels: TunnelTable
        let tunnelMetrics: TunnelMetrics
        var entrants: [EntrantID: TunnelConnection] = [:]
        var lastEntrant: UInt64 = 0
        /// Where plain tunnel connections are taken.
        var tunnelPorts: [Int] = []
        var outgoing: [Outgoing] = []
        var isDelivering = false
        var isExpiring = false
        var isStoreFailing = false
        var loginsPass = LoginsPass.idle
        /// When logins of revoked endpoints are ended that could not be ended before.
        var nextLoginsPass: Int64 = 0
    }

    /// How long after the start an endpoint that was not heard of is `unknown`: the longest that a living one stays silent.
    static let startingPeriod: Int64 = 75_000
    static let clientsPerEndpoint = 8
    /// How many batches of messages a thread delivers before it goes back to its own work.
    private static let batchesAtOnce = 8

    let store: any RelayStore
    let relay: RelayID
    let limits: Limits
    let now: @Sendable () -> Milliseconds
    let logger: Logger
    /// Without one there are no logins to end.
    let logins: (any LoginEnding)?
    private let state: Mutex<State>
    private let delivery = DispatchQueue(label: "relay.delivery")
    private let backlog = Mutex(RequestBacklog())

    package init(
        store: any RelayStore,
        relay: RelayID,
        limits: Limits,
        now: @escaping @Sendable () -> Milliseconds,
        logger: Logger,
        logins: (any LoginEnding)? = nil,
        tunnelMetrics: TunnelMetrics = TunnelMetrics(factory: NOOPMetricsHandler.instance)
    ) {
        self.store = store
        self.relay = relay
        self.limits = limits
        self.now = now
        self.logger = logger
        self.logins = logins
        self.state = Mutex(State(tunnels: TunnelTable(limits: limits), tunnelMetrics: tunnelMetrics))
    }

    /// Opens the relay for endpoints.
    package func start(tunnelPorts: [Int] = []) async throws {
        let time = now().count
        let began = try await store.transact { store in
            if let began = try store.databaseBegan() { return began }
            try store.setDatabaseBegan(time)
            return time
        }
        change { state in
            state.startTime = time
            state.tunnelPorts = tunnelPorts
            state.admission = CommandAdmission(limits: limits, databaseBegan: began)
        }
        endLogins()
    }

    /// Takes no more endpoints, and tells those that are here when to come back. The transport closes their channels then.
    package func stop() {
        change { state in
            state.isStopping = true
            for channel in state.channels.keys.sorted() {
                state.send(.restarting(.init(after: 1_000, spread: 5_000)), to: channel)
            }
            state.perform(state.tunnels.stop())
        }
    }

    /// Called about once a second.
    package func timePassed() {
        endCommands()
        endStarting()
        endLoginsIfDue()
        probeStore()
        changeTunnels { $0.expire(now: now()) }
    }

    // MARK: State

    /// Changes the state, and says what comes of it. Nothing is said under the lock, since a peer may call back.
    func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        defer { deliver() }
        return state.withLock { body(&$0) }
    }

    func channel(_ id: ChannelID) -> Channel? { state.withLock { $0.channels[id] } }

    /// Says what is queued, on one thread at a time, so that the order stays. While other threads add more, an event loop or the store's
    /// thread goes back to its own work after a few batches, and a thread of its own takes over.
    private func deliver() {
        for _ in 0..<Self.batchesAtOnce {
            let batch: [Outgoing] = state.withLock { state in
                guard !state.isDelivering, !state.outgoing.isEmpty else { return [] }
                state.isDelivering = true
                defer { state.outgoing = [] }
                return state.outgoing
            }
            if batch.isEmpty { return }
            for outgoing in batch {
                switch outgoing {
                case .send(let peer, let message): peer.send(message)
                case .close(let peer, let code, let reason): peer.close(code: code, reason: reason)
                case .call(let call): call()
                }
            }
            state.withLock { $0.isDelivering = false }
        }
        delivery.async { self.deliver() }
    }

    /// Runs a transaction, then changes the state by its result. May be called with the state at hand.
    /// - Parameter account: whose work it is; `nil` for the relay's own.
    func transact<Value: Sendable>(
        for account: AccountID?,
        _ body: @escaping @Sendable (any StoreTransaction) throws -> Value,
        then completion: @escaping @Sendable (inout State, Result<Value, any Error>) -> Void
    ) {
        store.submit(for: account, body) { [self] result in
            change { state in
                tell(result, &state)
                completion(&state, result)
            }
        }
    }

    /// The same for what a channel asks for: that channel is not read while too much of it waits.
    /// - Parameter bytes: how much of the request is kept until then, if that may be much.
    func transact<Value: Sendable>(
        on channel: Channel,
        bytes: Int = 0,
        _ body: @escaping @Sendable (any StoreTransaction) throws -> Value,
        then completion: @escaping @Sendable (inout State, Result<Value, any Error>) -> Void
    ) {
        let cost = RequestBacklog.cost(bytes: bytes)
        backlog.withLock { $0.began(cost, on: channel.id, of: channel.account) }
        store.submit(for: channel.account, body) { [self] result in
            change { state in
                tell(result, &state)
                completion(&state, result)
            }
            let resumed = backlog.withLock { $0.ended(cost, on: channel.id, of: channel.account) }
            for peer in resumed { peer.resume() }
        }
    }

    /// Whether a channel may be read on; if not, its peer is told when it may.
    func mayRead(_ channel: Channel) -> Bool {
        backlog.withLock { $0.mayRead(channel.id, of: channel.account, peer: channel.peer) }
    }
}

extension RelayCore {
    /// Says once that the store cannot be used.
    private func tell<Value>(_ result: Result<Value, any Error>, _ state: inout State) {
        // Else the transaction's own refusal.
        guard case .failure(let error as StoreError) = result, !state.isStoreFailing else { return }
        logger.error("the store cannot be used", metadata: ["error": "\(error)"])
        state.isStoreFailing = true
    }

    /// Says once that the store can be used again: when it has written something. To read works while the disk is full.
    private func probeStore() {
        guard change({ $0.isStoreFailing && !$0.isStopping }) else { return }
        transact(for: nil) { store in
            try store.probe()
        } then: { [logger] state, result in
            guard case .success = result, state.isStoreFailing else { return }
            logger.notice("the store can be used again")
            state.isStoreFailing = false
        }
    }
}

extension ChannelID: Comparable {
    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

extension RelayCore.State {
    mutating func send(_ message: RelayMessage, to channel: ChannelID) {
        guard let peer = channels[channel]?.peer else { return }
        outgoing.append(.send(peer, message))
    }

    /// All channels of an endpoint, the oldest first.
    func channels(of endpoint: EndpointID, in account: AccountID) -> [RelayCore.Channel] {
        // By hand: a closure would take a copy of all this with it.
        var found: [RelayCore.Channel] = []
        for id in accounts[account]?.channels[endpoint] ?? [] {
            if let channel = channels[id] { found.append(channel) }
        }
        return found
    }

    func channels(in account: AccountID) -> [RelayCore.Channel] {
        (accounts[account]?.channels ?? [:]).values.joined().sorted().compactMap { channels[$0] }
    }

    /// The channel that takes an endpoint's commands.
    func host(of endpoint: EndpointID, in account: AccountID) -> RelayCore.Channel? {
        for id in accounts[account]?.channels[endpoint] ?? [] where !left.contains(id) {
            if let channel = channels[id], channel.role == .host { return channel }
        }
        return nil
    }

    /// Puts in a channel that has just been opened.
    mutating func add(_ channel: RelayCore.Channel) {
        channels[channel.id] = channel
        accounts[channel.account, default: RelayCore.Connections()].channels[channel.endpoint, default: []].append(channel.id)
    }

    /// Takes a channel out; nothing more is said on it.
    mutating func remove(_ channel: RelayCore.Channel) {
        channels[channel.id] = nil
        watching.remove(channel.id)
        left.remove(channel.id)
        deliveries[channel.id] = nil
        outcomes[channel.id] = nil
        accounts[channel.account]?.channels[channel.endpoint]?.removeAll { $0 == channel.id }
        if accounts[channel.account]?.channels[channel.endpoint]?.isEmpty ?? false {
            accounts[channel.account]?.channels[channel.endpoint] = nil
        }
        perform(tunnels.closed(channel.id, of: channel.endpoint))
        // From here on the store knows better.
        if accounts[channel.account]?.channels.isEmpty ?? false { accounts[channel.account] = nil }
    }

    /// Says a last word on a channel and closes it.
    mutating func close(_ channel: RelayCore.Channel, saying message: RelayMessage?, code: UInt16, reason: String) {
        if let message { send(message, to: channel.id) }
        outgoing.append(.close(channel.peer, code: code, reason: reason))
        remove(channel)
    }
}
