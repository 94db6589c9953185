// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

@testable import RelayServer

/// One account's relay over rows in memory, without a store, a thread or a clock: a transaction runs, commits and is completed when the test
/// says so. What must never happen ends up in `violations`.
struct AccountWorld {
    let account: AccountID
    let relayID = RelayID(P256SigningKey().publicKey)
    let rows = MemoryRows()
    private(set) var relay: AccountRelay
    var now: Int64 = 1_800_000_000_000
    private(set) var began: Int64
    private(set) var hasLostDatabase = false
    /// The transactions that were not run yet.
    private(set) var waiting: [AccountWork] = []
    private(set) var channels: [ChannelID: AccountChannel] = [:]
    private(set) var rejected: [ChannelID: RelayMessage.Rejected] = [:]
    private(set) var redirected: [ChannelID: AccountID] = [:]
    private(set) var violations: [String] = []
    /// The wakes that are on their way to the push services.
    private(set) var wakes: [WakeRequest] = []
    /// A node that has lost the account, and does not know it yet. Its transactions fail.
    private(set) var stale: Node?

    struct Node {
        var relay: AccountRelay
        var waiting: [AccountWork]
        var channels: [ChannelID: AccountChannel]
    }

    /// Whether the stored state of any party has gone back. A target may then have a result for bytes that the sender has replaced.
    var hasGoneBack = false
    private var sent: [ChannelID: [RelayMessage]] = [:]
    private var lastChannel: UInt64 = 0
    private var ids = CommandIDGenerator()

    init(of device: TestDevice) {
        account = AccountID(of: device.identity)
        began = now - 100 * 86_400_000
        relay = AccountRelay(account, rules: Self.rules(relayID, now, age: now - began), servedSince: Milliseconds(clamping: now))
    }

    private static func rules(_ relay: RelayID, _ now: Int64, age: Int64) -> RelayRules {
        RelayRules(
            relay: relay,
            limits: Limits(),
            databaseBegan: now - age,
            wakeable: WakeableApps([.apns, .fcm, .wns, .webPush].map { .init($0) })
        )
    }

    // MARK: Inputs

    mutating func input(_ body: (inout AccountRelay) -> Void) {
        let (_, actions) = relay.run(at: Milliseconds(clamping: now), body)
        for action in actions { perform(action) }
    }

    @discardableResult
    mutating func connect(_ device: TestDevice, role: EndpointMessage.Hello.Role = .host) throws -> ChannelID {
        lastChannel += 1
        let (id, hello) = (ChannelID(lastChannel), try device.hello(account.rawValue, role: role))
        input { $0.connect(hello, as: id, isVerified: false) }
        return id
    }

    mutating func disconnect(_ channel: ChannelID) {
        if stale?.channels[channel] != nil { return atStaleNode { $0.disconnect(channel) } }
        input { $0.disconnected(channel) }
    }

    /// Whether a channel is open at either node.
    func isOpen(_ channel: ChannelID) -> Bool { channels[channel] != nil || stale?.channels[channel] != nil }

    mutating func send(_ message: EndpointMessage, on id: ChannelID) {
        if stale?.channels[id] != nil { return atStaleNode { $0.send(message, on: id) } }
        guard let channel = channels[id] else { return }
        let checked = CheckedMessage(message, on: channel, rules: relay.rules)
        input { $0.receive(checked, on: channel) }
    }

    /// Runs the next transaction, and completes it.
    mutating func work(_ fault: TestStore.Fault? = nil) {
        guard !waiting.isEmpty else { return }
        let (work, before) = (execution(of: waiting.removeFirst()), rows.tables)
        if fault == .before || work.run(rows) != nil { rows.tables = before }
        input { _ = work.complete(&$0, fault.map { _ in .unavailable("test") }) }
    }

    private func execution(of work: AccountWork) -> AccountWork.Execution {
        work.execution(of: account, relay.rules) { [now] in Milliseconds(clamping: now) }
    }

    mutating func settle() { while !waiting.isEmpty { work() } }

    /// The process ends. A transaction that was committed stays so.
    /// - Parameters:
    ///   - commits: the next transaction was committed, but no message was sent.
    ///   - losesDatabase: the new process begins with an empty one, or with this copy.
    mutating func crash(commits: Bool, losesDatabase: Bool = false, copy: MemoryRows.Tables? = nil) {
        if commits, let work = waiting.first {
            let before = rows.tables
            if execution(of: work).run(rows) != nil { rows.tables = before }
        }
        waiting = []
        channels = [:]
        stale = nil
        sent = [:]
        if losesDatabase {
            rows.tables = copy ?? .init()
            // As `SQLiteStore.beginAgain`.
            rows.tables.commands = rows.tables.commands.filter { $0.value.row.state != .stored }
            began = now
            hasLostDatabase = true
        }
        relay = AccountRelay(account, rules: Self.rules(relayID, now, age: now - began), servedSince: Milliseconds(clamping: now))
    }

    // MARK: Nodes

    /// Another node takes the account. The former one does not know it yet.
    /// - Parameter commits: Whether the former one's next transaction was committed before, and its report is to come.
    mutating func move(commits: Bool) {
        if commits, !waiting.isEmpty { work() }
        stale = Node(relay: relay, waiting: waiting, channels: channels)
        (waiting, channels) = ([], [:])
        relay = AccountRelay(account, rules: Self.rules(relayID, now, age: now - began), servedSince: Milliseconds(clamping: now))
    }

    /// The former node's next transaction fails at the fence. So it knows, and leaves the account.
    mutating func workAtStaleNode() {
        atStaleNode { world in
            if !world.waiting.isEmpty {
                let work = world.execution(of: world.waiting.removeFirst())
                world.input { _ = work.complete(&$0, .leaseLost) }
            }
            world.input { $0.leave() }
        }
        if stale.map({ $0.waiting.isEmpty && $0.channels.isEmpty }) ?? true { stale = nil }
    }

    private mutating func atStaleNode(_ body: (inout AccountWorld) -> Void) {
        guard let node = stale else { return }
        let current = Node(relay: relay, waiting: waiting, channels: channels)
        (relay, waiting, channels, stale) = (node.relay, node.waiting, node.channels, nil)
        body(&self)
        stale = Node(relay: relay, waiting: waiting, channels: channels)
        (relay, waiting, channels) = (current.relay, current.waiting, current.channels)
    }

    /// What the relay does about once a second.
    mutating func tick() {
        let due = rows.dueCommands(in: .all, at: now, limit: 64).map(\.command)
        if !due.isEmpty { input { $0.transact(.serve(.endCommands(due), as: 0, left: nil)) } }
        input { $0.handleDeadlines() }
    }

    /// The messages that the relay has sent on a channel since the last call.
    mutating func receive(_ channel: ChannelID) -> [RelayMessage] { sent.removeValue(forKey: channel) ?? [] }

    // MARK: Actions

    private mutating func perform(_ action: AccountRelay.Action) {
        switch action {
        case .transact(let work): waiting.append(work)
        case .send(let message, let channel):
            if channels[channel] == nil { violations.append("sent on a closed channel") }
            check(message)
            sent[channel, default: []].append(message)
        case .sendOutcome(let message, let channel):
            perform(.send(message, to: channel))
            input { $0.sendNextOutcome(to: channel) }
        case .close: break
        case .forget(let channel): channels[channel] = nil
        case .accept(let channel, _, _):
            if rows.tables.endpoints[channel.endpoint] == nil { violations.append("accepted, not stored") }
            channels[channel.id] = channel
        case .reject(let channel, let rejection): rejected[channel] = rejection
        case .verify(let hello, let channel): verify(hello, as: channel)
        case .redirect(_, let channel, let other): redirected[channel] = other
        case .wake(let request): wakes.append(request)
        case .forgetWakes: wakes = []
        case .answer, .tunnel, .identity, .event, .endWakes, .endLogins, .offerFailed: break
        }
    }

    private mutating func verify(_ hello: ProvedHello, as channel: ChannelID) {
        input { $0.connect(hello, as: channel, isVerified: true) }
    }

    /// No message refers to data that is not stored.
    private mutating func check(_ message: RelayMessage) {
        switch message {
        case .command(let offer):
            guard let command = try? SealedCommand(decoding: offer.command.bytes, limits: Limits()) else { return }
            switch rows.tables.commands[StoredCommandKey(account: account, command: command.descriptor.key)]?.row.state {
            case .offered?, .final?: break
            case .stored?, nil: violations.append("offered, not stored")
            }
        case .commandSettled(let settled):
            let key = CommandKey(sender: settled.sender, id: settled.id)
            if let row = rows.tables.commands[StoredCommandKey(account: account, command: key)]?.row, !row.isFinal, !hasGoneBack {
                violations.append("settled, not final")
            }
        default: break
        }
    }

    // MARK: Commands

    /// - Parameter id: Default: a new one.
    mutating func command(
        from sender: TestDevice,
        to target: TestDevice,
        number: UInt64 = 1,
        app: String = "player",
        life: Int64 = 600_000,
        created: Int64? = nil,
        id: CommandID? = nil,
        firstNumber: UInt64? = nil,
        expires: Int64? = nil
    ) throws -> SealedCommand {
        var random = SystemRandomNumberGenerator()
        let created = created ?? now
        var header = CommandHeader(
            id: id ?? ids.next(now: UInt64(now), using: &random),
            account: account.rawValue,
            relay: relayID,
            sender: sender.id,
            target: target.id,
            senderApp: nil,
            targetApp: app,
            keyID: target.agreementKey.publicKey.keyID,
            kind: .message,
            number: number,
            created: created,
            expires: expires ?? created + life
        )
        header.firstNumber = firstNumber
        let body = CommandBody.message(service: "a", [:])
        return try SealedCommand(body, header: header, target: target.agreementKey.publicKey, key: sender.identityKey)
    }

    func result(
        of command: CommandDescriptor,
        _ outcome: CommandOutcome,
        highest: UInt64? = nil,
        by target: TestDevice,
        ref: RequestRef
    ) throws -> EndpointMessage {
        let receipt = try Signed(CommandReceipt(for: command, outcome: outcome, highest: highest, time: now), key: target.identityKey)
        return .commandResult(.init(ref: ref, sender: command.lane.sender, id: command.id, receipt: Blob(receipt.encoded)))
    }

    func row(_ command: SealedCommand) -> MailboxCommand? {
        rows.tables.commands[StoredCommandKey(account: account, command: command.descriptor.key)]?.row
    }
}
