// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The commands that an endpoint sends. This machine decides what is written in which commit, and what happens only after that commit.
///
/// The owner takes actions with `next`, one at a time, and executes each before it takes the next. All writes that are due form one commit.
/// Messages, reports and other writes wait until the owner reports that the commit is on disk. A command's progress at the relay is written
/// a moment later, or with another commit before that, because the relay repeats it. A crash at any point loses this machine and all
/// actions that were not executed. The owner then starts with a new machine, which reads the stored commands on the next connection.
package struct OutboxMachine: Hashable, Sendable {
    package enum Action: Hashable, Sendable {
        /// Store the rows in one commit, then call `committed`. There is no other action until then.
        case commit([SentCommand])
        /// Store the rows and read all open commands in one commit, then call `loaded`. There is no other action until then.
        case load([SentCommand])
        /// Send the stored blob.
        case send(CommandID, again: Bool)
        /// Send `command.cancel`.
        case cancel(CommandID)
        /// Send the acknowledgement of the final outcome.
        case acknowledge(CommandID)
        /// Store the rows, mark all open commands to the target as direct and read them, in one commit, then call `marked`. There is no
        /// other action until then.
        case markDirect(EndpointID, [SentCommand])
        /// Offer the stored blob on the direct session with its target. Call `receivedDirectly`, `ended`, or `retryDirectly` after a pause, with the answer.
        case offer(CommandID)
        /// Tell the target on the direct session that the final outcome is stored.
        case settle(CommandID, EndpointID)
        /// Sign a new blob under the same id, with the relay's time, and call `signedAnew`. With a number, the lane is behind: the command
        /// gets a higher one.
        case signAnew(CommandID, above: UInt64?)
        /// Call `retry` after this time in milliseconds, if the connection lasts until then.
        case retryLater(CommandID, SentCommand.Request, after: Int64)
        /// Report the command's state to the app. The end of a command is already stored, and it is the last report.
        case report(SentCommand)
        /// The relay sent a statement that it has no authority for. Log it.
        case reject(CommandID)
        /// All work before this mark is done.
        case reached(mark: Int)
    }

    private enum Work: Hashable {
        case load
        case markDirect(EndpointID)
        case step(OutboxCommands.Step)
        /// For a command whose row this process does not have.
        case settle(CommandID, EndpointID)
        case storeNoted
        case mark(Int)
    }

    private struct Connection: Hashable {
        var number = 0
        var isUp = false
    }

    /// A message belongs to the connection for which it was decided. The next connection on its path makes up for a dropped message.
    private struct Queued: Hashable {
        let work: Work
        let path: CommandPath
        let connection: Connection

        var isWrite: Bool { if case .step(let step) = work { step.action.isWrite } else { false } }
    }

    private var commands: OutboxCommands
    private var queue: [Queued] = []
    /// Work taken from the queue; its writes are stored.
    private var batch: ArraySlice<Queued> = []
    /// Actions to return before the rest of the batch.
    private var first: [Action] = []
    private var noted = WriteBehindBuffer<CommandID, SentCommand>()
    private var isWaiting = false
    private var connections: [CommandPath: Connection] = [:]

    /// - Parameter hasRelay: Whether a relay can get the commands.
    package init(hasRelay: Bool = true) { commands = OutboxCommands(hasRelay: hasRelay) }

    package subscript(id: CommandID) -> SentCommand? { commands[id] }

    /// Whether an added command is sent on the current connection.
    package var isConnected: Bool { commands.isConnected }

    /// Whether the owner must call `storeDeferred` after the buffer's delay.
    package var hasNoted: Bool { !noted.isEmpty }

    /// Whether `next` can make progress.
    package var hasWork: Bool { !isWaiting && !(first.isEmpty && batch.isEmpty && queue.isEmpty) }

    // MARK: The connection

    /// The relay sent `welcome`.
    package mutating func connected() {
        commands.connected()
        setConnection(.relay, isUp: true)
        append(.load)
    }

    package mutating func disconnected() {
        commands.disconnected()
        setConnection(.relay, isUp: false)
    }

    private mutating func setConnection(_ path: CommandPath, isUp: Bool) {
        connections[path] = Connection(number: connection(path).number + 1, isUp: isUp)
    }

    private func connection(_ path: CommandPath) -> Connection { connections[path] ?? Connection() }

    // MARK: Direct sessions

    /// Commands shall go to a target on a direct session. They are marked in the store before the first one is offered.
    package mutating func connected(directlyTo target: EndpointID) {
        commands.connected(directlyTo: target)
        setConnection(.direct(target), isUp: true)
        append(.markDirect(target))
    }

    package mutating func disconnected(directlyFrom target: EndpointID) {
        commands.disconnected(directlyFrom: target)
        setConnection(.direct(target), isUp: false)
    }

    /// Whether commands go to this target on a direct session.
    package func isConnected(directlyTo target: EndpointID) -> Bool { connection(.direct(target)).isUp }

    /// The commit of `markDirect` is on disk.
    /// - Parameters:
    ///   - rows: All open commands to the target.
    ///   - ended: The ended commands among those that the app watches: another process may have got their outcomes.
    package mutating func marked(
        _ rows: [SentCommand],
        ended: [SentCommand] = [],
        directlyTo target: EndpointID,
        for connection: Int
    ) {
        isWaiting = false
        reportEnded(ended)
        guard connection == connectionNumber(on: .direct(target)) else { return }
        append(commands.begin(rows, directlyTo: target))
    }

    private mutating func reportEnded(_ rows: [SentCommand]) {
        for row in rows {
            first.append(.report(row))
            append(commands.remove(row.command.id))
        }
    }

    /// Reads the commands to a target again, because another process may have got an outcome.
    package mutating func refresh(directlyTo target: EndpointID) { if isConnected(directlyTo: target) { append(.markDirect(target)) } }

    /// The target has stored a command that was offered directly.
    package mutating func receivedDirectly(_ id: CommandID) { input(id) { $0.receivedDirectly() } }

    /// The target had no room for the command, and the pause is over.
    package mutating func retryDirectly(_ id: CommandID) { input(id) { $0.connectedDirectly() } }

    // MARK: Commands

    /// A command is stored.
    /// - Parameters:
    ///   - command: The stored row. If it is direct, its lane had no other open command.
    ///   - others: Earlier commands in its lane that the relay has not answered, including those of other processes.
    package mutating func add(_ command: SentCommand, behind others: [SentCommand]) {
        append(commands.add(command, behind: others))
        let target = command.command.lane.target
        guard isConnected(directlyTo: target) else { return }
        if command.isDirect { append(commands.begin([command], directlyTo: target)) } else { append(.markDirect(target)) }
    }

    /// The relay reports a command that this process does not know; another process may have sent it.
    /// - Parameters:
    ///   - stored: The command as stored.
    ///   - isEnd: Whether the relay reports the end of the command.
    /// - Returns: Whether the command is stored and open. If it is not, the machine acknowledges a reported end, so that the relay can
    ///   delete it.
    package mutating func adopt(_ stored: SentCommand?, _ id: CommandID, isEnd: Bool) -> Bool {
        if let stored, !stored.isEnded {
            commands.adopt(stored)
            return true
        }
        if isEnd, connection(.relay).isUp { first.append(.acknowledge(id)) }
        return false
    }

    /// The same for the end of a command that its target sends on the direct session.
    package mutating func adopt(_ stored: SentCommand?, _ id: CommandID, endedAt target: EndpointID) -> Bool {
        if let stored, !stored.isEnded {
            commands.adopt(stored)
            return true
        }
        append(.settle(id, target))
        return false
    }

    /// The relay answered `ok` to the send on the current connection.
    package mutating func accepted(_ id: CommandID) { input(id) { $0.accepted() } }

    /// The relay answered an error to the send on the current connection.
    /// - Parameters:
    ///   - now: The relay's time.
    ///   - delay: The time that the relay named, in milliseconds.
    package mutating func refused(_ id: CommandID, _ rejection: CommandRejection, now: Int64, retryAfter delay: Int64? = nil) {
        input(id) { $0.refused(rejection, now: now, retryAfter: delay) }
    }

    /// The relay cannot take the cancellation now.
    /// - Parameter delay: In milliseconds.
    package mutating func cancelRefused(_ id: CommandID, retryAfter delay: Int64) { input(id) { $0.cancelRefused(retryAfter: delay) } }

    /// The delay of `retryLater` is over.
    package mutating func retry(_ id: CommandID, _ request: SentCommand.Request) { input(id) { $0.retry(request) } }

    package mutating func progressed(_ id: CommandID, _ progress: CommandProgress) { input(id) { $0.progressed(progress) } }

    /// The relay or the target sent the final outcome. See `SentCommand.ended`.
    package mutating func ended(
        _ id: CommandID,
        _ final: CommandFinal,
        receiptIsValid: Bool,
        directly isDirect: Bool = false,
        targetIsRevoked: Bool = false
    ) {
        input(id) { $0.ended(final, receiptIsValid: receiptIsValid, directly: isDirect, targetIsRevoked: targetIsRevoked) }
    }

    /// When `handleDeadlines` has something to do.
    package var nextDeadline: Int64? { commands.nextDeadline }

    /// Ends the direct commands whose targets no longer answer, and, without a relay, those that have expired.
    /// - Parameter now: The relay's time, as this endpoint knows it.
    package mutating func handleDeadlines(now: Int64) { append(commands.handleDeadlines(now: now)) }

    /// The app cancels the command.
    package mutating func cancel(_ id: CommandID) { input(id) { $0.cancel() } }

    /// The owner signed a command again; its content is stored with the row.
    package mutating func signedAnew(_ command: CommandDescriptor) { append(commands.signedAnew(command)) }

    /// `reached(mark:)` follows when all work before it is done.
    package mutating func mark(_ number: Int) { append(.mark(number)) }

    private mutating func input(_ id: CommandID, _ body: (inout SentCommand) -> [SentCommand.Action]) { append(commands.input(id, body)) }

    private mutating func append(_ steps: [OutboxCommands.Step]) { for step in steps { append(.step(step)) } }

    private mutating func append(_ work: Work) {
        let path = path(of: work)
        queue.append(Queued(work: work, path: path, connection: connection(path)))
    }

    private func path(of work: Work) -> CommandPath {
        switch work {
        case .markDirect(let target), .settle(_, let target): return .direct(target)
        case .step(let step):
            guard step.action == .offer || step.action == .settle, let row = commands[step.id] else { return .relay }
            return .direct(row.command.lane.target)
        case .load, .storeNoted, .mark: return .relay
        }
    }

    // MARK: Storage

    /// The commit is on disk.
    /// - Parameter superseded: The stored rows of commands whose rows were not stored. Another process has stored an end; that end is
    ///   valid, and the other process has acknowledged it to the relay. Or it has signed the command again.
    package mutating func committed(superseded: [SentCommand] = []) {
        isWaiting = false
        for row in superseded where row.isEnded {
            commands.replace(row)
            first.append(.report(row))
            append(commands.remove(row.command.id))
        }
        let open = superseded.filter { !$0.isEnded }
        guard !open.isEmpty else { return }
        // What was decided for the earlier bytes is dropped. What follows from the stored row may need a write before the rest.
        let ids = Set(open.map(\.command.id))
        let rest = batch.filter { queued in
            switch queued.work {
            case .step(let step): !step.action.isWrite && !ids.contains(step.id)
            case .storeNoted: false
            case .load, .markDirect, .settle, .mark: true
            }
        }
        let later = queue
        (batch, queue) = ([], [])
        for row in open {
            noted.remove(row.command.id)
            append(commands.adopt(signedAgain: row))
        }
        queue += rest + later
    }

    /// The stored rows take precedence: other processes of this endpoint may have sent commands or received outcomes.
    /// - Parameters:
    ///   - open: All commands that have not ended.
    ///   - ended: The ended commands among those that the app watches.
    package mutating func loaded(_ open: [SentCommand], ended: [SentCommand], for connection: Int) {
        isWaiting = false
        reportEnded(ended)
        // The lanes of direct sessions may wait for commands that other processes have ended.
        for target in commands.directTargets {
            commands.connected(directlyTo: target)
            append(.markDirect(target))
        }
        guard connection == connectionNumber else { return }
        append(commands.begin(open))
    }

    /// The number of the current connection to the relay, or of the current time without a connection.
    package var connectionNumber: Int { connectionNumber(on: .relay) }

    /// The same for any path.
    package func connectionNumber(on path: CommandPath) -> Int { connection(path).number }

    /// The storage has failed. All unstored state is lost, as after a crash; the relay repeats it. The owner connects direct sessions anew.
    package mutating func failed() {
        var connections = connections
        for (path, connection) in connections where path != .relay {
            connections[path] = Connection(number: connection.number + 1, isUp: false)
        }
        self = OutboxMachine(hasRelay: commands.hasRelay)
        self.connections = connections
    }

    /// The delay of the write-behind buffer is over.
    package mutating func storeDeferred() { if hasNoted { append(.storeNoted) } }

    /// Takes the unwritten rows when the owner stops.
    package mutating func takeNoted() -> [SentCommand] { noted.takeAll() }

    // MARK: Actions

    /// The next action; `nil` if there is none, or while a commit is pending.
    package mutating func next(now: Int64) -> Action? {
        guard !isWaiting else { return nil }
        while true {
            if !first.isEmpty { return first.removeFirst() }
            if batch.isEmpty {
                guard !queue.isEmpty else { return nil }
                (batch, queue) = (queue[...], [])
                let rows = takeRows(now: now)
                if !rows.isEmpty {
                    isWaiting = true
                    return .commit(rows)
                }
            }
            guard let next = batch.popFirst() else { continue }
            let now = connection(next.path)
            if let action = action(for: next, isCurrent: now.isUp && next.connection == now) { return action }
        }
    }

    /// All rows that the batch writes.
    private mutating func takeRows(now: Int64) -> [SentCommand] {
        var rows: [SentCommand] = []
        for queued in batch {
            switch queued.work {
            case .step(let step):
                switch step.action {
                case .persist(let row):
                    noted.remove(step.id)
                    rows.append(row)
                case .note(let row): noted.keep(row, for: step.id, now: now)
                default: break
                }
            case .storeNoted: rows += noted.takeDue(now: now)
            case .load, .markDirect, .settle, .mark: break
            }
        }
        return rows
    }

    private mutating func action(for queued: Queued, isCurrent: Bool) -> Action? {
        switch queued.work {
        case .step(let step): return action(for: step, on: queued.path, isCurrent: isCurrent)
        case .storeNoted: return nil
        // The target may have asked on a session of its own.
        case .settle(let id, let target): return .settle(id, target)
        case .mark(let number): return .reached(mark: number)
        case .load, .markDirect:
            guard isCurrent else { return nil }
            // The stored rows take precedence over this process's, so what it has decided since is stored before they are read.
            guard !queue.contains(where: \.isWrite) else {
                append(queued.work)
                return nil
            }
            isWaiting = true
            if case .markDirect(let target) = queued.work { return .markDirect(target, noted.takeAll()) }
            return .load(noted.takeAll())
        }
    }

    private mutating func action(for step: OutboxCommands.Step, on path: CommandPath, isCurrent: Bool) -> Action? {
        let id = step.id
        switch step.action {
        case .persist, .note: return nil
        // A command that has ended since is not sent. One that must be signed again since is sent once it is signed.
        case .send(let again): return isCurrent && commands[id]?.isSent == true ? .send(id, again: again) : nil
        case .cancel: return isCurrent ? .cancel(id) : nil
        case .acknowledge: return isCurrent ? .acknowledge(id) : nil
        // The offer says whether the command is cancelled.
        case .offer:
            guard isCurrent, let row = commands[id], row.isSent, row.isDirect, commands.isOffered(row.command) else { return nil }
            return .offer(id)
        case .settle:
            guard case .direct(let target) = path else { return nil }
            return .settle(id, target)
        case .signAnew(let number): return .signAnew(id, above: number)
        case .retryLater(let request, let delay): return isCurrent ? .retryLater(id, request, after: delay) : nil
        case .answered:
            append(commands.answered(id))
            return nil
        case .answeredDirectly:
            append(commands.answeredDirectly(id))
            return nil
        case .report(let news):
            // If the command has ended since, its end is reported once that is stored.
            guard let row = commands[id], row.isEnded == news.isEnd else { return nil }
            if row.isEnded { append(commands.remove(id)) }
            return .report(row)
        case .reject: return .reject(id)
        }
    }
}
