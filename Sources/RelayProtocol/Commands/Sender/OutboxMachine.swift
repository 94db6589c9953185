// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The commands that an endpoint sends: what is written in which commit, and what is done only after that.
///
/// Its owner takes actions by `next`, one after the other, and carries each out before it takes the next one. All writes that are due are
/// one commit; messages, reports and other writes wait until the owner says that it is on disk. How far a command is at the relay is
/// written a moment later, with another commit if there is one by then: the relay tells it again. A crash at any point loses this machine and
/// whatever action was not carried out; the owner starts with a new one, which reads what is stored on the next connection.
package struct OutboxMachine: Hashable, Sendable {
    package enum Action: Hashable, Sendable {
        /// Store the rows in one commit, then call `committed`. There is no other action until then.
        case commit([SentCommand])
        /// Store the rows and read all that have not ended, in one commit, then call `loaded`. There is no other action until then.
        case load([SentCommand])
        /// Send the stored blob.
        case send(CommandID, again: Bool)
        /// Send `command.cancel`.
        case cancel(CommandID)
        /// Send the acknowledgement of the final outcome.
        case acknowledge(CommandID)
        /// Sign a new blob under the same id, with the relay's time, and call `signedAnew`.
        case signAnew(CommandID)
        /// Call `retry` when the relay said to, or after a minute, if the connection lasts.
        case retryLater(CommandID)
        /// Tell the app how the command is now. If it has ended, that is stored, and nothing else comes of it.
        case report(SentCommand)
        /// The relay said what it may not say. Log it.
        case reject(CommandID)
        /// All that came before this mark was set is done.
        case reached(mark: Int)
    }

    private enum Work: Hashable {
        case load
        case step(OutboxCommands.Step)
        case storeNoted
        case mark(Int)
    }

    /// A message is for the connection it was decided on; the next one makes up for it.
    private struct Queued: Hashable {
        let work: Work
        let connection: Int
    }

    private var commands = OutboxCommands()
    private var queue: [Queued] = []
    /// Taken from the queue; its writes are stored.
    private var batch: ArraySlice<Queued> = []
    /// Handed out before the batch goes on.
    private var first: [Action] = []
    private var noted = WriteBehindBuffer<CommandID, SentCommand>()
    private var isWaiting = false
    private var connection = 0
    private var isUp = false

    package init() {}

    package subscript(id: CommandID) -> SentCommand? { commands[id] }

    /// Whether a command that is added gets its turn on the present connection.
    package var isConnected: Bool { commands.isConnected }

    /// Whether `timePassed` is to be called after the buffer's delay.
    package var hasNoted: Bool { !noted.isEmpty }

    /// Whether `next` gets anywhere.
    package var hasWork: Bool { !isWaiting && !(first.isEmpty && batch.isEmpty && queue.isEmpty) }

    // MARK: The connection

    /// The relay said `welcome`.
    package mutating func connected() {
        commands.connected()
        (connection, isUp) = (connection + 1, true)
        append(.load)
    }

    package mutating func disconnected() {
        commands.disconnected()
        (connection, isUp) = (connection + 1, false)
    }

    // MARK: Commands

    /// A command is stored.
    /// - Parameter others: Those before it in its lane that the relay has not answered, also those of other processes.
    package mutating func add(_ command: SentCommand, behind others: [SentCommand]) { append(commands.add(command, behind: others)) }

    /// Something is heard of a command that this process does not know; perhaps another process has sent it.
    /// - Parameters:
    ///   - stored: The command as it is stored.
    ///   - isEnd: Whether it is the end that is told.
    /// - Returns: Whether the command can go on. If it cannot, the relay need not keep its end.
    package mutating func adopt(_ stored: SentCommand?, _ id: CommandID, isEnd: Bool) -> Bool {
        if let stored, !stored.isEnded {
            commands.adopt(stored)
            return true
        }
        if isEnd, isUp { first.append(.acknowledge(id)) }
        return false
    }

    /// The relay answered `ok` to the send that went over the present connection.
    package mutating func accepted(_ id: CommandID) { input(id) { $0.accepted() } }

    /// The relay answered an error to the send that went over the present connection.
    package mutating func refused(_ id: CommandID, _ refusal: CommandRefusal) { input(id) { $0.refused(refusal) } }

    /// The time of `retryLater` is over.
    package mutating func retry(_ id: CommandID) { input(id) { $0.connected() } }

    package mutating func progressed(_ id: CommandID, _ progress: CommandProgress) { input(id) { $0.progressed(progress) } }

    /// The relay told the final outcome. See `SentCommand.ended`.
    package mutating func ended(_ id: CommandID, _ final: CommandFinal, receiptIsValid: Bool) {
        input(id) { $0.ended(final, receiptIsValid: receiptIsValid) }
    }

    /// The app does not want it any more.
    package mutating func cancel(_ id: CommandID) { input(id) { $0.cancel() } }

    /// The owner signed a command anew; its content is stored with the row.
    package mutating func signedAnew(_ command: CommandDescriptor) { append(commands.signedAnew(command)) }

    /// `reached(mark:)` comes once all before this is done.
    package mutating func mark(_ number: Int) { append(.mark(number)) }

    private mutating func input(_ id: CommandID, _ body: (inout SentCommand) -> [SentCommand.Action]) { append(commands.input(id, body)) }

    private mutating func append(_ steps: [OutboxCommands.Step]) { for step in steps { append(.step(step)) } }

    private mutating func append(_ work: Work) { queue.append(Queued(work: work, connection: connection)) }

    // MARK: Storage

    /// The commit is on disk.
    /// - Parameter superseded: Rows of it that were not stored, since another process has stored the command's end: that stands. It has
    ///   acknowledged it to the relay, so what the relay says now is about nothing.
    package mutating func committed(superseded: [SentCommand] = []) {
        isWaiting = false
        for row in superseded {
            commands.replace(row)
            first.append(.report(row))
            append(commands.answered(row.command.id))
            commands.remove(row.command.id)
        }
    }

    /// What is stored is the truth: other processes of this endpoint may have sent, or heard an end.
    /// - Parameters:
    ///   - open: All that have not ended.
    ///   - ended: Of those that somebody watches, the ones that have.
    package mutating func loaded(_ open: [SentCommand], ended: [SentCommand], for connection: Int) {
        isWaiting = false
        for row in ended {
            first.append(.report(row))
            commands.remove(row.command.id)
        }
        guard connection == self.connection else { return }
        append(commands.begin(open))
    }

    /// The present connection, or the time without one.
    package var connectionNumber: Int { connection }

    /// The storage has failed: all that is not stored is lost, as by a crash. The relay tells it again.
    package mutating func failed() {
        let (connection, isUp) = (connection, isUp)
        self = OutboxMachine()
        (self.connection, self.isUp) = (connection, isUp)
    }

    /// What was put off has waited long enough.
    package mutating func timePassed() { if hasNoted { append(.storeNoted) } }

    /// What is put off, at the end.
    package mutating func takeNoted() -> [SentCommand] { noted.takeAll() }

    // MARK: Actions

    /// The next action; `nil` if there is none, or while the owner has to say that something is on disk.
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
            if let next = batch.popFirst(), let action = action(for: next.work, isCurrent: isUp && next.connection == connection) {
                return action
            }
        }
    }

    /// All that the batch writes.
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
            case .load, .mark: break
            }
        }
        return rows
    }

    private mutating func action(for work: Work, isCurrent: Bool) -> Action? {
        switch work {
        case .step(let step): return action(for: step, isCurrent: isCurrent)
        case .storeNoted: return nil
        case .mark(let number): return .reached(mark: number)
        case .load:
            guard isCurrent else { return nil }
            isWaiting = true
            return .load(noted.takeAll())
        }
    }

    private mutating func action(for step: OutboxCommands.Step, isCurrent: Bool) -> Action? {
        let id = step.id
        switch step.action {
        case .persist, .note: return nil
        case .send(let again): return isCurrent && commands[id]?.isEnded == false ? .send(id, again: again) : nil
        case .cancel: return isCurrent ? .cancel(id) : nil
        case .acknowledge: return isCurrent ? .acknowledge(id) : nil
        case .signAnew: return .signAnew(id)
        case .retryLater: return isCurrent ? .retryLater(id) : nil
        case .answered:
            append(commands.answered(id))
            return nil
        case .report(let news):
            // Of what has ended since, the end is told when that is stored.
            guard let row = commands[id], row.isEnded == news.isEnd else { return nil }
            if row.isEnded { commands.remove(id) }
            return .report(row)
        case .reject: return .reject(id)
        }
    }
}
