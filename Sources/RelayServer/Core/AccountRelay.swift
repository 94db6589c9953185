// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// One account at the relay: who is connected, what they are told, and what becomes of their requests. Pure: inputs come in as calls with
/// their time, what is to be done comes out as `Action`s, in order.
///
/// The rows alone hold what is so; here is only who is connected. A request is one transaction that reads the account's rows, decides and
/// writes (`AccountWork`); when it is committed, its completion changes what is here and adds actions. The owner runs the transactions
/// in the order of their actions, and completes them in that order. So a peer hears everything in the order in which it was decided,
/// and nothing that is not on disk. A write that fails has changed nothing.
struct AccountRelay: Sendable {
    enum Action: Sendable {
        /// Run a transaction, then complete it.
        case transact(AccountWork)
        case send(RelayMessage, to: ChannelID)
        /// Close a channel after what was sent. It is gone here.
        case close(ChannelID, code: UInt16, reason: String)
        /// A channel is gone: nothing more is said on it.
        case forget(ChannelID)
        /// A hello is taken: its channel is open.
        case accept(AccountChannel)
        case reject(ChannelID, RelayMessage.Rejected)
        /// Check the signatures of a hello's record, then let it connect again.
        case verify(ProvedHello, ChannelID)
        /// The identity belongs to another account.
        case redirect(ProvedHello, ChannelID, to: AccountID)
        case tunnel(TunnelAction)
        /// Logins of revoked endpoints are to be ended.
        case endLogins
        /// Tell whoever asked.
        case call(@Sendable () -> Void)
        /// An offer could not be stored, for the log.
        case offerFailed(any Error)
    }

    enum TunnelAction: Hashable, Sendable {
        case opened(TunnelID)
        case ended(TunnelID)
        /// Nothing comes of a tunnel: for the metrics. The endpoints are told by messages.
        case failed(ControlErrorCode)
        /// Let the bytes of two connections over to each other.
        case pair(EntrantID, EntrantID, generation: Int)
        /// Tell a connection that waits, and close it.
        case dismiss(EntrantID, TunnelStatus)
        /// Close a paired connection.
        case abort(EntrantID)
    }

    /// A channel that is open.
    struct OpenChannel: Sendable {
        let channel: AccountChannel
        /// It is told what happens in the directory.
        var isWatching = false
        /// It said `leaving`: it gets no more commands.
        var hasLeft = false
        /// Of a host whose mailbox was read.
        var delivery: CommandDelivery?
        /// The outcomes that it has yet to be told, which ended before it was opened.
        var outcomes: ArraySlice<CommandKey> = []

        init(_ channel: AccountChannel) { self.channel = channel }
    }

    /// How long after the start an endpoint that was not heard of is `unknown`: the longest that a living one stays silent.
    static let startingPeriod: Int64 = 75_000
    static let clientsPerEndpoint = 8

    let id: AccountID
    let rules: RelayRules
    /// Of the input that is being worked on.
    private(set) var now: Milliseconds = 0
    private(set) var channels: [ChannelID: OpenChannel] = [:]
    /// The oldest first; none is empty.
    private var channelsOfEndpoint: [EndpointID: [ChannelID]] = [:]
    /// Of the endpoints heard of while a channel was open; of the others the store knows.
    var presences: [EndpointID: Presence] = [:]
    /// Watchers were told that the relay is starting, and have to be told better.
    var awaitsPresence = false
    /// How many commands for an endpoint are being stored that will be offered later than those that come now could be.
    var storing: [EndpointID: Int] = [:]
    var tunnels: TunnelTable
    private(set) var isStopping = false
    private var actions: [Action] = []

    init(_ id: AccountID, rules: RelayRules) {
        self.id = id
        self.rules = rules
        self.tunnels = TunnelTable(limits: rules.limits)
    }

    /// Nothing is lost if it is made anew.
    var isIdle: Bool { channels.isEmpty && storing.isEmpty && tunnels.tunnels.isEmpty }

    // MARK: Inputs

    /// Works on an input.
    /// - Returns: its result, and what is to be done.
    mutating func run<Result>(at now: Milliseconds, _ input: (inout AccountRelay) -> Result) -> (result: Result, actions: [Action]) {
        self.now = now
        let result = input(&self)
        for tunnel in tunnels.takeEnded() { actions.append(.tunnel(.ended(tunnel))) }
        defer { actions = [] }
        return (result, actions)
    }

    /// The relay takes no more endpoints, and tells those that are here when to come back.
    mutating func stop() {
        isStopping = true
        for channel in channels.keys.sorted() { send(.restarting(.init(after: 1_000, spread: 5_000)), to: channel) }
        perform(tunnels.stop())
    }

    /// Whether `timePassed` may have something to do.
    var isDue: Bool { !tunnels.pending.isEmpty || awaitsPresence }

    mutating func timePassed() {
        perform(tunnels.expire(now: now))
        endStarting()
    }

    // MARK: Actions

    mutating func perform(_ action: Action) { actions.append(action) }

    mutating func send(_ message: RelayMessage, to channel: ChannelID) {
        if channels[channel] != nil { actions.append(.send(message, to: channel)) }
    }

    mutating func fail(_ ref: RequestRef, _ error: any Error, on channel: ChannelID) {
        send(.failure(Refusal(error).failure(ref)), to: channel)
    }

    mutating func tellWatchers(_ event: RelayMessage) {
        for channel in channels.filter(\.value.isWatching).keys.sorted() { send(event, to: channel) }
    }

    /// Runs a transaction, then completes it with the account as it is then.
    /// - Parameters:
    ///   - channel: what asks for it: that channel is not read while too much of it waits.
    ///   - bytes: how much of the request is kept until then, if that may be much.
    mutating func transact<Value: Sendable>(
        on channel: AccountChannel? = nil,
        bytes: Int = 0,
        _ body: @escaping @Sendable (any StoreTransaction, _ now: Int64) throws -> Value,
        then completion: @escaping @Sendable (inout AccountRelay, Result<Value, any Error>) -> Void
    ) {
        actions.append(.transact(AccountWork(on: channel?.id, bytes: bytes, body, then: completion)))
    }

    /// Serves a request by a transaction whose success is `ok`.
    mutating func serve<Value: Sendable>(
        _ ref: RequestRef,
        on channel: AccountChannel,
        _ body: @escaping @Sendable (any StoreTransaction, _ now: Int64) throws -> Value,
        then completion: @escaping @Sendable (inout AccountRelay, Value) -> Void
    ) {
        transact(on: channel, body) { relay, result in
            switch result {
            case .success(let value):
                relay.send(.ok(.init(ref: ref)), to: channel.id)
                completion(&relay, value)
            case .failure(let error): relay.fail(ref, error, on: channel.id)
            }
        }
    }
}

// MARK: Channels

extension AccountRelay {
    /// All channels of an endpoint, the oldest first.
    func channels(of endpoint: EndpointID) -> [AccountChannel] {
        (channelsOfEndpoint[endpoint] ?? []).compactMap { channels[$0]?.channel }
    }

    /// The channel that takes an endpoint's commands.
    func host(of endpoint: EndpointID) -> AccountChannel? {
        for id in channelsOfEndpoint[endpoint] ?? [] {
            if let open = channels[id], !open.hasLeft, open.channel.role == .host { return open.channel }
        }
        return nil
    }

    /// Changes what is known of a channel, if it is open still.
    @discardableResult
    mutating func change<Result>(_ channel: ChannelID, _ body: (inout OpenChannel) -> Result) -> Result? {
        guard let index = channels.index(forKey: channel) else { return nil }
        return body(&channels.values[index])
    }

    /// Puts in a channel that has just been opened.
    mutating func add(_ channel: AccountChannel) {
        channels[channel.id] = OpenChannel(channel)
        channelsOfEndpoint[channel.endpoint, default: []].append(channel.id)
    }

    /// Takes a channel out; nothing more is said on it.
    mutating func remove(_ channel: AccountChannel) {
        channels[channel.id] = nil
        channelsOfEndpoint[channel.endpoint]?.removeAll { $0 == channel.id }
        if channelsOfEndpoint[channel.endpoint]?.isEmpty ?? false { channelsOfEndpoint[channel.endpoint] = nil }
        perform(tunnels.closed(channel.id, of: channel.endpoint))
        actions.append(.forget(channel.id))
        guard channels.isEmpty else { return }
        // From here on the store knows better.
        presences = [:]
        awaitsPresence = false
    }

    /// Says a last word on a channel and closes it.
    mutating func close(_ channel: AccountChannel, saying message: RelayMessage?, code: UInt16, reason: String) {
        if let message { send(message, to: channel.id) }
        actions.append(.close(channel.id, code: code, reason: reason))
        remove(channel)
    }

    /// An endpoint's host is here, or is not any more.
    mutating func set(_ presence: Presence, of endpoint: EndpointID) {
        presences[endpoint] = presence
        tellWatchers(.endpointUpdated(.init(endpoint: endpoint, presence: presence)))
    }

    /// What a channel was to be told could not be stored or read; its next one begins with all of it.
    mutating func reopen(_ id: ChannelID) {
        guard let channel = channels[id]?.channel else { return }
        if channel.role == .host { set(Presence(.unavailable, .lost, since: now), of: channel.endpoint) }
        close(channel, saying: nil, code: 1013, reason: "the relay cannot store anything now")
    }
}
