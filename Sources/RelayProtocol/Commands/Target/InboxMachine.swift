// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The result of the owner's check of a command that the relay offered.
package enum CommandCheck: Hashable, Sendable {
    /// The signature is the sender's, and the command may run.
    case valid
    /// The signature is the sender's, but the command will not run: a policy, an unreadable body.
    case refused(CommandOutcome)
    /// The signature is the sender's, but the target has no such app.
    case appUnknown
    /// The signature is not the sender's and can never become valid, or the sender was revoked.
    case forged(reason: String)
    /// No known record contains the sender's key. With such a record the same bytes might be valid, so the target does not answer.
    case unverifiable
}

/// The commands that an endpoint receives. This machine decides what is written in which commit, and what happens only after that commit.
///
/// The owner takes actions with `next`, one at a time, and executes each before it takes the next. An action after a write waits until the
/// owner reports that the commit is on disk; an action before it does not wait. All writes that are due form one commit. A handler's result
/// is sent before it is written. In most cases the relay settles it before that write, which happens a moment later, or at once if there is
/// no connection. A settled row is deleted with another commit, or a moment later. A crash at any point loses this machine and all actions
/// that were not executed. The owner then starts again from the stored rows.
package struct InboxMachine: Hashable, Sendable {
    /// One row to write.
    package struct Write: Hashable, Sendable {
        package var row: CommandTarget.Row
        /// The lane's new highest number, if it changes.
        package var highest: UInt64?
        /// The reply that belongs to the result, if the command is answered.
        package var reply: [UInt8]?
        /// Whether the result is stored already, so that only the state is written.
        package var isResultStored = false

        package var key: CommandKey { row.command.key }
    }

    package struct Commit: Hashable, Sendable {
        /// Rows to delete before the writes, because the same command may have been offered again.
        package var removals: Set<CommandKey> = []
        /// Lanes whose highest number is deleted, also before the writes.
        package var lanes: [CommandLane] = []
        package var writes: [Write] = []

        package var isEmpty: Bool { removals.isEmpty && lanes.isEmpty && writes.isEmpty }
    }

    package enum Action: Hashable, Sendable {
        /// Store all of it in one commit, then call `committed`, or `failed`. There is no other action until then.
        case commit(Commit)
        /// Say that the command is stored: `command.received`, or the answer to a direct offer.
        case sendReceived(CommandKey, on: CommandPath = .relay)
        /// Send the result from the unwritten answer, or else from the stored row: `command.result`, the answer to a direct offer, or a
        /// request on the direct session.
        case sendResult(CommandKey, unwritten: Write?, on: CommandPath = .relay)
        /// Send a result for a command that is not stored. The owner signs a receipt for it, with the lane's highest number if the
        /// command's number has passed.
        case sendUnstoredResult(CommandDescriptor, CommandOutcome, highest: UInt64?, on: CommandPath = .relay)
        /// Answer that a command that was offered directly cannot be taken now.
        case postpone(CommandKey)
        /// Pass the command to its app and call `handlerEnded`. After 30 s call `handlerTimedOut`.
        case handle(CommandDescriptor)
        /// Extend the handler's time to 5 min from its start.
        case extendTime(CommandKey)
        /// Tell the handler that the sender has cancelled. Its answer still counts.
        case tellCancelled(CommandKey)
        /// Cancel the handler's task and ignore its answer.
        case stopHandler(CommandKey)
        /// Call `retry` after this time in milliseconds, if the connection lasts until then.
        case retryLater(after: Int64)
        /// Close the connection, because the relay offers more commands than there is room for.
        case disconnect(LimitExceeded)
    }

    private enum Work: Hashable {
        case action(CommandTarget.Action)
        case retryLater
        case storeNoted

        /// Whether the following actions wait for a commit.
        var isWrite: Bool {
            switch self {
            case .action(.persist), .action(.removeLane), .storeNoted: true
            case .action, .retryLater: false
            }
        }
    }

    /// A message belongs to the connection for which it was decided. The next connection makes up for a dropped message.
    private struct Queued: Hashable {
        let work: Work
        let connection: Int
    }

    private var target: CommandTarget
    private var queue: [Queued] = []
    private var batch: ArraySlice<Queued> = []
    /// Actions that failed in the storage.
    private var again: [Action] = []
    /// Unwritten answers that were sent to the relay.
    private var noted = WriteBehindBuffer<CommandKey, Write>()
    /// Answers that will be noted when the queue reaches them. The queue sends their results before that.
    private var upcoming: [CommandKey: Write] = [:]
    private var unsettled = UnsettledResults()
    /// Rows to delete.
    private var settled: Set<CommandKey> = []
    private var isWaiting = false
    private var connection = 0
    private var isUp = false

    /// - Parameter target: The stored state.
    package init(_ target: CommandTarget) {
        self.target = target
    }

    /// Whether the owner must call `storeDeferred` after the buffer's delay.
    package var hasUnwritten: Bool { !noted.isEmpty || !settled.isEmpty }

    /// Whether all commands are handled and settled.
    package var isIdle: Bool { target.isEmpty && !hasWork && !isWaiting }

    /// Whether `next` can make progress.
    package var hasWork: Bool { !isWaiting && !(again.isEmpty && batch.isEmpty && queue.isEmpty) }

    // MARK: The connection

    /// The first input: continues with the stored commands.
    package mutating func start(_ clock: TargetClock) { append(target.start(clock)) }

    /// The relay sent `welcome`. It may not know the unsettled results.
    package mutating func connected() {
        (connection, isUp) = (connection + 1, true)
        // All results are sent again.
        unsettled = UnsettledResults()
        append(target.connected())
    }

    /// A direct session with a sender is open. It may not know the unsettled results.
    package mutating func connected(directlyTo sender: EndpointID) { append(target.connected(.direct(sender))) }

    /// Without a connection, the unwritten results are stored at once.
    package mutating func disconnected() {
        (connection, isUp) = (connection + 1, false)
        storeDeferred()
    }

    // MARK: The paths

    /// Whether an offer of these bytes needs no check, because they were offered before.
    package func knows(_ command: CommandDescriptor) -> Bool { target.knows(command) }

    /// See `CommandTarget.offered`.
    package mutating func offered(
        _ command: CommandDescriptor,
        check: CommandCheck,
        wasReceived: Bool = false,
        isCancelled: Bool = false,
        on path: CommandPath = .relay,
        _ clock: TargetClock
    ) {
        append(target.offered(command, check: check, wasReceived: wasReceived, isCancelled: isCancelled, on: path, clock))
    }

    /// The relay reported that the sender has cancelled.
    package mutating func cancelled(_ key: CommandKey) { append(target.cancelled(key)) }

    /// The relay or the sender has stored the result.
    /// - Parameters:
    ///   - isKept: Whether the command may still be offered on another path.
    ///   - hadReply: Whether the relay got a reply. Then the account has room again.
    package mutating func settled(_ key: CommandKey, isKept: Bool = false, on path: CommandPath = .relay, hadReply: Bool = false) {
        append(target.settled(key, isKept: isKept, on: path))
        guard path == .relay else { return }
        unsettled.settled(key)
        if hadReply { sendAgain(unsettled.next()) }
    }

    /// Forgets the settled commands that no path offers any more.
    package mutating func removeForgotten(_ clock: TargetClock) { append(target.removeForgotten(clock)) }

    /// The account has no room for the result.
    package mutating func notSettled(_ key: CommandKey) { if unsettled.add(key) { append(.retryLater) } }

    /// The delay of `retryLater` is over.
    package mutating func retry() { sendAgain(unsettled.delayEnded()) }

    private mutating func sendAgain(_ key: CommandKey?) { if let key { append(target.notSettled(key)) } }

    /// The sender was removed from the account and never comes back.
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

    /// The storage failed at an action. The action is returned again, and all later ones wait.
    package mutating func failed(_ action: Action) {
        isWaiting = false
        switch action {
        case .commit, .handle: again.append(action)
        // The machine decides on these again on the next connection.
        default: break
        }
    }

    /// The delay of the write-behind buffer is over.
    package mutating func storeDeferred() { if hasUnwritten { append(.storeNoted) } }

    /// Takes everything unwritten when the owner stops.
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

    /// The next action; `nil` if there is none, or while a commit is pending.
    /// - Parameter now: The time for the write-behind buffer.
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
            } else if let queued = batch.popFirst(),
                let action = action(for: queued.work, isCurrent: isUp && queued.connection == connection, now: now),
                let due = handOut(action, clock)
            {
                return due
            }
        }
    }

    private mutating func handOut(_ action: Action, _ clock: TargetClock) -> Action? {
        switch action {
        case .commit: isWaiting = true
        case .handle(let command):
            // The commit may have taken long.
            if let instead = target.expiresBeforeHandling(command.key, clock) {
                append(instead)
                return nil
            }
        default: break
        }
        return action
    }

    /// All rows that the batch writes, and the rows to delete.
    private mutating func takeWrites(now: Int64) -> Commit {
        var commit = Commit()
        // Only the last state of each command is written.
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
                // Its result is stored elsewhere, or its time is over: no path needs it.
                left.removeAll { if case .action(.sendResult(key, _)) = $0.work { true } else { false } }
            case .action(.keepSettled(let row)): keepSettled(row, now: now)
            case .storeNoted: for write in isUp ? noted.takeDue(now: now) : noted.takeAll() { put(write) }
            case .action, .retryLater: left.append(queued)
            }
        }
        batch = left[...]
        commit.removals = settled
        settled = []
        return commit
    }

    private mutating func keepSettled(_ row: CommandTarget.Row, now: Int64) {
        let key = row.command.key
        if upcoming[key] != nil {
            upcoming[key]?.row = row
        } else if let unwritten = noted[key] {
            var write = unwritten
            write.row = row
            noted.keep(write, for: key, now: now)
        } else {
            noted.keep(Write(row: row, highest: nil, reply: nil, isResultStored: true), for: key, now: now)
        }
    }

    private mutating func settle(_ key: CommandKey) {
        noted.remove(key)
        upcoming[key] = nil
        settled.insert(key)
    }

    private mutating func action(for work: Work, isCurrent: Bool, now: Int64) -> Action? {
        switch work {
        case .action(let decided): action(for: decided, isCurrent: isCurrent, now: now)
        case .retryLater: isCurrent ? .retryLater(after: UnsettledResults.delay) : nil
        case .storeNoted: nil
        }
    }

    private mutating func action(for decided: CommandTarget.Action, isCurrent: Bool, now: Int64) -> Action? {
        switch decided {
        case .persist, .removeLane: return nil
        case .note(let row, _):
            guard let write = upcoming.removeValue(forKey: row.command.key) else { return nil }
            noted.keep(write, for: write.key, now: now)
            // Without a connection no result is in flight, so the answer is written now.
            if !isUp { append(.storeNoted) }
            return nil
        case .remove(let key):
            settle(key)
            return nil
        case .keepSettled(let row):
            keepSettled(row, now: now)
            return nil
        // A direct session that has ended drops its messages itself.
        case .sendReceived(let key, let path): return isCurrent || path != .relay ? .sendReceived(key, on: path) : nil
        case .sendResult(let key, let path):
            guard isCurrent || path != .relay, !settled.contains(key) else { return nil }
            let unwritten = noted[key] ?? upcoming[key]
            return .sendResult(key, unwritten: unwritten?.isResultStored ?? true ? nil : unwritten, on: path)
        case .sendUnstoredResult(let command, let outcome, let highest, let path):
            return isCurrent || path != .relay ? .sendUnstoredResult(command, outcome, highest: highest, on: path) : nil
        case .postpone(let key): return .postpone(key)
        case .handle(let command): return .handle(command)
        case .extendTime(let key): return .extendTime(key)
        case .tellCancelled(let key): return .tellCancelled(key)
        case .stopHandler(let key): return .stopHandler(key)
        case .disconnect(let exceeded): return isCurrent ? .disconnect(exceeded) : nil
        }
    }
}
