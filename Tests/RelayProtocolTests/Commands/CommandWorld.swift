// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

@testable import RelayProtocol

/// Senders, a relay and targets around the command state machines. Volatile state (memory, action queues, handlers,
/// frames in flight) is separate from durable state (committed rows). Every change is one `Step`, so a test can choose
/// steps at random or try all of them. Violated invariants are collected in `violations`.
struct CommandWorld: Hashable {
    enum Frame: Hashable {
        // Frames between sender and relay.
        case send(CommandDescriptor, CommandHistory)
        case cancel(CommandID)
        case acknowledge(CommandID)
        case accepted(CommandID, Digest256)
        case refused(CommandID, Digest256, CommandRejection)
        case progress(CommandID, CommandProgress)
        case final(CommandID, CommandFinal)
        // Frames between relay and target.
        case offer(CommandDescriptor, wasReceived: Bool)
        case requestCancel(CommandKey)
        case settled(CommandKey)
        case received(CommandKey)
        case result(CommandKey, digest: Digest256, CommandFinal)
        // Frames between sender and target, on a direct session.
        case offerDirectly(CommandDescriptor, wasReceived: Bool, isCancelled: Bool)
        case settledDirectly(CommandKey)
        case receivedDirectly(CommandID)
        case resultDirectly(CommandKey, CommandFinal)

        /// Whether the frame answers a request of its connection and has no meaning on another connection.
        var isAnswer: Bool {
            switch self {
            case .accepted, .refused, .receivedDirectly: true
            default: false
            }
        }
    }

    /// One direction of a connection, first in, first out.
    struct Pipe: Hashable {
        var epoch: Int
        var frames: [Frame] = []
    }

    /// An endpoint's connection to the relay, and frames of earlier connections that are still in flight.
    struct Link: Hashable {
        var epoch = 0
        var isUp = false
        var up: [Pipe] = []
        var down: [Pipe] = []
    }

    /// What the relay has to do, in order.
    enum Task: Hashable {
        case persistMailbox(MailboxCommand)
        case removeMailbox(CommandKey)
        case frame(link: Int, epoch: Int, Frame)
    }

    /// The journal of a sender.
    struct Journal: Hashable {
        var stored: [CommandID: SentCommand] = [:]
        var storedNumbers: [CommandLane: UInt64] = [:]
        var backup = Backup()

        /// What a copy of the journal has.
        struct Backup: Hashable {
            var stored: [CommandID: SentCommand] = [:]
            var storedNumbers: [CommandLane: UInt64] = [:]
        }

        var open: [CommandID] { stored.values.filter { !$0.isEnded }.map(\.command.id).sorted() }
    }

    /// A process of a sender. All processes of one share a journal.
    struct Sender: Hashable {
        let id: EndpointID
        let journal: Int
        var skew: Int64
        var offset: Int64 = 0
        var machine = OutboxMachine()
        /// Given to the journal.
        var writes: [SenderWrite] = []
        /// Committed, and not reported yet.
        var news: [SenderNews] = []
        /// The relay's messages, by the marks that were set for them.
        var marked: [Int: Frame] = [:]
        var lastMark = 0
    }

    struct Target: Hashable {
        let id: EndpointID
        var skew: Int64
        var offset: Int64 = 0
        var stored: [CommandKey: CommandTarget.Row] = [:]
        var storedPositions: [CommandLane: CommandTarget.LanePosition] = [:]
        var backup = Backup()
        var machine: InboxMachine
        /// Given to the journal.
        var commit: InboxMachine.Commit?
        /// It is done, and the endpoint does not know it yet.
        var isCommitted = false
        var handlers: [CommandDescriptor] = []
        var isRevoked = false
        /// The process that has offered a command directly last.
        var offeredBy: [CommandKey: Int] = [:]

        /// What a copy of the journal has.
        struct Backup: Hashable {
            var stored: [CommandKey: CommandTarget.Row] = [:]
            var storedPositions: [CommandLane: CommandTarget.LanePosition] = [:]
        }

        /// Whether the target still sends the stored result until it is settled.
        func keepsResult(of key: CommandKey) -> Bool {
            guard let row = stored[key], row.outcome != nil else { return false }
            return machine.knows(row.command)
        }
    }

    struct Relay: Hashable {
        var began: Int64
        var stored: [CommandKey: MailboxCommand] = [:]
        var rows: [CommandKey: MailboxCommand] = [:]
        var deliveries: [Int: CommandDelivery] = [:]
        var queue: [Task] = []
        /// What a copy of the database has.
        var backup: [CommandKey: MailboxCommand] = [:]
    }

    /// What really happened, which no node knows.
    struct History: Hashable {
        var handled: Set<CommandKey> = []
        var lastHandled: [CommandLane: UInt64] = [:]
        /// `handling` or an outcome was committed, at the target or the relay: only then may the target report `interrupted`.
        var begun: Set<CommandKey> = []
        /// The outcomes that the target committed.
        var results: [CommandKey: CommandOutcome] = [:]
        var timedOut: Set<CommandKey> = []
        /// More than one only for a command that a restored target handled again.
        var answers: [CommandKey: Set<CommandOutcome>] = [:]
        var accepted: Set<CommandKey> = []
        /// Commands of which the sender learned that they did not run and will not run.
        var reportedNotRun: Set<CommandKey> = []
        /// Results that no target has to keep: the relay had stored them when it lost its database.
        var lostResults: Set<CommandKey> = []
        /// Commands for which a target has sent a result.
        var answered: Set<Digest256> = []
        /// Commands that the owner's check has refused.
        var refusedByCheck: Set<Digest256> = []
        /// Commands that a target had stored, or had answered because their number had passed.
        var taken: [CommandKey: CommandDescriptor] = [:]
        /// Commands that a target had stored, and that its restored journal does not know.
        var lostByTarget: Set<CommandKey> = []
        /// Of these, the ones for which the relay had no `received`.
        var unconfirmed: Set<CommandKey> = []
        /// Commands that their sender's restored journal does not know.
        var lostBySender: Set<CommandKey> = []
        /// Commands that their sender's restored journal has as open, whatever became of them since.
        var reopened: Set<CommandKey> = []
        /// Commands that the relay has ended by its own word. If they are offered directly at that moment, the lane may have gone on.
        var endedByRelay: Set<CommandKey> = []
        /// Whether the stored state of any party has gone back.
        var hasGoneBack = false
        var outcomes: [CommandOutcome: Int] = [:]
        var rejections: [String: Int] = [:]
    }

    /// The two ends of a direct session.
    struct Pair: Hashable, Comparable {
        let sender: Int
        let target: Int

        static func < (one: Pair, other: Pair) -> Bool { (one.sender, one.target) < (other.sender, other.target) }
    }

    enum Step: Hashable {
        case submit(sender: Int, lane: CommandLane, life: Int64)
        case cancel(sender: Int, CommandID)
        /// An endpoint carries out one action.
        case work(Int)
        /// An endpoint's journal makes a commit, or tells of it, or fails.
        case store(Int)
        case tell(Int)
        case failToStore(Int)
        /// The delay of a delayed write has passed.
        case lingered(Int)
        case workAtRelay
        case deliverUp(link: Int, pipe: Int, twice: Bool)
        case deliverDown(link: Int, pipe: Int, twice: Bool)
        case connect(Int)
        case disconnect(Int)
        case losePipes(Int)
        case connectDirectly(Pair)
        case disconnectDirectly(Pair)
        case deliverToTarget(Pair, pipe: Int)
        case deliverToSender(Pair, pipe: Int)
        case crash(Int)
        case crashRelay(losingDatabase: Bool)
        /// Copies the stored state of an endpoint or of the relay.
        case backUp(Int)
        case backUpRelay
        /// Ends the process, and puts the last copy in place of the stored state: an empty state if there is none.
        case restore(Int)
        case restoreRelay
        case pass(Int64)
        case tick
        case answer(target: Int, CommandKey, CommandOutcome)
        case timeOut(target: Int, CommandKey)
        case revoke(target: Int)
        case forge(target: Int, CommandDescriptor)
        case lie(sender: Int, CommandID, CommandFinal)
    }

    /// The creation time is part of the digest in this model, so that a new signature changes the bytes.
    var now: Int64 = 1_800_000_000_000
    let limits: Limits
    var senders: [Sender]
    var targets: [Target]
    var relay: Relay
    /// The links of the senders, then of the targets.
    var links: [Link]
    /// The direct sessions. Frames go up to the target.
    var direct: [Pair: Link] = [:]
    var journals: [Journal]
    var ids = Identifiers()
    var history = History()
    var violations: [String] = []
    /// Whether the relay never stopped, so it knows of each `received` that it got.
    private(set) var relayKeepsItsMemory = true
    /// The owner's check refuses commands whose number is a multiple of this, but only the first offer: a policy may change after it.
    var refusesEvery: UInt64
    /// Whether commands may come directly.
    let hasPaths: Bool

    /// - Parameter processes: The processes of each sender.
    init(senders: Int, processes: Int = 1, targets: Int, skews: [Int64], limits: Limits = Limits(), refusesEvery: UInt64 = .max) {
        self.limits = limits
        self.refusesEvery = refusesEvery
        self.hasPaths = processes > 1
        self.journals = Array(repeating: Journal(), count: senders)
        self.senders = (0..<senders * processes).map {
            Sender(id: .test($0 / processes), journal: $0 / processes, skew: skews[$0 / processes])
        }
        self.targets = (0..<targets).map {
            Target(id: .test(100 + $0), skew: skews[senders + $0], machine: InboxMachine(CommandTarget(limits: limits)))
        }
        self.relay = Relay(began: 1_800_000_000_000 - 100 * 86_400_000)
        self.links = Array(repeating: Link(), count: senders * processes + targets)
        guard processes > 1 else { return }
        // All have known the relay's time before a direct session.
        for sender in self.senders.indices { self.senders[sender].offset = -self.senders[sender].skew }
        for target in self.targets.indices { self.targets[target].offset = -self.targets[target].skew }
    }

    mutating func apply(_ step: Step) {
        switch step {
        case .submit(let sender, let lane, let life): submit(sender, lane, life)
        case .cancel(let sender, let id): cancel(sender, id)
        case .work(let node): if node < senders.count { workAtSender(node) } else { workAtTarget(node - senders.count) }
        case .store(let node): if node < senders.count { storeAtSender(node) } else { storeAtTarget(node - senders.count) }
        case .tell(let node): if node < senders.count { tellSender(node) } else { tellTarget(node - senders.count) }
        case .failToStore(let node): if node < senders.count { failAtSender(node) } else { failAtTarget(node - senders.count) }
        case .lingered(let node): lingered(node)
        case .workAtRelay: workAtRelay()
        case .deliverUp(let link, let pipe, let twice): deliverUp(link, pipe, twice)
        case .deliverDown(let link, let pipe, let twice): deliverDown(link, pipe, twice)
        case .connect(let node): connect(node)
        case .disconnect(let node): disconnect(node)
        case .losePipes(let node):
            let link = links[node]
            links[node].up.removeAll { !link.isUp || $0.epoch != link.epoch }
            links[node].down.removeAll { !link.isUp || $0.epoch != link.epoch }
        case .connectDirectly(let pair): connectDirectly(pair)
        case .disconnectDirectly(let pair): disconnectDirectly(pair)
        case .deliverToTarget(let pair, let pipe): deliverToTarget(pair, pipe)
        case .deliverToSender(let pair, let pipe): deliverToSender(pair, pipe)
        case .crash(let node): crash(node)
        case .crashRelay(let losingDatabase): crashRelay(losingDatabase)
        case .backUp(let node): backUp(node)
        case .backUpRelay: relay.backup = relay.stored
        case .restore(let node): restore(node)
        case .restoreRelay:
            history.hasGoneBack = true
            crashRelay(true, restoring: relay.backup)
        case .pass(let time): now += time
        case .tick:
            for key in relay.rows.keys.sorted(by: CommandWorld.inOrder) { changeMailbox(key) { $0.handleDeadlines(now: $1) } }
            for target in targets.indices { targets[target].machine.removeForgotten(clock(target)) }
            for sender in senders.indices { senders[sender].machine.handleDeadlines(now: now) }
        case .answer(let target, let key, let outcome): answer(target, key, outcome)
        case .timeOut(let target, let key): timeOut(target, key)
        case .revoke(let target): revoke(target)
        case .forge(let target, let command):
            targets[target].machine.offered(command, check: .forged(reason: "forged"), clock(target))
        case .lie(let sender, let id, let final): senders[sender].machine.ended(id, final, receiptIsValid: false)
        }
    }

    private mutating func lingered(_ node: Int) {
        now += WriteBehindBuffer<CommandKey, CommandKey>.delay
        if node < senders.count { senders[node].machine.storeDeferred() } else { targets[node - senders.count].machine.storeDeferred() }
    }

    /// What an endpoint can do by itself.
    func due(_ node: Int) -> [Step] {
        let (works, stores, tells, lingers): (Bool, Bool, Bool, Bool)
        if node < senders.count {
            let sender = senders[node]
            (works, stores, tells) = (sender.machine.hasWork, !sender.writes.isEmpty, !sender.news.isEmpty)
            lingers = sender.machine.hasNoted
        } else {
            let target = targets[node - senders.count]
            (works, stores, tells) = (target.machine.hasWork, target.commit != nil && !target.isCommitted, target.isCommitted)
            lingers = target.machine.hasUnwritten
        }
        return (works ? [.work(node)] : []) + (stores ? [.store(node)] : []) + (tells ? [.tell(node)] : [])
            + (lingers && !works && !stores && !tells ? [.lingered(node)] : [])
    }

    // MARK: Connections

    mutating func connect(_ node: Int) {
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
            senders[node].machine.connected()
        } else {
            let target = node - senders.count
            targets[target].offset = -targets[target].skew
            let mailbox = relay.rows.values
                .filter { $0.command.lane.target == targets[target].id && !$0.isFinal }
                .map(\.command)
                .sorted { CommandWorld.inOrder($0.key, $1.key) }
            relay.deliveries[target] = CommandDelivery(mailbox: mailbox)
            offerNext(target)
            targets[target].machine.connected()
        }
    }

    mutating func disconnect(_ node: Int) {
        guard links[node].isUp else { return }
        links[node].isUp = false
        if node < senders.count {
            senders[node].machine.disconnected()
        } else {
            relay.deliveries[node - senders.count] = nil
            targets[node - senders.count].machine.disconnected()
        }
    }

    mutating func transmit(_ link: Int, _ epoch: Int, _ frame: Frame, up: Bool) {
        guard links[link].isUp, links[link].epoch == epoch else { return }
        if up {
            links[link].up[links[link].up.count - 1].frames.append(frame)
        } else {
            links[link].down[links[link].down.count - 1].frames.append(frame)
        }
    }

    mutating func deliverUp(_ link: Int, _ pipe: Int, _ twice: Bool) {
        guard links[link].up.indices.contains(pipe), let frame = links[link].up[pipe].frames.first else { return }
        let epoch = links[link].up[pipe].epoch
        // The relay accepts no command from a connection after a newer one of the same endpoint has said hello.
        let isSend = if case .send = frame { true } else { false }
        if !(twice && !isSend) { links[link].up[pipe].frames.removeFirst() }
        if isSend, epoch < links[link].epoch { return }
        if link >= senders.count, targets[link - senders.count].isRevoked { return }
        arriveAtRelay(frame, link, epoch)
    }

    mutating func deliverDown(_ link: Int, _ pipe: Int, _ twice: Bool) {
        guard links[link].down.indices.contains(pipe), let frame = links[link].down[pipe].frames.first else { return }
        if !(twice && !frame.isAnswer) { links[link].down[pipe].frames.removeFirst() }
        if frame.isAnswer, links[link].down[pipe].epoch < links[link].epoch || !links[link].isUp { return }
        if link < senders.count { arriveAtSender(frame, link) } else { arriveAtTarget(frame, link - senders.count) }
    }

    // MARK: Direct sessions

    mutating func connectDirectly(_ pair: Pair) {
        guard direct[pair]?.isUp != true, !targets[pair.target].isRevoked else { return }
        var link = direct[pair] ?? Link()
        link.isUp = true
        link.epoch += 1
        link.up = link.up.suffix(1) + [Pipe(epoch: link.epoch)]
        link.down = link.down.suffix(1) + [Pipe(epoch: link.epoch)]
        direct[pair] = link
        senders[pair.sender].machine.connected(directlyTo: targets[pair.target].id)
        targets[pair.target].machine.connected(directlyTo: senders[pair.sender].id)
    }

    mutating func disconnectDirectly(_ pair: Pair) {
        guard direct[pair]?.isUp ?? false else { return }
        direct[pair]?.isUp = false
        senders[pair.sender].machine.disconnected(directlyFrom: targets[pair.target].id)
    }

    mutating func transmit(_ pair: Pair, _ frame: Frame, up: Bool) {
        guard let link = direct[pair], link.isUp else { return }
        if up {
            direct[pair]?.up[link.up.count - 1].frames.append(frame)
        } else {
            direct[pair]?.down[link.down.count - 1].frames.append(frame)
        }
    }

    private mutating func deliverToTarget(_ pair: Pair, _ pipe: Int) {
        guard let link = direct[pair], link.up.indices.contains(pipe), let frame = link.up[pipe].frames.first else { return }
        direct[pair]?.up[pipe].frames.removeFirst()
        if !targets[pair.target].isRevoked { arriveAtTarget(frame, pair.target, from: pair.sender) }
    }

    private mutating func deliverToSender(_ pair: Pair, _ pipe: Int) {
        guard let link = direct[pair], link.down.indices.contains(pipe), let frame = link.down[pipe].frames.first else { return }
        direct[pair]?.down[pipe].frames.removeFirst()
        if frame.isAnswer, link.down[pipe].epoch < link.epoch || !link.isUp { return }
        arriveAtSender(frame, pair.sender)
    }

    // MARK: Crashes

    mutating func crash(_ node: Int) {
        disconnect(node)
        for pair in direct.keys.sorted() where pair.sender == node || senders.count + pair.target == node {
            disconnectDirectly(pair)
            if pair.sender == node { direct[pair]?.down = [] } else { direct[pair]?.up = [] }
        }
        links[node].down = []
        if node < senders.count { crashSender(node) } else { crashTarget(node - senders.count) }
    }

    private mutating func backUp(_ node: Int) {
        if node < senders.count {
            let journal = journals[senders[node].journal]
            journals[senders[node].journal].backup = .init(stored: journal.stored, storedNumbers: journal.storedNumbers)
        } else {
            let target = targets[node - senders.count]
            targets[node - senders.count].backup = .init(stored: target.stored, storedPositions: target.storedPositions)
        }
    }

    private mutating func restore(_ node: Int) {
        if node < senders.count { restoreSender(node) } else { restoreTarget(node - senders.count) }
        history.hasGoneBack = true
        for other in links.indices where other == node || isSameSender(other, node) { crash(other) }
    }

    private func isSameSender(_ one: Int, _ other: Int) -> Bool {
        one < senders.count && other < senders.count && senders[one].journal == senders[other].journal
    }

    /// - Parameter copy: what the new database has.
    mutating func crashRelay(_ losingDatabase: Bool, restoring copy: [CommandKey: MailboxCommand] = [:]) {
        for node in links.indices {
            disconnect(node)
            links[node].up = []
        }
        relay.queue = []
        relayKeepsItsMemory = false
        if losingDatabase {
            for (key, row) in relay.stored where row.isFinal && copy[key]?.isFinal != true { history.lostResults.insert(key) }
            history.lostResults.formUnion(history.results.keys.filter { key in !targets.contains { $0.keepsResult(of: key) } })
            // A command that was not offered when the copy was made may have ended since. Its sender sends it again if it is open.
            relay.stored = copy.filter { $0.value.state != .stored }
            relay.began = now
        }
        relay.rows = relay.stored
        // Removes the commands of targets that were revoked while the relay was down or was removing them.
        for target in targets where target.isRevoked { removeCommands(for: target.id) }
    }

    mutating func revoke(_ target: Int) {
        targets[target].isRevoked = true
        disconnect(senders.count + target)
        for pair in direct.keys.sorted() where pair.target == target { disconnectDirectly(pair) }
        removeCommands(for: targets[target].id)
    }

    mutating func removeCommands(for target: EndpointID) {
        for key in relay.rows.keys.sorted(by: CommandWorld.inOrder) where relay.rows[key]?.command.lane.target == target {
            changeMailbox(key) { $0.targetRemoved(now: $1) }
        }
    }

    // MARK: Helpers

    static func digest(_ id: CommandID, _ created: Int64, _ number: UInt64 = 0) -> Digest256 {
        let times = withUnsafeBytes(of: created) { Array($0) } + withUnsafeBytes(of: number) { Array($0) }
        return Digest256(hashing: withUnsafeBytes(of: id.uuid.uuid) { Array($0) } + times)
    }

    static func receipt(_ digest: Digest256, _ outcome: CommandOutcome) -> [UInt8] { digest.bytes + Array("\(outcome)".utf8) }

    static func result(_ command: CommandDescriptor, _ outcome: CommandOutcome, _ highest: UInt64?) -> Frame {
        let final = CommandFinal(outcome: outcome, receipt: receipt(command.digest, outcome), reply: nil, highest: highest)
        return .result(command.key, digest: command.digest, final)
    }

    static func inOrder(_ left: CommandKey, _ right: CommandKey) -> Bool { left.id < right.id }
}

extension MailboxCommand {
    var isFinal: Bool { if case .final = state { true } else { false } }
}

/// Generates ids in ascending order.
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
        guard let digest = Digest256(bytes: Array(repeating: UInt8(number), count: 32)) else { preconditionFailure("32 bytes") }
        return EndpointID(digest: digest)
    }
}
