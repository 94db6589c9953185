// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

@testable import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Senders, a relay and targets around the command state machines, with what a crash takes (memory, queues of actions,
/// handlers, frames on the way) apart from what it leaves (committed rows). Every change is one `Step`, so that a test can
/// choose them at random or try them all. What must never happen ends up in `violations`.
struct CommandWorld: Hashable {
    enum Frame: Hashable {
        // Between sender and relay.
        case send(CommandDescriptor, again: Bool)
        case cancel(CommandID)
        case acknowledge(CommandID)
        case accepted(CommandID)
        case refused(CommandID, CommandRefusal)
        case progress(CommandID, CommandProgress)
        case final(CommandID, CommandFinal)
        // Between relay and target.
        case offer(CommandDescriptor)
        case requestCancel(CommandKey)
        case settled(CommandKey)
        case received(CommandKey)
        case result(CommandKey, digest: [UInt8], CommandFinal)

        /// Belongs to a request of its connection and means nothing on another.
        var isAnswer: Bool {
            switch self {
            case .accepted, .refused: true
            default: false
            }
        }
    }

    /// One direction of one connection: first in, first out.
    struct Pipe: Hashable {
        var epoch: Int
        var frames: [Frame] = []
    }

    /// An endpoint's connection to the relay, and what is left on the way of the one before.
    struct Link: Hashable {
        var epoch = 0
        var isUp = false
        var up: [Pipe] = []
        var down: [Pipe] = []
    }

    enum Task: Hashable {
        case persist(SentCommand)
        case signAnew(CommandID, SentCommand.SigningReason)
        case report(CommandID, SentCommand.Report)
        case persistMailbox(MailboxCommand)
        case removeMailbox(CommandKey)
        case persistTarget(CommandTarget.Row, highest: UInt64?)
        case removeTarget(CommandKey)
        case handle(CommandDescriptor, decidedAt: Int64)
        case stopHandler(CommandKey)
        case sendResult(CommandKey, epoch: Int)
        case disconnect
        case frame(link: Int, epoch: Int, Frame)
    }

    struct Sender: Hashable {
        let id: EndpointID
        var skew: Int64
        var offset: Int64 = 0
        var stored: [CommandID: SentCommand] = [:]
        var storedNumbers: [CommandLane: UInt64] = [:]
        var rows: [CommandID: SentCommand] = [:]
        var numbers: [CommandLane: UInt64] = [:]
        var sending: CommandSending?
        var queue: [Task] = []
    }

    struct Target: Hashable {
        let id: EndpointID
        var skew: Int64
        var offset: Int64 = 0
        var stored: [CommandKey: CommandTarget.Row] = [:]
        var storedHighest: [CommandLane: UInt64] = [:]
        var machine: CommandTarget
        var queue: [Task] = []
        var handlers: [CommandDescriptor] = []
        var isRevoked = false
    }

    struct Relay: Hashable {
        var began: Int64
        var stored: [CommandKey: MailboxCommand] = [:]
        var rows: [CommandKey: MailboxCommand] = [:]
        var deliveries: [Int: CommandDelivery] = [:]
        var queue: [Task] = []
    }

    /// What happened, as nobody in the system knows it.
    struct History: Hashable {
        var handled: Set<CommandKey> = []
        var lastHandled: [CommandLane: UInt64] = [:]
        /// "Handling" or an outcome was committed, at the target or the relay: only then may the target say `interrupted`.
        var begun: Set<CommandKey> = []
        /// What the target committed.
        var results: [CommandKey: CommandOutcome] = [:]
        var timedOut: Set<CommandKey> = []
        var answers: [CommandKey: CommandOutcome] = [:]
        var accepted: Set<CommandKey> = []
        /// The sender was told that it has not run and will not.
        var toldNotRun: Set<CommandKey> = []
        var databaseWasLost = false
        var outcomes: [CommandOutcome: Int] = [:]
        var refusals: [String: Int] = [:]
    }

    enum Step: Hashable {
        case submit(sender: Int, lane: CommandLane, life: Int64)
        case cancel(sender: Int, CommandID)
        case work(Int)
        case workAtRelay
        case deliverUp(link: Int, pipe: Int, twice: Bool)
        case deliverDown(link: Int, pipe: Int, twice: Bool)
        case connect(Int)
        case disconnect(Int)
        case losePipes(Int)
        case crash(Int)
        case crashRelay(losingDatabase: Bool)
        case pass(Int64)
        case tick
        case answer(target: Int, CommandKey, CommandOutcome)
        case timeOut(target: Int, CommandKey)
        case revoke(target: Int)
        case forge(target: Int, CommandDescriptor)
        case lie(sender: Int, CommandID, CommandFinal)
    }

    /// The creation time is part of the digest here, so that bytes signed anew differ.
    var now: Int64 = 1_800_000_000_000
    let limits: Limits
    var senders: [Sender]
    var targets: [Target]
    var relay: Relay
    /// Of the senders, then of the targets.
    var links: [Link]
    var ids = Identifiers()
    var history = History()
    var violations: [String] = []
    /// The owner's check turns down every so manieth command, by its number.
    var refusesEvery: UInt64

    init(senders: Int, targets: Int, skews: [Int64], limits: Limits = Limits(), refusesEvery: UInt64 = .max) {
        self.limits = limits
        self.refusesEvery = refusesEvery
        self.senders = (0..<senders).map { Sender(id: .test($0), skew: skews[$0]) }
        self.targets = (0..<targets).map {
            Target(id: .test(100 + $0), skew: skews[senders + $0], machine: CommandTarget(limits: limits))
        }
        self.relay = Relay(began: 1_800_000_000_000 - 100 * 86_400_000)
        self.links = Array(repeating: Link(), count: senders + targets)
    }

    mutating func apply(_ step: Step) {
        switch step {
        case .submit(let sender, let lane, let life): submit(sender, lane, life)
        case .cancel(let sender, let id): change(sender, id) { $0.cancel() }
        case .work(let node) where node < senders.count: workAtSender(node)
        case .work(let node): workAtTarget(node - senders.count)
        case .workAtRelay: workAtRelay()
        case .deliverUp(let link, let pipe, let twice): deliverUp(link, pipe, twice)
        case .deliverDown(let link, let pipe, let twice): deliverDown(link, pipe, twice)
        case .connect(let node): connect(node)
        case .disconnect(let node): disconnect(node)
        case .losePipes(let node):
            let link = links[node]
            links[node].up.removeAll { !link.isUp || $0.epoch != link.epoch }
            links[node].down.removeAll { !link.isUp || $0.epoch != link.epoch }
        case .crash(let node): crash(node)
        case .crashRelay(let losingDatabase): crashRelay(losingDatabase)
        case .pass(let time): now += time
        case .tick:
            for key in relay.rows.keys.sorted(by: CommandWorld.inOrder) { changeMailbox(key) { $0.timePassed(now: $1) } }
        case .answer(let target, let key, let outcome): answer(target, key, outcome)
        case .timeOut(let target, let key):
            history.timedOut.insert(key)
            perform(target, targets[target].machine.handlerTimedOut(key, clock(target)))
        case .revoke(let target): revoke(target)
        case .forge(let target, let command):
            perform(target, targets[target].machine.offered(command, check: .forged(reason: "forged"), clock(target)))
        case .lie(let sender, let id, let final): change(sender, id) { $0.ended(final, receiptIsValid: false) }
        }
    }

    // MARK: Connections

    private mutating func connect(_ node: Int) {
        guard !links[node].isUp, node < senders.count || !targets[node - senders.count].isRevoked else { return }
        links[node].isUp = true
        links[node].epoch += 1
        links[node].up = links[node].up.suffix(1) + [Pipe(epoch: links[node].epoch)]
        links[node].down = links[node].down.suffix(1) + [Pipe(epoch: links[node].epoch)]
        if node < senders.count {
            senders[node].offset = -senders[node].skew
            for key in relay.rows.keys.sorted(by: CommandWorld.inOrder) where key.sender == senders[node].id {
                changeMailbox(key) { row, _ in row.senderConnected() }
            }
            resend(node)
        } else {
            let target = node - senders.count
            targets[target].offset = -targets[target].skew
            let mailbox = relay.rows.values
                .filter { $0.command.lane.target == targets[target].id && !$0.isFinal }
                .map(\.command)
                .sorted { CommandWorld.inOrder($0.key, $1.key) }
            relay.deliveries[target] = CommandDelivery(mailbox: mailbox)
            offerNext(target)
            perform(target, targets[target].machine.connected())
        }
    }

    mutating func resend(_ sender: Int) {
        var sending = CommandSending(commands: senders[sender].rows.values.filter { !$0.isEnded }.map(\.command))
        let first = sending.start()
        senders[sender].sending = sending
        for id in first { change(sender, id) { $0.connected() } }
    }

    private mutating func disconnect(_ node: Int) {
        links[node].isUp = false
        if node < senders.count { senders[node].sending = nil } else { relay.deliveries[node - senders.count] = nil }
    }

    private mutating func transmit(_ link: Int, _ epoch: Int, _ frame: Frame, up: Bool) {
        guard links[link].isUp, links[link].epoch == epoch else { return }
        if up {
            links[link].up[links[link].up.count - 1].frames.append(frame)
        } else {
            links[link].down[links[link].down.count - 1].frames.append(frame)
        }
    }

    private mutating func deliverUp(_ link: Int, _ pipe: Int, _ twice: Bool) {
        guard links[link].up.indices.contains(pipe), let frame = links[link].up[pipe].frames.first else { return }
        let epoch = links[link].up[pipe].epoch
        // The relay takes no command from a connection once a newer one of the same endpoint has said hello.
        let isSend = if case .send = frame { true } else { false }
        if !(twice && !isSend) { links[link].up[pipe].frames.removeFirst() }
        if isSend, epoch < links[link].epoch { return }
        if link >= senders.count, targets[link - senders.count].isRevoked { return }
        arriveAtRelay(frame, link, epoch)
    }

    private mutating func deliverDown(_ link: Int, _ pipe: Int, _ twice: Bool) {
        guard links[link].down.indices.contains(pipe), let frame = links[link].down[pipe].frames.first else { return }
        if !(twice && !frame.isAnswer) { links[link].down[pipe].frames.removeFirst() }
        if frame.isAnswer, links[link].down[pipe].epoch < links[link].epoch || !links[link].isUp { return }
        if link < senders.count { arriveAtSender(frame, link) } else { arriveAtTarget(frame, link - senders.count) }
    }

    // MARK: Crashes

    private mutating func crash(_ node: Int) {
        disconnect(node)
        links[node].down = []
        if node < senders.count {
            senders[node].queue = []
            senders[node].rows = senders[node].stored
            senders[node].numbers = senders[node].storedNumbers
        } else {
            let target = node - senders.count
            targets[target].queue = []
            targets[target].handlers = []
            targets[target].machine = CommandTarget(
                limits: limits,
                highestNumbers: targets[target].storedHighest,
                rows: Array(targets[target].stored.values)
            )
            perform(target, targets[target].machine.start(clock(target)))
        }
    }

    private mutating func crashRelay(_ losingDatabase: Bool) {
        for node in links.indices {
            disconnect(node)
            links[node].up = []
        }
        relay.queue = []
        if losingDatabase {
            relay.stored = [:]
            relay.began = now
            history.databaseWasLost = true
        }
        relay.rows = relay.stored
        // Who was removed while the relay was down or in the middle of it.
        for target in targets where target.isRevoked { removeCommands(for: target.id) }
    }

    private mutating func revoke(_ target: Int) {
        targets[target].isRevoked = true
        disconnect(senders.count + target)
        removeCommands(for: targets[target].id)
    }

    private mutating func removeCommands(for target: EndpointID) {
        for key in relay.rows.keys.sorted(by: CommandWorld.inOrder) where relay.rows[key]?.command.lane.target == target {
            changeMailbox(key) { $0.targetRemoved(now: $1) }
        }
    }

    // MARK: Sender

    private mutating func submit(_ sender: Int, _ lane: CommandLane, _ life: Int64) {
        let number = nextNumber(sender, lane)
        let command = signed(sender, ids.next(), lane, number, life)
        let (row, actions) = SentCommand.prepare(command, sending: senders[sender].sending?.add(command) ?? false)
        senders[sender].rows[command.id] = row
        perform(sender, row, actions)
    }

    private mutating func nextNumber(_ sender: Int, _ lane: CommandLane) -> UInt64 {
        senders[sender].numbers[lane, default: 0] += 1
        return senders[sender].numbers[lane] ?? 0
    }

    private func signed(_ sender: Int, _ id: CommandID, _ lane: CommandLane, _ number: UInt64, _ life: Int64) -> CommandDescriptor {
        let created = now + senders[sender].skew + senders[sender].offset
        return CommandDescriptor(
            id: id,
            lane: lane,
            number: number,
            created: created,
            expires: created + life,
            digest: CommandWorld.digest(id, created),
            size: 1_000
        )
    }

    private mutating func change(_ sender: Int, _ id: CommandID, _ input: (inout SentCommand) -> [SentCommand.Action]) {
        guard var row = senders[sender].rows[id] else { return }
        let actions = input(&row)
        senders[sender].rows[id] = row
        perform(sender, row, actions)
    }

    private mutating func perform(_ sender: Int, _ row: SentCommand, _ actions: [SentCommand.Action]) {
        func frame(_ frame: Frame) -> Task { .frame(link: sender, epoch: links[sender].epoch, frame) }
        for action in actions {
            switch action {
            case .persist(let row): senders[sender].queue.append(.persist(row))
            case .send(let again): senders[sender].queue.append(frame(.send(row.command, again: again)))
            case .cancel: senders[sender].queue.append(frame(.cancel(row.command.id)))
            case .acknowledge: senders[sender].queue.append(frame(.acknowledge(row.command.id)))
            case .signAnew(let reason): senders[sender].queue.append(.signAnew(row.command.id, reason))
            case .answered:
                if let next = senders[sender].sending?.answered(row.command) { change(sender, next) { $0.connected() } }
            case .report(let report): senders[sender].queue.append(.report(row.command.id, report))
            case .retryLater, .reject: break
            }
        }
    }

    private mutating func arriveAtSender(_ frame: Frame, _ sender: Int) {
        switch frame {
        case .accepted(let id): change(sender, id) { $0.accepted() }
        case .refused(let id, let refusal): change(sender, id) { $0.refused(refusal) }
        case .progress(let id, let progress): change(sender, id) { $0.progressed(progress) }
        case .final(let id, let final):
            change(sender, id) { row in
                row.ended(final, receiptIsValid: final.receipt == CommandWorld.receipt(row.command.digest, final.outcome))
            }
        default: violations.append("a sender got \(frame)")
        }
    }

    private mutating func workAtSender(_ sender: Int) {
        guard !senders[sender].queue.isEmpty else { return }
        switch senders[sender].queue.removeFirst() {
        case .persist(let row):
            checkCommit(row, after: senders[sender].stored[row.command.id])
            senders[sender].stored[row.command.id] = row
            senders[sender].storedNumbers[row.command.lane] = max(
                senders[sender].storedNumbers[row.command.lane] ?? 0,
                row.command.number
            )
        case .signAnew(let id, let reason):
            guard let old = senders[sender].rows[id]?.command else { return }
            let number = reason == .numberPassed ? nextNumber(sender, old.lane) : old.number
            let command = signed(sender, id, old.lane, number, old.expires - old.created)
            let isCurrent = senders[sender].sending?.isCurrent(command) ?? false
            change(sender, id) { $0.signedAnew(command, sending: isCurrent) }
        case .report(let id, let report):
            // Only what is committed may be told.
            guard let row = senders[sender].stored[id] else { return violations.append("told of what is not stored: \(report)") }
            switch (report, row.state) {
            case (.status(.final(let outcome, _)), .final(let final)) where outcome == final.outcome: break
            case (.status(.final), _), (.withdrawn, .sent), (.withdrawn, .accepted): violations.append("told, not stored: \(report)")
            default: break
            }
        case .frame(_, let epoch, let frame): transmit(sender, epoch, frame, up: true)
        case let task: violations.append("a sender has \(task)")
        }
    }

    // MARK: Relay

    private mutating func arriveAtRelay(_ frame: Frame, _ link: Int, _ epoch: Int) {
        switch frame {
        case .send(let command, let again): arrive(command, again, link, epoch)
        case .cancel(let id): changeMailbox(CommandKey(sender: senders[link].id, id: id)) { $0.cancel(now: $1) }
        case .acknowledge(let id): changeMailbox(CommandKey(sender: senders[link].id, id: id)) { row, _ in row.acknowledged() }
        case .received(let key): changeMailbox(key) { row, _ in row.received() }
        case .result(let key, let digest, let final):
            if relay.rows[key] != nil {
                changeMailbox(key) { $0.ended(final, digest: digest, now: $1) }
            } else if CommandAdmission(limits: limits, databaseBegan: relay.began).settlesUnknownResult(now: now) {
                relay.queue.append(.frame(link: link, epoch: epoch, .settled(key)))
            }
        default: violations.append("the relay got \(frame)")
        }
    }

    private mutating func arrive(_ command: CommandDescriptor, _ again: Bool, _ link: Int, _ epoch: Int) {
        if let row = relay.rows[command.key] { return perform(command, row.sentAgain(digest: command.digest)) }
        guard let target = targets.firstIndex(where: { $0.id == command.lane.target }) else { return }
        let mailbox = relay.rows.values.filter { $0.command.lane.target == command.lane.target && !$0.isFinal }
        let waiting = relay.rows.values.filter { $0.command.lane.sender == command.lane.sender && $0.isFinal }
        let inLane = relay.rows.values.filter { $0.command.lane == command.lane }
        do throws(CommandRefusal) {
            let inDoubt = try CommandAdmission(limits: limits, databaseBegan: relay.began).check(
                command,
                again: again,
                now: now,
                targetIsKnown: !targets[target].isRevoked,
                highestNumber: inLane.map(\.command.number).max(),
                mailbox: MailboxUse(commands: mailbox.count, bytes: mailbox.reduce(0) { $0 + $1.command.size }),
                repliesWaiting: MailboxUse(commands: waiting.count, bytes: 0)
            )
            let isUp = links[senders.count + target].isUp
            let (row, actions) = MailboxCommand.store(command, inDoubt: inDoubt, targetIsConnected: isUp)
            relay.rows[command.key] = row
            perform(command, actions)
            relay.deliveries[target]?.add(command)
            offerNext(target)
        } catch {
            relay.queue.append(.frame(link: link, epoch: epoch, .refused(command.id, error)))
        }
    }

    private mutating func changeMailbox(_ key: CommandKey, _ input: (inout MailboxCommand, Int64) -> [MailboxCommand.Action]) {
        guard var row = relay.rows[key] else { return }
        let actions = input(&row, now)
        relay.rows[key] = row
        perform(row.command, actions)
    }

    private mutating func offerNext(_ target: Int) {
        while let key = relay.deliveries[target]?.next() { changeMailbox(key) { $0.offer(now: $1) } }
    }

    private mutating func perform(_ command: CommandDescriptor, _ actions: [MailboxCommand.Action]) {
        guard let sender = senders.firstIndex(where: { $0.id == command.lane.sender }),
            let target = targets.firstIndex(where: { $0.id == command.lane.target })
        else { return }
        func toSender(_ frame: Frame) -> Task { .frame(link: sender, epoch: links[sender].epoch, frame) }
        func toTarget(_ frame: Frame) -> Task {
            .frame(link: senders.count + target, epoch: links[senders.count + target].epoch, frame)
        }
        for action in actions {
            switch action {
            case .persist(let row): relay.queue.append(.persistMailbox(row))
            case .remove:
                relay.rows[command.key] = nil
                relay.queue.append(.removeMailbox(command.key))
            case .accept: relay.queue.append(toSender(.accepted(command.id)))
            case .refuse(let refusal): relay.queue.append(toSender(.refused(command.id, refusal)))
            case .progress(let progress): relay.queue.append(toSender(.progress(command.id, progress)))
            case .final(let final): relay.queue.append(toSender(.final(command.id, final)))
            case .offer: relay.queue.append(toTarget(.offer(command)))
            case .requestCancel: relay.queue.append(toTarget(.requestCancel(command.key)))
            case .settle: relay.queue.append(toTarget(.settled(command.key)))
            case .answered:
                relay.deliveries[target]?.answered(command)
                offerNext(target)
            }
        }
    }

    private mutating func workAtRelay() {
        guard !relay.queue.isEmpty else { return }
        switch relay.queue.removeFirst() {
        case .persistMailbox(let row):
            relay.stored[row.command.key] = row
            // Should this be lost before the sender hears of it, the target can but say that it may have run.
            if row.isFinal { history.begun.insert(row.command.key) }
        case .removeMailbox(let key): relay.stored[key] = nil
        case .frame(let link, let epoch, let frame):
            if case .accepted(let id) = frame {
                let key = CommandKey(sender: senders[link].id, id: id)
                if relay.stored[key] == nil { violations.append("accepted, not stored") }
            }
            transmit(link, epoch, frame, up: false)
        case let task: violations.append("the relay has \(task)")
        }
    }

    // MARK: Target

    func clock(_ target: Int) -> TargetClock {
        let own = now + targets[target].skew
        return TargetClock(own: own, relay: own + targets[target].offset)
    }

    private mutating func arriveAtTarget(_ frame: Frame, _ target: Int) {
        switch frame {
        case .offer(let command):
            let check: CommandCheck = command.number % refusesEvery == 0 ? .refused(.failed(reason: "refused")) : .valid
            if check != .valid { history.answers[command.key] = .failed(reason: "refused") }
            perform(target, targets[target].machine.offered(command, check: check, clock(target)))
        case .requestCancel(let key): perform(target, targets[target].machine.cancelled(key))
        case .settled(let key): perform(target, targets[target].machine.settled(key))
        default: violations.append("a target got \(frame)")
        }
    }

    private mutating func perform(_ target: Int, _ actions: [CommandTarget.Action]) {
        let link = senders.count + target
        let epoch = links[link].epoch
        for action in actions {
            let task: Task? =
                switch action {
                case .persist(let row, let highest, _): .persistTarget(row, highest: highest)
                case .remove(let key): .removeTarget(key)
                case .sendReceived(let key): .frame(link: link, epoch: epoch, .received(key))
                case .sendResult(let key): .sendResult(key, epoch: epoch)
                case .sendUnstoredResult(let command, let outcome):
                    .frame(link: link, epoch: epoch, CommandWorld.result(command, outcome))
                case .handle(let command): .handle(command, decidedAt: now)
                case .stopHandler(let key): .stopHandler(key)
                case .disconnect: .disconnect
                case .extendTime, .tellCancelled: nil
                }
            if let task { targets[target].queue.append(task) }
        }
    }

    private mutating func answer(_ target: Int, _ key: CommandKey, _ outcome: CommandOutcome) {
        targets[target].handlers.removeAll { $0.key == key }
        history.answers[key] = outcome
        perform(target, targets[target].machine.handlerEnded(key, outcome, reply: nil, clock(target)))
    }

    private mutating func workAtTarget(_ target: Int) {
        guard !targets[target].queue.isEmpty else { return }
        switch targets[target].queue.removeFirst() {
        case .persistTarget(let row, let highest):
            targets[target].stored[row.command.key] = row
            if let highest { targets[target].storedHighest[row.command.lane] = highest }
            if row.state != .received { history.begun.insert(row.command.key) }
            if case .answered(let outcome) = row.state { history.results[row.command.key] = outcome }
        case .removeTarget(let key): targets[target].stored[key] = nil
        case .sendResult(let key, let epoch):
            // Without a row it was settled while the message waited.
            guard let row = targets[target].stored[key] else { return }
            guard case .answered(let outcome) = row.state else { return violations.append("sent a result that is not stored") }
            transmit(senders.count + target, epoch, CommandWorld.result(row.command, outcome), up: true)
        case .frame(let link, let epoch, let frame):
            if case .received(let key) = frame, targets[target].stored[key] == nil { violations.append("received, not stored") }
            transmit(link, epoch, frame, up: true)
        case .handle(let command, let decidedAt): handle(command, decidedAt, target)
        case .stopHandler(let key): targets[target].handlers.removeAll { $0.key == key }
        case .disconnect: disconnect(senders.count + target)
        case let task: violations.append("a target has \(task)")
        }
    }

    // MARK: Promises

    private mutating func handle(_ command: CommandDescriptor, _ decidedAt: Int64, _ target: Int) {
        targets[target].handlers.append(command)
        if !history.handled.insert(command.key).inserted { violations.append("handled twice") }
        if let last = history.lastHandled[command.lane], command.number <= last { violations.append("handled out of order") }
        history.lastHandled[command.lane] = command.number
        if decidedAt >= command.expires { violations.append("handled after its expiry") }
        if history.toldNotRun.contains(command.key) { violations.append("handled after it was said that it will not be") }
        if targets[target].stored[command.key]?.state != .handling { violations.append("handled without a word in the store") }
    }

    /// The sender's row is committed: this is what its app will be told, now or after a crash.
    private mutating func checkCommit(_ row: SentCommand, after old: SentCommand?) {
        let key = row.command.key
        if let old, old.isEnded, old.state != row.state { violations.append("a second outcome: \(old.state), \(row.state)") }
        guard old?.isEnded != true else { return }
        switch row.state {
        case .prepared, .sent: break
        case .accepted: history.accepted.insert(key)
        case .withdrawn: tellNotRun(key, "withdrawn")
        case .refused(let refusal):
            if history.accepted.contains(key) { violations.append("accepted, then refused") }
            history.refusals[refusal.code, default: 0] += 1
            tellNotRun(key, "refused")
        case .final(let final):
            history.outcomes[final.outcome, default: 0] += 1
            switch final.outcome {
            case .succeeded, .declined, .unsupported, .failed:
                if history.answers[key] != final.outcome || final.attestedBy != .target {
                    violations.append("told \(final.outcome), answered \(String(describing: history.answers[key]))")
                }
            case .expired:
                if now < row.command.expires { violations.append("expired too early") }
                tellNotRun(key, "expired")
            case .cancelled:
                tellNotRun(key, "cancelled")
            case .indeterminate(.interrupted):
                if !history.begun.contains(key) { violations.append("interrupted, never begun") }
                // A committed result gets through, unless the relay has lost or removed what it knew.
                let isForgotten = history.databaseWasLost || now >= row.command.created + CommandPeriod.retention
                if let result = history.results[key], result != final.outcome, !isForgotten {
                    violations.append("interrupted, but the result was \(result)")
                }
            case .indeterminate(.timedOut):
                if !history.timedOut.contains(key) { violations.append("timed out, but did not") }
            case .indeterminate(.targetLost):
                let target = targets.first { $0.id == row.command.lane.target }
                if target?.isRevoked != true, now < row.command.expires { violations.append("target lost too early") }
            }
        }
    }

    private mutating func tellNotRun(_ key: CommandKey, _ word: String) {
        history.toldNotRun.insert(key)
        if history.handled.contains(key) { violations.append("told \(word), but it ran") }
    }

    // MARK: Pieces

    static func digest(_ id: CommandID, _ number: Int64) -> [UInt8] {
        withUnsafeBytes(of: id.uuid.uuid) { Array($0) } + withUnsafeBytes(of: number) { Array($0) }
    }

    static func receipt(_ digest: [UInt8], _ outcome: CommandOutcome) -> [UInt8] { digest + Array("\(outcome)".utf8) }

    static func result(_ command: CommandDescriptor, _ outcome: CommandOutcome) -> Frame {
        let final = CommandFinal(outcome: outcome, receipt: receipt(command.digest, outcome), reply: nil)
        return .result(command.key, digest: command.digest, final)
    }

    static func inOrder(_ left: CommandKey, _ right: CommandKey) -> Bool { left.id < right.id }
}

extension MailboxCommand {
    var isFinal: Bool { if case .final = state { true } else { false } }
}

/// Ids in the order in which they were made.
struct Identifiers: Hashable {
    private var count: UInt8 = 0
    private var high: UInt8 = 0

    mutating func next() -> CommandID {
        count &+= 1
        if count == 0 { high += 1 }
        guard let id = CommandID(uuid: UUID(uuid: (0, 0, 0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, high, count))) else {
            preconditionFailure("a UUID of version 7")
        }
        return id
    }
}

extension EndpointID {
    static func test(_ number: Int) -> EndpointID {
        guard let digest = KeyDigest(bytes: Array(repeating: UInt8(number), count: 32)) else { preconditionFailure("32 bytes") }
        return EndpointID(digest: digest)
    }
}
