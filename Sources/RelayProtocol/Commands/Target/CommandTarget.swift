// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The clocks of a target. Handling is bound to both.
package struct TargetClock: Hashable, Sendable {
    /// The target's own clock.
    package let own: Int64
    /// The same with the offset that the relay's last `challenge` showed.
    package let relay: Int64

    package init(own: Int64, relay: Int64) {
        self.own = own
        self.relay = relay
    }

    /// By relay time; but a relay that lies about the time gains no more than a day.
    func isPast(_ expires: Int64) -> Bool {
        relay >= expires || own >= expires.saturatingAdding(CommandPeriod.grace)
    }
}

/// What a target's owner found when it checked a command that the relay offered.
package enum CommandCheck: Hashable, Sendable {
    /// The signature is the sender's, and the command may run.
    case valid
    /// The signature is the sender's, but the command will not run: a policy, an unreadable body.
    case refused(CommandOutcome)
    /// The signature is the sender's, but there is no such app here.
    case appUnknown
    /// The signature is not the sender's, and never can be; or the sender was revoked.
    case forged(reason: String)
    /// There is no record that shows the sender's key. With one, the same bytes might be valid, so nothing is said.
    case unverifiable
}

/// The commands at their target: all lanes of one endpoint, and the state machine that handles each command at most once,
/// in the order of its lane, 16 lanes side by side.
///
/// Every input returns actions, which the owner executes in order, in one queue. An action after `.persist` or `.remove`
/// may happen only once that write is committed, one before it need not wait for it; a crash loses the actions that are left and the
/// handlers in flight, and the owner starts again from the stored rows. Messages that find no connection are dropped, since `connected()` and the
/// relay's next offer make up for them.
///
/// ```
/// (unknown) ──▶ received ──▶ handling ──▶ answered ──▶ (settled: forgotten)
///     │             └──────────────────────▲
///     └─▶ handling, if its turn comes at once
/// ```
package struct CommandTarget: Hashable, Sendable {
    package enum State: Hashable, Sendable {
        /// Waiting for its turn.
        case received
        /// With the handler, or once was: whoever reads this after a crash cannot know.
        case handling
        /// Over; the result is kept until the relay has settled it.
        case answered(CommandOutcome)
    }

    /// What is stored of a command until it is settled.
    package struct Row: Hashable, Sendable {
        package let command: CommandDescriptor
        package var state: State

        package init(restoring command: CommandDescriptor, state: State) {
            self.command = command
            self.state = state
        }
    }

    package enum Action: Hashable, Sendable {
        /// Insert or replace the row, and in the same commit the lane's highest number, if there is one here. An answered
        /// row is written with its reply and with the receipt, which the owner signs over both; a received one with the command itself,
        /// which nobody reads again once it is being handled.
        case persist(Row, highest: UInt64?, reply: [UInt8]?)
        /// Write the answered row of what was being handled, with its reply and the receipt, unless it is removed before: soon, and at once
        /// when the connection over which its result is sent is not there, or ends. A crash before that is one while it was handled.
        case note(Row, reply: [UInt8]?)
        /// Delete the row with all that belongs to it, when there is something to write, or soon: whoever finds it after a crash has it
        /// settled once more.
        case remove(CommandKey)
        /// Delete the lane's highest number.
        case removeLane(CommandLane)
        /// Send `command.received`.
        case sendReceived(CommandKey)
        /// Send `command.result` with the receipt and reply that are stored or noted, or that the `.note` behind this notes.
        case sendResult(CommandKey)
        /// Send a `command.result` for a command of which nothing is stored, with a receipt signed for it.
        case sendUnstoredResult(CommandDescriptor, CommandOutcome)
        /// Hand the command to its app and call `handlerEnded`; after 30 s call `handlerTimedOut`.
        case handle(CommandDescriptor)
        /// The handler's time ends 5 min after its start instead.
        case extendTime(CommandKey)
        /// Tell the handler that the sender has cancelled. What it answers stands.
        case tellCancelled(CommandKey)
        /// Cancel the handler's task. What it answers is ignored.
        case stopHandler(CommandKey)
        /// Close the connection: the relay offers more than there is room for. The next one begins with all of it.
        case disconnect(LimitExceeded)
    }

    package static let maximumLanesAtOnce = 16

    private struct Lane: Hashable {
        /// `nil` if no command has been taken in it.
        var highest: UInt64?
        /// The `received` ones, by number.
        var waiting: [CommandKey] = []
        var handling: CommandKey?
    }

    private let limits: Limits
    private var rows: [CommandKey: Row] = [:]
    private var lanes: [CommandLane: Lane] = [:]
    /// Lanes with something waiting and nothing in handling, in the order of their turns.
    private var turns: [CommandLane] = []
    private var lanesAtWork = 0
    private var extended: Set<CommandKey> = []
    private var held = MailboxUse()
    /// An offer found no room. Those behind it on the connection must not overtake it.
    private var refusesOffers = false

    /// From the store: the highest number of each lane, and the rows.
    package init(limits: Limits = Limits(), highestNumbers: [CommandLane: UInt64] = [:], rows: [Row] = []) {
        self.limits = limits
        for (lane, highest) in highestNumbers { lanes[lane, default: Lane()].highest = highest }
        for row in Self.sorted(rows) {
            self.rows[row.command.key] = row
            held.commands += 1
            held.bytes += row.command.size
            if case .received = row.state { lanes[row.command.lane, default: Lane()].waiting.append(row.command.key) }
        }
    }

    /// The first input. What was being handled may have run: it never runs again. What was waiting goes on.
    package mutating func start(_ clock: TargetClock) -> [Action] {
        var actions: [Action] = []
        for row in sortedRows {
            if case .handling = row.state { actions += answer(row.command.key, .indeterminate(.interrupted)) }
        }
        for row in sortedRows { queue(row.command.lane) }
        return actions + work(clock)
    }

    // MARK: The relay

    /// The relay said `welcome`: it may not know the results that are unsettled.
    package mutating func connected() -> [Action] {
        refusesOffers = false
        return sortedRows.compactMap { row in
            guard case .answered = row.state else { return nil }
            return .sendResult(row.command.key)
        }
    }

    /// Whether an offer of these bytes needs no check, since it has been made before.
    package func knows(_ command: CommandDescriptor) -> Bool {
        rows[command.key].map { $0.command.digest == command.digest } ?? false
    }

    /// The relay offered a command. The check is without meaning for one that is known.
    package mutating func offered(_ command: CommandDescriptor, check: CommandCheck, _ clock: TargetClock) -> [Action] {
        if knows(command), let row = rows[command.key] {
            switch row.state {
            case .received, .handling: return [.sendReceived(command.key)]
            case .answered: return [.sendResult(command.key)]
            }
        }
        switch check {
        case .unverifiable:
            return []
        case .forged(let reason):
            // A forger must reach neither the store nor the lane's number.
            return [.sendUnstoredResult(command, .failed(reason: reason))]
        case .valid, .refused, .appUnknown:
            break
        }
        let highest = lanes[command.lane]?.highest
        if rows[command.key] != nil || highest.map({ command.number <= $0 }) ?? false {
            // Settled and forgotten, or signed anew while the old bytes were here. It may have run.
            return [.sendUnstoredResult(command, .indeterminate(.interrupted))]
        }
        guard !refusesOffers else { return [] }
        do throws(LimitExceeded) {
            try held.checkRoom(for: command.size, limits: limits)
        } catch {
            refusesOffers = true
            return [.disconnect(error)]
        }
        held.commands += 1
        held.bytes += command.size
        switch check {
        case .refused(let outcome): return refuse(command, outcome, opensLane: true)
        case .appUnknown: return refuse(command, .unsupported, opensLane: false)
        case .valid, .forged, .unverifiable: break
        }
        let row = Row(restoring: command, state: .received)
        rows[command.key] = row
        lanes[command.lane, default: Lane()].highest = command.number
        lanes[command.lane, default: Lane()].waiting.append(command.key)
        queue(command.lane)
        let turn = work(clock)
        guard case .persist(let taken, nil, let reply) = turn.first, taken.command == command else {
            return [.persist(row, highest: command.number, reply: nil), .sendReceived(command.key)] + turn
        }
        // One write for both. One that has expired needs no `received`: its result follows.
        let stored: Action = .persist(taken, highest: command.number, reply: reply)
        return (taken.state == .handling ? [stored, .sendReceived(command.key)] : [stored]) + turn.dropFirst()
    }

    /// Answered without handling. It must be stored, and its number must count: the check may come out otherwise the next time.
    /// For an app that is not here no lane is opened: senders could invent apps without end.
    private mutating func refuse(_ command: CommandDescriptor, _ outcome: CommandOutcome, opensLane: Bool) -> [Action] {
        let row = Row(restoring: command, state: .answered(outcome))
        rows[command.key] = row
        let highest = opensLane || lanes[command.lane]?.highest != nil ? command.number : nil
        if let highest { lanes[command.lane, default: Lane()].highest = highest }
        return [.persist(row, highest: highest, reply: nil), .sendResult(command.key)]
    }

    /// The relay told that the sender has cancelled.
    package mutating func cancelled(_ key: CommandKey) -> [Action] {
        guard let row = rows[key] else { return [] }
        switch row.state {
        case .received:
            lanes[row.command.lane]?.waiting.removeAll { $0 == key }
            return answer(key, .cancelled)
        case .handling:
            return [.tellCancelled(key)]
        case .answered:
            return [.sendResult(key)]
        }
    }

    /// The relay has stored the result.
    package mutating func settled(_ key: CommandKey) -> [Action] {
        guard let row = rows[key], case .answered = row.state else { return [] }
        rows[key] = nil
        held.commands -= 1
        held.bytes -= row.command.size
        return [.remove(key)]
    }

    /// A sender has left the account for good: nothing of it can be verified any more, so its lanes need not be kept. What
    /// it has sent before goes on.
    package mutating func senderRemoved(_ sender: EndpointID) -> [Action] {
        let unused = lanes.filter { $0.key.sender == sender && $0.value.waiting.isEmpty && $0.value.handling == nil }.map(\.key)
        for lane in unused { lanes[lane] = nil }
        return unused.sorted { $0.appID < $1.appID }.map { .removeLane($0) }
    }

    // MARK: The handler

    /// The command is about to be handed to its app, when that is stored.
    /// - Returns: What to do instead if its time has passed meanwhile; else `nil`.
    package mutating func expiresBeforeHandling(_ key: CommandKey, _ clock: TargetClock) -> [Action]? {
        guard isHandling(key), let command = rows[key]?.command, clock.isPast(command.expires) else { return nil }
        return finish(key, .expired, reply: nil) + work(clock)
    }

    /// The handler answered.
    package mutating func handlerEnded(_ key: CommandKey, _ outcome: CommandOutcome, reply: [UInt8]?, _ clock: TargetClock) -> [Action] {
        guard isHandling(key) else { return [] }
        switch outcome {
        case .succeeded, .declined, .unsupported, .failed:
            return finish(key, outcome, reply: reply) + work(clock)
        case .expired, .cancelled, .indeterminate:
            // It has run, whatever it says.
            return finish(key, .failed(reason: "the handler did not answer"), reply: nil) + work(clock)
        }
    }

    /// The handler asked for more time; it gets it once.
    package mutating func handlerAskedForTime(_ key: CommandKey) -> [Action] {
        guard isHandling(key), extended.insert(key).inserted else { return [] }
        return [.extendTime(key)]
    }

    /// The handler's time is over.
    package mutating func handlerTimedOut(_ key: CommandKey, _ clock: TargetClock) -> [Action] {
        guard isHandling(key) else { return [] }
        return [.stopHandler(key)] + finish(key, .indeterminate(.timedOut), reply: nil) + work(clock)
    }

    private func isHandling(_ key: CommandKey) -> Bool {
        guard let row = rows[key] else { return false }
        return lanes[row.command.lane]?.handling == key
    }

    private mutating func finish(_ key: CommandKey, _ outcome: CommandOutcome, reply: [UInt8]?) -> [Action] {
        guard let lane = rows[key]?.command.lane else { return [] }
        lanes[lane]?.handling = nil
        lanesAtWork -= 1
        extended.remove(key)
        queue(lane)
        // It is stored as `handling`, so it never runs again, whether this is stored or lost; of two results the relay takes the first,
        // which is settled in most cases before anything is written.
        guard let row = setAnswered(key, outcome) else { return [] }
        return [.sendResult(key), .note(row, reply: reply)]
    }

    // MARK: Turns

    /// Gives a turn to as many lanes as there may be.
    private mutating func work(_ clock: TargetClock) -> [Action] {
        var actions: [Action] = []
        while lanesAtWork < Self.maximumLanesAtOnce, !turns.isEmpty {
            actions += takeTurn(turns.removeFirst(), clock)
        }
        return actions
    }

    private mutating func takeTurn(_ lane: CommandLane, _ clock: TargetClock) -> [Action] {
        var actions: [Action] = []
        while let key = lanes[lane]?.waiting.first, let command = rows[key]?.command {
            lanes[lane]?.waiting.removeFirst()
            if clock.isPast(command.expires) {
                actions += answer(key, .expired)
                continue
            }
            let row = Row(restoring: command, state: .handling)
            rows[key] = row
            lanes[lane]?.handling = key
            lanesAtWork += 1
            return actions + [.persist(row, highest: nil, reply: nil), .handle(command)]
        }
        return actions
    }

    private mutating func queue(_ lane: CommandLane) {
        guard let state = lanes[lane], state.handling == nil, !state.waiting.isEmpty, !turns.contains(lane) else { return }
        turns.append(lane)
    }

    private mutating func answer(_ key: CommandKey, _ outcome: CommandOutcome) -> [Action] {
        guard let row = setAnswered(key, outcome) else { return [] }
        return [.persist(row, highest: nil, reply: nil), .sendResult(key)]
    }

    private mutating func setAnswered(_ key: CommandKey, _ outcome: CommandOutcome) -> Row? {
        rows[key]?.state = .answered(outcome)
        return rows[key]
    }

    private static func sorted(_ rows: some Sequence<Row>) -> [Row] {
        rows.sorted { ($0.command.number, $0.command.id) < ($1.command.number, $1.command.id) }
    }

    private var sortedRows: [Row] { Self.sorted(rows.values) }
}
