// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The commands that an endpoint takes: what is written in which commit, and what is done only after that.
///
/// Its owner takes actions by `next`, one after the other, and carries each out before it takes the next one. An action behind a write
/// waits until the owner says that the commit is on disk; one before it need not. All writes that are due are one commit. A handler's
/// result is sent before it is written, and in most cases settled before that: it is written a moment later, at once when there is no
/// connection; and a row that is settled is deleted with another commit, or a moment later. A crash at any point loses this machine and whatever action was not
/// carried out; the owner starts again from what is stored.
package struct InboxMachine: Hashable, Sendable {
    /// One row to be written.
    package struct Write: Hashable, Sendable {
        package var row: CommandTarget.Row
        /// The lane's new highest number, if there is one.
        package var highest: UInt64?
        /// Of an answered one, what belongs to the result.
        package var reply: [UInt8]?

        package var key: CommandKey { row.command.key }
    }

    package struct Commit: Hashable, Sendable {
        /// Rows to be deleted, before others are written: the same command may have come again.
        package var removals: Set<CommandKey> = []
        /// Lanes whose highest number is to be deleted, also before.
        package var lanes: [CommandLane] = []
        package var writes: [Write] = []

        package var isEmpty: Bool { removals.isEmpty && lanes.isEmpty && writes.isEmpty }
    }

    package enum Action: Hashable, Sendable {
        /// Store all of it in one commit, then call `committed`, or `failed`. There is no other action until then.
        case commit(Commit)
        /// Send `command.received`.
        case sendReceived(CommandKey)
        /// Send `command.result`: of the answer that is not written yet, or else of the row that is stored.
        case sendResult(CommandKey, unwritten: Write?)
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
        /// Close the connection: the relay offers more than there is room for.
        case disconnect(LimitExceeded)
    }

    private enum Work: Hashable {
        case action(CommandTarget.Action)
        case storeNoted

        /// Whether the actions behind it wait for a commit.
        var isWrite: Bool {
            switch self {
            case .action(.persist), .action(.removeLane), .storeNoted: true
            case .action: false
            }
        }
    }

    /// A message is for the connection it was decided on; the next one makes up for it.
    private struct Queued: Hashable {
        let work: Work
        let connection: Int
    }

    private var target: CommandTarget
    private var queue: [Queued] = []
    private var batch: ArraySlice<Queued> = []
    /// What the storage failed at.
    private var again: [Action] = []
    /// Answers that are on their way to the relay.
    private var noted = WriteBehindBuffer<CommandKey, Write>()
    /// Answers that are noted when their turn comes; the sending of the result comes before.
    private var upcoming: [CommandKey: Write] = [:]
    /// Rows to be deleted.
    private var settled: Set<CommandKey> = []
    private var isWaiting = false
    private var connection = 0
    private var isUp = false

    /// - Parameter target: What is stored.
    package init(_ target: CommandTarget) {
        self.target = target
    }

    /// Whether `timePassed` is to be called after the buffer's delay.
    package var hasUnwritten: Bool { !noted.isEmpty || !settled.isEmpty }

    /// Whether `next` gets anywhere.
    package var hasWork: Bool { !isWaiting && !(again.isEmpty && batch.isEmpty && queue.isEmpty) }

    // MARK: The connection

    /// Goes on with what is stored: the first input.
    package mutating func start(_ clock: TargetClock) { append(target.start(clock)) }

    /// The relay said `welcome`: it may not know the results that are unsettled.
    package mutating func connected() {
        (connection, isUp) = (connection + 1, true)
        append(target.connected())
    }

    /// Results that are on their way are not, if the connection is gone.
    package mutating func disconnected() {
        (connection, isUp) = (connection + 1, false)
        timePassed()
    }

    // MARK: The relay

    /// Whether an offer of these bytes needs no check, since it has been made before.
    package func knows(_ command: CommandDescriptor) -> Bool { target.knows(command) }

    package mutating func offered(_ command: CommandDescriptor, check: CommandCheck, _ clock: TargetClock) {
        append(target.offered(command, check: check, clock))
    }

    /// The relay told that the sender has cancelled.
    package mutating func cancelled(_ key: CommandKey) { append(target.cancelled(key)) }

    /// The relay has stored the result.
    package mutating func settled(_ key: CommandKey) { append(target.settled(key)) }

    /// A sender has left the account for good.
    package mutating func senderRemoved(_ sender: EndpointID) { append(target.senderRemoved(sender)) }

    // MARK: The handler

    package mutating func handlerEnded(_ key: CommandKey, _ outcome: CommandOutcome, reply: [UInt8]?, _ clock: TargetClock) {
        append(target.handlerEnded(key, outcome, reply: reply, clock))
    }

    package mutating func handlerAskedForTime(_ key: CommandKey) { append(target.handlerAskedForTime(key)) }

    package mutating func handlerTimedOut(_ key: CommandKey, _ clock: TargetClock) { append(target.handlerTimedOut(key, clock)) }

    private mutating func append(_ actions: [CommandTarget.Action]) {
        for action in actions {
            if case .note(let row, let reply) = action { upcoming[row.command.key] = Write(row: row, highest: nil, reply: reply) }
            append(.action(action))
        }
    }

    private mutating func append(_ work: Work) { queue.append(Queued(work: work, connection: connection)) }

    // MARK: Storage

    /// The commit is on disk.
    package mutating func committed() { isWaiting = false }

    /// The storage has failed at an action that was handed out. It is handed out again, and all behind it waits.
    package mutating func failed(_ action: Action) {
        isWaiting = false
        switch action {
        case .commit, .handle: again.append(action)
        // Decided anew on the next connection.
        default: break
        }
    }

    /// What was put off has waited long enough.
    package mutating func timePassed() { if hasUnwritten { append(.storeNoted) } }

    /// What is not written, at the end.
    package mutating func takeUnwritten() -> Commit {
        var commit = Commit(removals: settled, writes: noted.takeAll())
        settled = []
        for case .commit(let failed) in again {
            commit.removals.formUnion(failed.removals)
            commit.lanes += failed.lanes
            commit.writes = failed.writes + commit.writes
        }
        again = []
        return commit
    }

    // MARK: Actions

    /// The next action; `nil` if there is none, or while the owner has to say that something is on disk.
    /// - Parameter now: The time that the write-behind goes by.
    package mutating func next(now: Int64, _ clock: TargetClock) -> Action? {
        guard !isWaiting else { return nil }
        while !again.isEmpty {
            if let action = handOut(again.removeFirst(), clock) { return action }
        }
        while true {
            if batch.isEmpty {
                guard !queue.isEmpty else { return nil }
                (batch, queue) = (queue[...], [])
            }
            if batch.first?.work.isWrite ?? false {
                let commit = takeWrites(now: now)
                if !commit.isEmpty { return handOut(.commit(commit), clock) }
            } else if let queued = batch.popFirst(), case .action(let decided) = queued.work,
                let action = action(for: decided, isCurrent: isUp && queued.connection == connection, now: now)
            {
                if let action = handOut(action, clock) { return action }
            }
        }
    }

    private mutating func handOut(_ action: Action, _ clock: TargetClock) -> Action? {
        switch action {
        case .commit: isWaiting = true
        case .handle(let command):
            // Storing it may have taken long.
            if let instead = target.expiresBeforeHandling(command.key, clock) {
                append(instead)
                return nil
            }
        default: break
        }
        return action
    }

    /// All that the batch writes, and what is to be deleted.
    private mutating func takeWrites(now: Int64) -> Commit {
        var commit = Commit()
        // Of one command only what it has come to.
        var indices: [CommandKey: Int] = [:]
        func put(_ write: Write) {
            if let index = indices[write.key] {
                let highest = commit.writes[index].highest ?? write.highest
                commit.writes[index] = Write(row: write.row, highest: highest, reply: write.reply)
            } else {
                indices[write.key] = commit.writes.count
                commit.writes.append(write)
            }
        }
        var left: [Queued] = []
        for queued in batch {
            switch queued.work {
            case .action(.persist(let row, let highest, let reply)): put(Write(row: row, highest: highest, reply: reply))
            case .action(.removeLane(let lane)):
                for index in commit.writes.indices where commit.writes[index].row.command.lane == lane {
                    commit.writes[index].highest = nil
                }
                commit.lanes.append(lane)
            case .action(.remove(let key)) where indices[key] == nil:
                settle(key)
                // The relay has it.
                left.removeAll { $0.work == .action(.sendResult(key)) }
            case .storeNoted: for write in isUp ? noted.takeDue(now: now) : noted.takeAll() { put(write) }
            case .action: left.append(queued)
            }
        }
        batch = left[...]
        commit.removals = settled
        settled = []
        return commit
    }

    private mutating func settle(_ key: CommandKey) {
        noted.remove(key)
        upcoming[key] = nil
        settled.insert(key)
    }

    private mutating func action(for decided: CommandTarget.Action, isCurrent: Bool, now: Int64) -> Action? {
        switch decided {
        case .persist, .removeLane: return nil
        case .note(let row, _):
            guard let write = upcoming.removeValue(forKey: row.command.key) else { return nil }
            noted.keep(write, for: write.key, now: now)
            // Nothing is on its way without a connection.
            if !isUp { append(.storeNoted) }
            return nil
        case .remove(let key):
            settle(key)
            return nil
        case .sendReceived(let key): return isCurrent ? .sendReceived(key) : nil
        case .sendResult(let key):
            guard isCurrent, !settled.contains(key) else { return nil }
            return .sendResult(key, unwritten: noted[key] ?? upcoming[key])
        case .sendUnstoredResult(let command, let outcome): return isCurrent ? .sendUnstoredResult(command, outcome) : nil
        case .handle(let command): return .handle(command)
        case .extendTime(let key): return .extendTime(key)
        case .tellCancelled(let key): return .tellCancelled(key)
        case .stopHandler(let key): return .stopHandler(key)
        case .disconnect(let exceeded): return isCurrent ? .disconnect(exceeded) : nil
        }
    }
}
