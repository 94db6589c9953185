// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

@testable import RelayServer

/// Two senders and a target, with the state machines of the SDK, around the account's state machine of the relay. Their journals are
/// values. A commit is made, and reported, in steps of its own, so processes end and connections break between any two actions.
/// Violated promises are collected in `violations`.
struct AccountSimulation {
    /// An endpoint's control channel.
    struct Link {
        enum State: Equatable {
            case down
            case opening(ChannelID)
            case open(ChannelID)
        }

        var state = State.down
        /// Whether the network is broken, which neither side knows yet.
        var isCut = false
        /// Messages that the endpoint has not read.
        var inbox: [RelayMessage] = []

        /// For messages of the endpoint; `nil` if they do not arrive.
        var outgoing: ChannelID? {
            guard case .open(let channel) = state, !isCut else { return nil }
            return channel
        }
    }

    enum Step {
        case submit(sender: Int, app: String, life: Int64)
        case cancel(sender: Int, CommandID)
        /// An endpoint carries out one action.
        case act(Int)
        /// An endpoint's journal makes a commit, reports it, or fails.
        case commit(Int)
        case report(Int)
        case failToStore(Int)
        /// The delay of a delayed write has passed.
        case flush(Int)
        /// The delay before a command is sent again has passed.
        case retry(sender: Int)
        /// The relay runs a transaction, or cannot store one.
        case work
        case failTransaction
        /// An endpoint reads a message.
        case read(Int)
        case connect(Int)
        /// - Parameter isSilent: the relay does not notice.
        case disconnect(Int, isSilent: Bool)
        case cut(Int)
        case crash(Int)
        case crashRelay(commits: Bool, losesDatabase: Bool)
        /// Another node of the relay takes the account, and the former one finds that out by its next transaction.
        case move(commits: Bool)
        case workAtStaleNode
        /// Copies the stored state of an endpoint or of the relay.
        case backUp(Int)
        case backUpRelay
        /// Ends the process, and puts the last copy in place of the stored state: an empty state if there is none.
        case restore(Int)
        case restoreRelay
        case pass(Int64)
        case tick
        case answer(CommandKey, CommandOutcome)
        case timeOut(CommandKey)
    }

    var world: AccountWorld
    var senders: [Sender]
    var target: Target
    /// Of the senders, then of the target.
    var links: [Link]
    var history = History()
    var lastRef: Int64 = 0
    /// What the copy of the relay's database has.
    private var copy: MemoryRows.Tables?

    /// - Parameter skews: of the clocks of senders and target, in milliseconds.
    init(skews: [Int64]) {
        let device = TestDevice(subject: "me")
        world = AccountWorld(of: device)
        senders = [Sender(device: device, skew: skews[0]), Sender(device: TestDevice(subject: "me"), skew: skews[1])]
        target = Target(device: TestDevice(subject: "me"), skew: skews[2])
        links = Array(repeating: Link(), count: 3)
    }

    var violations: [String] { history.violations + world.violations }
    var nodes: Range<Int> { links.indices }
    var now: Int64 { world.now }

    mutating func apply(_ step: Step) throws {
        switch step {
        case .submit(let sender, let app, let life): try submit(sender, app, life)
        case .cancel(let sender, let id): cancel(sender, id)
        case .act(let node): if let sender = sender(node) { try act(sender: sender) } else { try actAtTarget() }
        case .commit(let node): if let sender = sender(node) { commit(sender: sender) } else { commitAtTarget() }
        case .report(let node): if let sender = sender(node) { report(sender: sender) } else { reportToTarget() }
        case .failToStore(let node): if let sender = sender(node) { fail(sender: sender) } else { failAtTarget() }
        case .flush(let node): flush(node)
        case .retry(let sender): retry(sender)
        case .failTransaction: world.work(.before)
        case .work:
            world.work()
            for (key, command) in world.rows.tables.commands where command.row.isFinal { history.begun.insert(key.command) }
        case .read(let node): try read(node)
        case .connect(let node): try connect(node)
        case .disconnect(let node, let isSilent): disconnect(node, isSilent: isSilent)
        case .cut(let node): if links[node].outgoing != nil { links[node].isCut = true }
        case .crash(let node): crash(node)
        case .crashRelay(let commits, let losesDatabase): crashRelay(commits: commits, losesDatabase: losesDatabase)
        case .move(let commits): if world.stale == nil { world.move(commits: commits) }
        case .workAtStaleNode: world.workAtStaleNode()
        case .backUp(let node): if let sender = sender(node) { senders[sender].backUp() } else { target.backUp() }
        case .backUpRelay: copy = world.rows.tables
        case .restore(let node): restore(node)
        case .restoreRelay:
            goneBack()
            crashRelay(commits: false, losesDatabase: true, copy: copy)
        case .pass(let time): world.now += time
        case .tick: world.tick()
        case .answer(let key, let outcome): answer(key, outcome)
        case .timeOut(let key): timeOut(key)
        }
        followLinks()
    }

    private func sender(_ node: Int) -> Int? { node < senders.count ? node : nil }

    /// What can go on without a decision from outside.
    var due: [Step] {
        var steps: [Step] = world.waiting.isEmpty ? [] : [.work]
        if world.stale != nil { steps.append(.workAtStaleNode) }
        for node in nodes {
            let progress = sender(node).map { senders[$0].progress } ?? target.progress
            if progress.acts { steps.append(.act(node)) }
            if progress.commits { steps.append(.commit(node)) }
            if progress.reports { steps.append(.report(node)) }
            if progress.flushes { steps.append(.flush(node)) }
            if !links[node].inbox.isEmpty { steps.append(.read(node)) }
        }
        return steps
    }

    /// What an endpoint can do by itself.
    struct Progress {
        var acts = false
        var commits = false
        var reports = false
        var flushes = false
    }

    private mutating func flush(_ node: Int) {
        world.now += WriteBehindBuffer<CommandKey, CommandKey>.delay
        if let sender = sender(node) { senders[sender].machine.storeDeferred() } else { target.machine.storeDeferred() }
    }

    // MARK: Connections

    private func device(_ node: Int) -> TestDevice { sender(node).map { senders[$0].device } ?? target.device }

    private mutating func connect(_ node: Int) throws {
        guard links[node].state == .down else { return }
        links[node] = Link()
        links[node].state = .opening(try world.connect(device(node)))
    }

    mutating func disconnect(_ node: Int, isSilent: Bool = false) {
        guard case .open(let channel) = links[node].state else { return }
        links[node] = Link()
        if !isSilent { world.disconnect(channel) }
        if let sender = sender(node) {
            senders[sender].retries = []
            senders[sender].machine.disconnected()
        } else {
            target.machine.disconnected()
        }
    }

    /// Notices channels that the relay has opened, rejected or closed, and collects its messages.
    private mutating func followLinks() {
        for node in nodes {
            switch links[node].state {
            case .down: break
            case .opening(let channel):
                if world.isOpen(channel) {
                    links[node].state = .open(channel)
                    opened(node)
                } else if world.rejected[channel] != nil || world.redirected[channel] != nil
                    || world.waiting.isEmpty && world.stale == nil
                {
                    links[node] = Link()
                }
            case .open(let channel):
                let messages = world.receive(channel)
                if !links[node].isCut { links[node].inbox += messages }
                if !world.isOpen(channel) { disconnect(node) }
            }
        }
    }

    private mutating func opened(_ node: Int) {
        if let sender = sender(node) {
            senders[sender].offset = -senders[sender].skew
            senders[sender].requests = [:]
            senders[sender].cancellations = [:]
            senders[sender].machine.connected()
        } else {
            target.offset = -target.skew
            target.machine.connected()
        }
    }

    private mutating func read(_ node: Int) throws {
        guard !links[node].inbox.isEmpty else { return }
        let message = links[node].inbox.removeFirst()
        if let sender = sender(node) { read(message, sender: sender) } else { try readAtTarget(message) }
    }

    /// Sends a message of an endpoint to the relay.
    mutating func send(_ message: EndpointMessage, from node: Int) {
        if let channel = links[node].outgoing { world.send(message, on: channel) }
    }

    mutating func nextRef() -> RequestRef {
        lastRef += 1
        return testRef(lastRef)
    }

    // MARK: Crashes

    private mutating func crash(_ node: Int) {
        disconnect(node, isSilent: true)
        links[node] = Link()
        if let sender = sender(node) { senders[sender].crash() } else { crashTarget() }
    }

    private mutating func goneBack() {
        history.hasGoneBack = true
        world.hasGoneBack = true
    }

    private mutating func restore(_ node: Int) {
        goneBack()
        if let sender = sender(node) { restore(sender: sender) } else { restoreTarget() }
        crash(node)
    }

    private mutating func crashRelay(commits: Bool, losesDatabase: Bool, copy: MemoryRows.Tables? = nil) {
        if losesDatabase {
            for (key, command) in world.rows.tables.commands where command.row.isFinal { history.lostResults.insert(key.command) }
            history.lostResults.formUnion(history.results.keys.filter { !target.keepsResult(of: $0) })
        }
        world.crash(commits: commits, losesDatabase: losesDatabase, copy: copy)
        for node in nodes {
            links[node].inbox = []
            if case .opening = links[node].state { links[node] = Link() }
        }
    }
}
