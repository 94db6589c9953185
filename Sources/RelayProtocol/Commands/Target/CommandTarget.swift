// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The clocks of a target. Both limit when a command may be handled.
package struct TargetClock: Hashable, Sendable {
    /// The target's own clock.
    package let own: Int64
    /// The relay's clock: the own clock plus the offset from the relay's last `challenge`.
    package let relay: Int64
    /// By how much the clocks of senders are ahead of the own one, where no relay has the time: each said it with an offer.
    package let senders: [EndpointID: Int64]

    package init(own: Int64, relay: Int64, senders: [EndpointID: Int64] = [:]) {
        self.own = own
        self.relay = relay
        self.senders = senders
    }

    /// The outcome of a command that may no longer run. Who states a wrong time gains at most a day.
    func end(of command: CommandDescriptor) -> CommandOutcome? {
        let sender = senders[command.lane.sender].map { own.saturatingAdding($0) }
        let (time, expires) = (sender ?? relay, command.expires)
        if time >= expires { return .expired }
        guard own >= expires.saturatingAdding(CommandPeriod.grace) else { return nil }
        let hours = Self.lead(of: own, before: time) / 3_600_000
        let lead = hours < 48 ? "\(hours) hours" : "\(hours / 24) days"
        let other = sender == nil ? "relay's" : "sender's"
        return .failed(reason: "the device's clock is \(lead) ahead of the \(other), so that the command has expired there; set its clock")
    }

    /// By how much the own clock is ahead of the relay's.
    package var lead: Int64 { Self.lead(of: own, before: relay) }

    private static func lead(of own: Int64, before time: Int64) -> Int64 { own.saturatingAdding(time == .min ? .max : -time) }

    /// Whether commands expire here because of the difference between the clocks.
    package var isFarAhead: Bool { lead >= CommandPeriod.grace }
}

/// The commands at their target: all lanes of one endpoint, and the state machine that handles each command at most once, in the order of
/// its lane, with up to 16 lanes at the same time.
///
/// Every input returns actions. The owner executes them in order, in one queue. An action after `.persist` or `.remove` happens only when
/// that write is committed; an action before it does not wait. A crash loses the remaining actions and the running handlers, and the owner
/// starts again from the stored rows. A message without a connection is dropped, because `connected()` and the relay's next offer make up
/// for it.
///
/// ```
/// (unknown) ──▶ received ──▶ handling ──▶ answered ──▶ settled ──▶ (forgotten)
///     │             └──────────────────────▲
///     └─▶ handling, if it can start at once
/// ```
///
/// A command may be offered by the relay, and by its sender on a direct session. Its results leave on each path on which it was offered. If
/// both are possible, a settled row is kept, so that a late offer on the other path gets the same result.
package struct CommandTarget: Hashable, Sendable {
    package static let maximumLanesAtOnce = 16

    private struct Lane: Hashable {
        /// `nil` if the lane has accepted no command.
        var position: LanePosition?
        /// The `received` commands, sorted by number.
        var waiting: [CommandKey] = []
        var handling: CommandKey?
    }

    private let limits: Limits
    private var rows: [CommandKey: Row] = [:]
    private var settled = SettledCommands()
    /// The sizes of the replies of the answered rows, in bytes.
    private var replySizes: [CommandKey: Int] = [:]
    private var lanes: [CommandLane: Lane] = [:]
    /// Lanes with waiting commands and none in handling, in round-robin order.
    private var readyLanes: [CommandLane] = []
    private var lanesAtWork = 0
    private var extended: Set<CommandKey> = []
    private var held = MailboxUse()
    /// There was no room for an offer. Later offers on this connection must not overtake it.
    private var refusesOffers = false

    /// The answered commands that only their senders can settle.
    private var unclaimed: Set<CommandKey> = []

    /// Whether nothing is left to do for the relay. Settled commands need nothing, and those that came directly alone wait for their senders.
    package var isEmpty: Bool { rows.count == unclaimed.count }

    /// Restores the stored position of each lane, and the stored rows.
    package init(limits: Limits = Limits(), positions: [CommandLane: LanePosition] = [:], rows: [Row] = []) {
        self.limits = limits
        for (lane, position) in positions { lanes[lane, default: Lane()].position = position }
        for row in Self.sorted(rows) {
            if case .settled = row.state {
                _ = settled.add(row)
                continue
            }
            self.rows[row.command.key] = row
            if row.replyBytes > 0 { replySizes[row.command.key] = row.replyBytes }
            if case .answered = row.state { noteUnclaimed(row) }
            held.commands += 1
            held.bytes += row.command.size
            if case .received = row.state { lanes[row.command.lane, default: Lane()].waiting.append(row.command.key) }
        }
    }

    /// The first input. A command in handling may have run, so it never runs again. Waiting commands continue.
    package mutating func start(_ clock: TargetClock) -> [Action] {
        var actions: [Action] = []
        for row in sortedRows {
            if case .handling = row.state { actions += answer(row.command.key, .indeterminate(.interrupted)) }
        }
        for row in sortedRows { queue(row.command.lane) }
        return actions + work(clock)
    }

    // MARK: The paths

    /// The relay sent `welcome`, or a direct session with a sender is open. The other side may not know the unsettled results.
    package mutating func connected(_ path: CommandPath = .relay) -> [Action] {
        if path == .relay { refusesOffers = false }
        return sortedRows.compactMap { row in
            guard case .answered = row.state, row.paths.contains(path) else { return nil }
            return .sendResult(row.command.key, on: path)
        }
    }

    /// Whether an offer of these bytes needs no check, because they were offered before.
    package func knows(_ command: CommandDescriptor) -> Bool {
        (rows[command.key] ?? settled[command.key]).map { $0.command.digest == command.digest } ?? false
    }

    /// The relay or the sender offered a command. The check is ignored for a known command.
    /// - Parameters:
    ///   - wasReceived: The other side knows that the command was stored here. If it is unknown here, the stored state has gone back, and the
    ///     command may have run.
    ///   - isCancelled: The sender has cancelled it. If it is unknown here, it will not run.
    package mutating func offered(
        _ command: CommandDescriptor,
        check: CommandCheck,
        wasReceived: Bool = false,
        isCancelled: Bool = false,
        on path: CommandPath = .relay,
        _ clock: TargetClock
    ) -> [Action] {
        if knows(command) { return offeredAgain(command.key, isCancelled, path) }
        switch check {
        case .unverifiable:
            return path == .relay ? [] : [.postpone(command.key)]
        case .forged(let reason):
            // A forged command must change neither the store nor the lane's number.
            return [.sendUnstoredResult(command, .failed(reason: reason), highest: nil, on: path)]
        case .valid, .refused, .appUnknown:
            break
        }
        let position = lanes[command.lane]?.position
        if let outcome = wasReceived ? .indeterminate(.forgotten) : endOfPassed(command, position) {
            return [.sendUnstoredResult(command, outcome, highest: position?.number, on: path)]
        }
        guard path != .relay || !refusesOffers else { return [] }
        do throws(LimitExceeded) {
            try held.checkRoom(for: command.size, limits: limits)
            // The relay keeps the shares of its senders itself.
            if path != .relay { try use(of: command.lane.sender).checkShare(for: command.size, limits: limits) }
        } catch {
            // The sender offers the next command of its lane only after this one.
            guard path == .relay else { return [.postpone(command.key)] }
            refusesOffers = true
            return [.disconnect(error)]
        }
        held.commands += 1
        held.bytes += command.size
        switch check {
        // Without a lane it could run later, if the app is hosted then.
        case .appUnknown: return refuse(command, .unsupported, opensLane: false, path)
        case _ where isCancelled: return refuse(command, .cancelled, opensLane: true, path)
        case .refused(let outcome): return refuse(command, outcome, opensLane: true, path)
        case .valid, .forged, .unverifiable: break
        }
        let row = Row(restoring: command, state: .received, paths: [path])
        rows[command.key] = row
        advance(to: command)
        lanes[command.lane, default: Lane()].waiting.append(command.key)
        queue(command.lane)
        let started = work(clock)
        guard case .persist(let taken, nil, let reply) = started.first, taken.command == command else {
            return [.persist(row, highest: command.number, reply: nil), .sendReceived(command.key, on: path)] + started
        }
        // One write covers both states. An expired command needs no `received`, because its result follows.
        let stored: Action = .persist(taken, highest: command.number, reply: reply)
        return (taken.state == .handling ? [stored, .sendReceived(command.key, on: path)] : [stored]) + started.dropFirst()
    }

    private mutating func offeredAgain(_ key: CommandKey, _ isCancelled: Bool, _ path: CommandPath) -> [Action] {
        // The settled row stays settled for the other path.
        guard rows[key] != nil else { return [.sendResult(key, on: path)] }
        rows[key]?.paths.insert(path)
        if path == .relay { unclaimed.remove(key) }
        switch rows[key]?.state {
        case .received, .handling: return [.sendReceived(key, on: path)] + (isCancelled ? cancelled(key, on: path) : [])
        case .answered, .settled, nil: return [.sendResult(key, on: path)]
        }
    }

    /// The outcome of a command that must not run under its number; `nil` if it may run.
    private func endOfPassed(_ command: CommandDescriptor, _ position: LanePosition?) -> CommandOutcome? {
        // It was signed again while the old bytes are stored here.
        if rows[command.key] != nil || settled[command.key] != nil { return .indeterminate(.forgotten) }
        guard let position, command.firstNumber ?? command.number <= position.number else { return nil }
        // It may have been accepted here before, with these or earlier bytes, and settled and deleted since.
        guard command.id > position.latest else { return .indeterminate(.forgotten) }
        // It was not: its sender's stored state has gone back.
        return command.number > position.number ? nil : .failed(reason: "the device has already handled later commands of this sender")
    }

    private mutating func advance(to command: CommandDescriptor) {
        var position = lanes[command.lane]?.position ?? LanePosition(number: command.number, latest: command.id)
        position.number = max(position.number, command.number)
        position.latest = max(position.latest, command.id)
        lanes[command.lane, default: Lane()].position = position
    }

    /// Answers a command without handling it. The answer is stored and the number counts, because the next check may have another result.
    /// No lane is created for an unknown app, because a sender could invent any number of apps.
    private mutating func refuse(
        _ command: CommandDescriptor,
        _ outcome: CommandOutcome,
        opensLane: Bool,
        _ path: CommandPath
    ) -> [Action] {
        let row = Row(restoring: command, state: .answered(outcome), paths: [path])
        rows[command.key] = row
        noteUnclaimed(row)
        let highest = opensLane || lanes[command.lane]?.position != nil ? command.number : nil
        if highest != nil { advance(to: command) }
        return [.persist(row, highest: highest, reply: nil), .sendResult(command.key, on: path)]
    }

    /// The relay reported that the sender has cancelled, or the sender has.
    package mutating func cancelled(_ key: CommandKey, on path: CommandPath = .relay) -> [Action] {
        guard let row = rows[key] else { return [] }
        switch row.state {
        case .received:
            lanes[row.command.lane]?.waiting.removeAll { $0 == key }
            return answer(key, .cancelled)
        case .handling:
            return [.tellCancelled(key)]
        case .answered, .settled:
            return [.sendResult(key, on: path)]
        }
    }

    /// The relay or the sender has stored the result.
    /// - Parameters:
    ///   - isKept: Whether the command may still be offered on another path.
    ///   - path: A relay that has not offered the command does not know whether the sender needs the result.
    package mutating func settled(_ key: CommandKey, isKept: Bool = false, on path: CommandPath = .relay) -> [Action] {
        guard var row = rows[key], case .answered(let outcome) = row.state, row.paths.contains(path) || path != .relay else { return [] }
        rows[key] = nil
        unclaimed.remove(key)
        row.replyBytes = replySizes.removeValue(forKey: key) ?? 0
        held.commands -= 1
        held.bytes -= row.command.size
        guard isKept else { return [.remove(key)] }
        row.state = .settled(outcome)
        return [.keepSettled(row)] + settled.add(row).map { .remove($0) }
    }

    /// Forgets the settled commands that no path offers any more, and the results that no sender has asked for in time.
    package mutating func removeForgotten(_ clock: TargetClock) -> [Action] {
        let unclaimed = sortedRows.filter { row in
            guard case .answered = row.state, !row.paths.contains(.relay) else { return false }
            return clock.relay >= row.command.expires.saturatingAdding(CommandPeriod.grace).saturatingAdding(CommandPeriod.retention)
        }
        return unclaimed.flatMap { settled($0.command.key, on: .direct($0.command.key.sender)) }
            + settled.removeForgotten(now: clock.relay).map { .remove($0) }
    }

    /// The relay has not stored the result, and may store it now.
    package mutating func notSettled(_ key: CommandKey) -> [Action] {
        if case .answered? = rows[key]?.state { [.sendResult(key)] } else { [] }
    }

    /// The sender was removed from the account for good. Its new commands can no longer be verified, so its idle lanes are deleted. Its
    /// earlier commands continue.
    package mutating func senderRemoved(_ sender: EndpointID) -> [Action] {
        let unused = lanes.filter { $0.key.sender == sender && $0.value.waiting.isEmpty && $0.value.handling == nil }.map(\.key)
        for lane in unused { lanes[lane] = nil }
        // Nobody will take these results.
        let unclaimed = unclaimed.filter { $0.sender == sender }.sorted { $0.id < $1.id }
        return unclaimed.flatMap { settled($0, on: .direct(sender)) } + unused.sorted { $0.appID < $1.appID }.map { .removeLane($0) }
    }

    // MARK: The handler

    /// The command is about to be passed to its app, after the commit.
    /// - Returns: The actions to do instead if it has expired in the meantime; else `nil`.
    package mutating func expiresBeforeHandling(_ key: CommandKey, _ clock: TargetClock) -> [Action]? {
        guard isHandling(key), let command = rows[key]?.command, let end = clock.end(of: command) else { return nil }
        return finish(key, end, reply: nil) + work(clock)
    }

    /// The handler answered.
    package mutating func handlerEnded(_ key: CommandKey, _ outcome: CommandOutcome, reply: [UInt8]?, _ clock: TargetClock) -> [Action] {
        guard isHandling(key) else { return [] }
        switch outcome {
        case .succeeded, .declined, .unsupported, .failed:
            return finish(key, outcome, reply: reply) + work(clock)
        case .expired, .cancelled, .indeterminate:
            // A handler cannot report these outcomes, because the command has run.
            return finish(key, .failed(reason: "the handler did not answer"), reply: nil) + work(clock)
        }
    }

    /// The handler asked for more time. It gets more only once.
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
        // The row is stored as `handling`, so the command never runs again, even if this result is lost. The relay keeps the first of two
        // results. In most cases it settles this one before it is written.
        if let reply { replySizes[key] = reply.count }
        guard let row = setAnswered(key, outcome) else { return [] }
        return sendResult(of: row) + [.note(row, reply: reply)]
    }

    // MARK: Lanes

    /// Starts as many lanes as the bound allows.
    private mutating func work(_ clock: TargetClock) -> [Action] {
        var actions: [Action] = []
        while lanesAtWork < Self.maximumLanesAtOnce, !readyLanes.isEmpty {
            actions += startNext(readyLanes.removeFirst(), clock)
        }
        return actions
    }

    private mutating func startNext(_ lane: CommandLane, _ clock: TargetClock) -> [Action] {
        var actions: [Action] = []
        while let key = lanes[lane]?.waiting.first, let command = rows[key]?.command {
            lanes[lane]?.waiting.removeFirst()
            if let end = clock.end(of: command) {
                actions += answer(key, end)
                continue
            }
            rows[key]?.state = .handling
            guard let row = rows[key] else { continue }
            lanes[lane]?.handling = key
            lanesAtWork += 1
            return actions + [.persist(row, highest: nil, reply: nil), .handle(command)]
        }
        return actions
    }

    private mutating func queue(_ lane: CommandLane) {
        guard let state = lanes[lane], state.handling == nil, !state.waiting.isEmpty, !readyLanes.contains(lane) else { return }
        readyLanes.append(lane)
    }

    private mutating func answer(_ key: CommandKey, _ outcome: CommandOutcome) -> [Action] {
        guard let row = setAnswered(key, outcome) else { return [] }
        return [.persist(row, highest: nil, reply: nil)] + sendResult(of: row)
    }

    /// The relay first, if it has offered the command.
    private func sendResult(of row: Row) -> [Action] {
        let key = row.command.key
        let paths: [CommandPath] = [.relay, .direct(key.sender)]
        return paths.filter(row.paths.contains).map { .sendResult(key, on: $0) }
    }

    private mutating func setAnswered(_ key: CommandKey, _ outcome: CommandOutcome) -> Row? {
        rows[key]?.state = .answered(outcome)
        if let row = rows[key] { noteUnclaimed(row) }
        return rows[key]
    }

    private mutating func noteUnclaimed(_ row: Row) { if !row.paths.contains(.relay) { unclaimed.insert(row.command.key) } }

    private func use(of sender: EndpointID) -> MailboxUse {
        rows.values.lazy.filter { $0.command.lane.sender == sender }.reduce(into: MailboxUse()) { use, row in
            use.commands += 1
            use.bytes += row.command.size
        }
    }

    private static func sorted(_ rows: some Sequence<Row>) -> [Row] {
        rows.sorted { ($0.command.number, $0.command.id) < ($1.command.number, $1.command.id) }
    }

    private var sortedRows: [Row] { Self.sorted(rows.values) }
}
