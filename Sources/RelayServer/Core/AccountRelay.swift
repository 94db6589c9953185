// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayLog
import RelayProtocol

/// The state machine of one account at the relay: its open channels, their presences, and its tunnels. It is pure: inputs are calls that
/// carry their time; outputs are `Action`s, in order.
///
/// The rows in the store are authoritative; memory holds only the connections. A request is one transaction (`AccountWork`) that reads
/// the account's rows, decides and writes. After the commit its completion changes the memory and adds actions. The owner runs the
/// transactions in the order of their actions, and completes them in that order. So a peer receives everything in the order of the
/// decisions, and nothing that is not on disk. A failed write changes nothing.
struct AccountRelay: Sendable {
    enum Action: Sendable {
        /// Run a transaction, then call its completion.
        case transact(AccountWork)
        case send(RelayMessage, to: ChannelID)
        /// Send an outcome that the endpoint may have missed, and call `sendNextOutcome` when it has left.
        case sendOutcome(RelayMessage, to: ChannelID)
        /// Close a channel after its queued messages. The account has already removed it.
        case close(ChannelID, code: UInt16, reason: String)
        /// The channel is removed: send nothing more on it.
        case forget(ChannelID)
        /// The hello is accepted and the channel is open.
        case accept(AccountChannel, accountName: String?)
        case reject(ChannelID, RelayMessage.Rejected)
        /// Check the signatures of a hello's record, then submit the hello again.
        case verify(ProvedHello, ChannelID)
        /// The identity belongs to another account.
        case redirect(ProvedHello, ChannelID, to: AccountID)
        case tunnel(TunnelAction)
        /// Send a wake, and report its outcome with `waked`.
        case wake(WakeRequest)
        /// An endpoint that may have been woken has connected.
        case endWakes(EndpointID)
        /// An identity was linked to the account, or removed from it.
        case identity(IdentityChange)
        /// The logins of revoked endpoints must be ended.
        case endLogins
        /// Tell the operator.
        case event(RelayEvent)
        /// Call a completion outside the lock.
        case call(@Sendable () -> Void)
        /// Write to the log, outside the lock.
        case log(Logger.Level, Logger.Message, Logger.Metadata)
    }

    enum TunnelAction: Hashable, Sendable {
        case opened(TunnelID)
        case ended(TunnelID)
        /// A tunnel has failed. For the metrics only: the endpoints receive messages.
        case failed(ControlErrorCode)
        /// Forward bytes between two connections.
        case pair(EntrantID, EntrantID, generation: Int)
        /// Send a status to a waiting connection, and close it.
        case dismiss(EntrantID, TunnelStatus)
        /// Close a paired connection.
        case abort(EntrantID)
    }

    /// A channel that is open.
    struct OpenChannel: Sendable {
        let channel: AccountChannel
        /// It receives discovery events.
        var isWatching = false
        /// It has requested `leaving`.
        var isLeaving = false
        /// Its `leaving` is stored, so it gets no more commands.
        var hasLeft = false
        /// Set for a host whose mailbox has been read.
        var delivery: CommandDelivery?
        /// The outcomes from before this channel opened that are still to be sent.
        var outcomes: ArraySlice<CommandKey> = []
        /// The requests to be answered once the mailbox is drained.
        var drains: [RequestRef] = []
        let opened: Milliseconds
        /// Of a host: whether it can be woken, and the state of its registration that it was told.
        var isWakeable = false
        var toldRegistration: RelayMessage.NotificationsState.State?

        init(_ channel: AccountChannel, opened: Milliseconds) {
            self.channel = channel
            self.opened = opened
        }
    }

    /// How long after the start an endpoint that has not connected is `unknown`. It equals the longest silence of a live endpoint.
    static let startingPeriod: Int64 = 75_000
    static let clientsPerEndpoint = 8

    let id: AccountID
    private(set) var rules: RelayRules
    /// The time of the current input.
    private(set) var now: Milliseconds = 0
    private(set) var channels: [ChannelID: OpenChannel] = [:]
    /// Oldest first; no value is empty.
    private var channelsOfEndpoint: [EndpointID: [AccountChannel]] = [:]
    var presences = Presences()
    /// The hosts that can be woken and have given no sign of life since the offer of a command, with the time of the offer.
    var offerTimes: [ChannelID: Milliseconds] = [:]
    /// The hosts that were woken although they are connected, and have given no sign of life since.
    var wokenHosts: Set<ChannelID> = []
    /// The hosts whose channel another process took over.
    var takeovers: [EndpointID: HostTakeovers] = [:]
    /// The number of commands per target that are being stored and will be offered after that. New commands must not overtake them.
    var storing: [EndpointID: Int] = [:]
    var tunnels: TunnelTable
    private(set) var isStopping: Bool
    private var actions: [Action] = []
    /// When `handleDeadlines` may have something to do, and the earliest such time that the owner knows.
    private var deadline: (next: Milliseconds?, known: Milliseconds?)

    /// - Parameter isStopping: Whether the relay stops, and admits no endpoints.
    init(_ id: AccountID, rules: RelayRules, isStopping: Bool = false) {
        self.id = id
        self.rules = rules
        self.isStopping = isStopping
        self.tunnels = TunnelTable(limits: rules.limits)
    }

    /// Whether the account can be dropped from memory without loss.
    var isIdle: Bool { channels.isEmpty && storing.isEmpty && tunnels.tunnels.isEmpty }

    // MARK: Inputs

    /// Handles one input.
    /// - Returns: the result of the input, and the actions.
    mutating func run<Result>(at now: Milliseconds, _ input: (inout AccountRelay) -> Result) -> (result: Result, actions: [Action]) {
        self.now = now
        let result = input(&self)
        for tunnel in tunnels.takeEnded() { actions.append(.tunnel(.ended(tunnel))) }
        defer { actions = [] }
        return (result, actions)
    }

    /// Stops the admission of endpoints, and tells the connected ones when to reconnect.
    mutating func stop() {
        isStopping = true
        for channel in channels.keys.sorted() { send(.restarting(.init(after: 1_000, spread: 5_000)), to: channel) }
        perform(tunnels.stop())
    }

    /// The longest time to the next `handleDeadlines` of an account that waits for something. The owner remembers each time until it comes,
    /// also those of accounts that it has dropped.
    private static let longestWait = Milliseconds(60_000)

    /// The time for `handleDeadlines`, if it is earlier than what this function has returned since the last `handleDeadlines`.
    mutating func takeDeadline() -> Milliseconds? {
        guard let due = deadline.next else { return nil }
        let next = min(due, now + Self.longestWait)
        guard deadline.known.map({ next < $0 }) ?? true else { return nil }
        deadline.known = next
        return next
    }

    /// Something is due at a time. What ends before that leaves the time; then `handleDeadlines` finds nothing.
    mutating func noteDeadline(_ time: Milliseconds) { deadline.next = deadline.next.map { min($0, time) } ?? time }

    mutating func handleDeadlines() {
        deadline = (nil, nil)
        perform(tunnels.expire(now: now))
        refreshDuePresences()
        wakeSilentHosts()
        let times = [
            tunnels.nextDeadline, presences.nextChange, offerTimes.values.min().map { $0 + Milliseconds(clamping: Self.silencePeriod) },
        ]
        if let next = times.compactMap({ $0 }).min() { noteDeadline(next) }
    }

    /// The credentials of the push services have changed.
    mutating func update(_ rules: RelayRules) {
        guard rules.version > self.rules.version else { return }
        self.rules = rules
        refreshPresences(of: Set(presences.told.keys).union(channelsOfEndpoint.keys))
    }

    // MARK: Actions

    mutating func perform(_ action: Action) { actions.append(action) }

    mutating func send(_ message: RelayMessage, to channel: ChannelID) {
        if channels[channel] != nil { actions.append(.send(message, to: channel)) }
    }

    mutating func fail(_ ref: RequestRef, _ error: any Error, on channel: ChannelID) {
        send(.failure(Rejection(error).failure(ref)), to: channel)
    }

    mutating func tellWatchers(_ event: RelayMessage) {
        for channel in channels.filter(\.value.isWatching).keys.sorted() { send(event, to: channel) }
    }

    /// Runs a transaction, then completes it with the state of the account at that time.
    /// - Parameters:
    ///   - channel: the channel that requested it. The relay stops reading from it while too much of its work waits.
    ///   - bytes: the size of the request that is kept until then, if it may be large.
    mutating func transact<Value: Sendable>(
        on channel: AccountChannel? = nil,
        bytes: Int = 0,
        _ body: @escaping @Sendable (any AccountTransaction, _ now: Int64) throws -> Value,
        then completion: @escaping @Sendable (inout AccountRelay, Result<Value, any Error>) -> Void
    ) {
        actions.append(.transact(AccountWork(on: channel?.id, bytes: bytes, body, then: completion)))
    }

    /// Serves a request by a transaction, and answers `ok` if it succeeds.
    mutating func serve<Value: Sendable>(
        _ ref: RequestRef,
        on channel: AccountChannel,
        _ body: @escaping @Sendable (any AccountTransaction, _ now: Int64) throws -> Value,
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
    /// All channels of an endpoint, oldest first.
    func channels(of endpoint: EndpointID) -> [AccountChannel] { channelsOfEndpoint[endpoint] ?? [] }

    /// The channel that receives an endpoint's commands.
    func host(of endpoint: EndpointID) -> AccountChannel? {
        channels(of: endpoint).first { $0.role == .host && channels[$0.id]?.hasLeft == false }
    }

    /// Changes the state of a channel if it is still open.
    @discardableResult
    mutating func change<Result>(_ channel: ChannelID, _ body: (inout OpenChannel) -> Result) -> Result? {
        guard let index = channels.index(forKey: channel) else { return nil }
        return body(&channels.values[index])
    }

    mutating func add(_ channel: AccountChannel) {
        channels[channel.id] = OpenChannel(channel, opened: now)
        channelsOfEndpoint[channel.endpoint, default: []].append(channel)
    }

    /// Removes a channel; nothing more is sent on it.
    mutating func remove(_ channel: AccountChannel) {
        channels[channel.id] = nil
        offerTimes[channel.id] = nil
        wokenHosts.remove(channel.id)
        channelsOfEndpoint[channel.endpoint]?.removeAll { $0.id == channel.id }
        if channelsOfEndpoint[channel.endpoint]?.isEmpty ?? false { channelsOfEndpoint[channel.endpoint] = nil }
        perform(tunnels.closed(channel.id, of: channel.endpoint))
        actions.append(.forget(channel.id))
        guard channels.isEmpty else { return }
        // Without channels, the store holds all that the presences depend on.
        presences = Presences()
    }

    /// Sends a last message on a channel and closes it.
    mutating func close(_ channel: AccountChannel, saying message: RelayMessage?, code: UInt16, reason: String) {
        if let message { send(message, to: channel.id) }
        actions.append(.close(channel.id, code: code, reason: reason))
        remove(channel)
    }

    /// Closes a channel because something for it could not be stored or read. Its successor starts with all of it again.
    mutating func reopen(_ id: ChannelID) {
        guard let channel = channels[id]?.channel else { return }
        if channel.role == .host { storeLoss(of: channel.endpoint) }
        close(channel, saying: nil, code: 1013, reason: "the relay cannot store anything now")
        refreshPresences(of: [channel.endpoint])
    }
}
