// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayLog
import RelayProtocol

/// The state machine of one account at the relay. It is pure: inputs are calls that carry their time; outputs are `Action`s, in order.
///
/// It is composed of parts with states of their own: the open channels, what is on its way to them, the presences, the hosts that may have
/// to be woken, and the tunnels. The parts know nothing of each other. The extensions connect them, one for each concern.
///
/// The rows in the store are authoritative; memory holds only the connections. A request is one transaction (`AccountWork`) that reads
/// the account's rows, decides and writes. After the commit its completion changes the memory and adds actions. The owner runs the
/// transactions in the order of their actions, and completes them in that order. So a peer receives everything in the order of the
/// decisions, and nothing that is not on disk. A failed write changes nothing.
struct AccountRelay: Sendable {
    enum Action: Hashable, Sendable {
        /// Run a transaction, and complete it.
        case transact(AccountWork)
        case send(RelayMessage, to: ChannelID)
        /// Send an outcome that the endpoint may have missed, and call `sendNextOutcome` when it has left.
        case sendOutcome(RelayMessage, to: ChannelID)
        /// Close a channel after its queued messages. The account has already removed it.
        case close(ChannelID, code: UInt16, reason: String)
        /// The channel is removed: send nothing more on it.
        case forget(ChannelID)
        /// The hello is accepted and the channel is open.
        case accept(AccountChannel, accountName: String?, Limits)
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
        /// Send none of the account's wakes any more.
        case forgetWakes
        /// An identity was linked to the account, or removed from it.
        case identity(IdentityChange)
        /// The logins of revoked endpoints must be ended.
        case endLogins
        /// Tell the operator.
        case event(RelayEvent)
        /// Answer a request that came with this number.
        case answer(UInt64, Result<AccountAnswer, StoreError>)
        /// Write to the log that an offer could not be stored.
        case offerFailed(reason: String)
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

    static let clientsPerEndpoint = 8

    let id: AccountID
    private(set) var rules: RelayRules
    /// The time of the current input.
    private(set) var now: Milliseconds = 0
    var channels = ChannelTable()
    var mailboxes = Mailboxes()
    var presences = Presences()
    var hosts = WakeableHosts()
    var tunnels: TunnelTable
    private(set) var isStopping: Bool
    /// Since when this relay serves the account. What was connected before is not known.
    let servedSince: Milliseconds
    private var actions: [Action] = []
    /// When `handleDeadlines` may have something to do, and the earliest such time that the owner knows.
    private var deadline: (next: Milliseconds?, known: Milliseconds?)

    /// - Parameter isStopping: Whether the account admits no endpoints: the relay stops, or another node may serve the account.
    init(_ id: AccountID, rules: RelayRules, servedSince: Milliseconds, isStopping: Bool = false) {
        self.id = id
        self.rules = rules
        self.servedSince = servedSince
        self.isStopping = isStopping
        self.tunnels = TunnelTable(limits: rules.limits)
    }

    /// Whether the account can be dropped from memory without loss.
    var isIdle: Bool { channels.isEmpty && !mailboxes.isStoring && tunnels.tunnels.isEmpty }

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
        for channel in channels.all { send(.restarting(.init(after: 1_000, spread: 5_000)), to: channel.id) }
        perform(tunnels.stop())
    }

    /// Another node may serve the account from now on. Its endpoints connect again, and find that node.
    mutating func leave() {
        isStopping = true
        for channel in channels.all {
            close(channel, saying: .restarting(.init(after: 0, spread: 1_000)), code: 1012, reason: "another node serves the account")
        }
        perform(.forgetWakes)
        perform(tunnels.closeAll())
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
        refreshPresences(of: presences.takeDue(at: now))
        for host in hosts.takeSilent(at: now) {
            if let endpoint = channels[host]?.endpoint { handlePush(of: endpoint, isSilent: true) }
        }
        if let next = [tunnels.nextDeadline, presences.nextChange, hosts.nextDeadline].compactMap({ $0 }).min() { noteDeadline(next) }
    }

    /// The credentials of the push services have changed.
    mutating func update(_ rules: RelayRules) {
        guard rules.version > self.rules.version else { return }
        self.rules = rules
        refreshPresences(of: Set(presences.toldEndpoints).union(channels.endpoints))
    }

    // MARK: Actions

    mutating func perform(_ action: Action) { actions.append(action) }

    mutating func transact(_ work: AccountWork) { actions.append(.transact(work)) }

    mutating func send(_ message: RelayMessage, to channel: ChannelID) {
        if channels.contains(channel) { actions.append(.send(message, to: channel)) }
    }

    mutating func fail(_ ref: RequestRef, _ error: any Error, on channel: ChannelID) {
        send(.failure(Rejection(error).failure(ref)), to: channel)
    }

    mutating func tellWatchers(_ event: RelayMessage) { for channel in channels.watchers { send(event, to: channel) } }

    // MARK: Channels

    mutating func add(_ channel: AccountChannel) {
        channels.add(channel, at: now)
        mailboxes.opened(channel.id)
    }

    /// Removes a channel; nothing more is sent on it.
    mutating func remove(_ channel: AccountChannel) {
        channels.remove(channel)
        mailboxes.closed(channel.id)
        hosts.remove(channel.id)
        perform(tunnels.closed(channel.id, of: channel.endpoint))
        actions.append(.forget(channel.id))
        if channels.isEmpty { presences.lastChannelClosed() }
    }

    /// Sends a last message on a channel and closes it.
    mutating func close(_ channel: AccountChannel, saying message: RelayMessage?, code: UInt16, reason: String) {
        if let message { send(message, to: channel.id) }
        actions.append(.close(channel.id, code: code, reason: reason))
        remove(channel)
    }

    /// Closes a channel because something for it could not be stored or read. Its successor starts with all of it again.
    mutating func reopen(_ id: ChannelID) {
        guard let channel = channels[id] else { return }
        if channel.role == .host { storeLoss(of: channel.endpoint) }
        close(channel, saying: nil, code: 1013, reason: "the relay cannot store anything now")
        refreshPresences(of: [channel.endpoint])
    }
}
