// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

@testable import RelayServer

/// The senders: an `OutboxMachine` each, and the journal that its owner writes to.
extension AccountSimulation {
    struct Sender {
        enum Write {
            case commit([SentCommand])
            case load([SentCommand], connection: Int)
        }

        let device: TestDevice
        let skew: Int64
        /// Added to the own clock, to get the relay's.
        var offset: Int64 = 0
        var machine = OutboxMachine()
        // The journal.
        var rows: [CommandID: SentCommand] = [:]
        var commands: [CommandID: SealedCommand] = [:]
        var numbers: [String: UInt64] = [:]
        /// A copy of the journal.
        private(set) var copy = Copy()
        struct Copy {
            var rows: [CommandID: SentCommand] = [:]
            var commands: [CommandID: SealedCommand] = [:]
            var numbers: [String: UInt64] = [:]
        }
        /// Given to the journal.
        var write: Write?
        /// The write is on disk, and not reported. With the open commands if it was a load.
        var committed: [SentCommand]?
        /// Signed again, and not stored yet.
        var signed: [CommandID: SealedCommand] = [:]
        /// The commands that wait for an answer on this connection.
        var requests: [RequestRef: CommandDescriptor] = [:]
        /// The commands to send again on this connection, after the time that the relay named.
        var retries: [(id: CommandID, request: SentCommand.Request)] = []
        /// The cancellations that wait for an answer on this connection.
        var cancellations: [RequestRef: CommandID] = [:]
        /// The relay's messages, by the marks that were set for them.
        var marked: [Int: RelayMessage.CommandStatus] = [:]
        var lastMark = 0

        init(device: TestDevice, skew: Int64) { (self.device, self.skew) = (device, skew) }

        var open: [SentCommand] { rows.values.filter { !$0.isEnded }.sorted { $0.command.id < $1.command.id } }

        var progress: Progress {
            let acts = machine.hasWork
            let flushes = machine.hasNoted && !acts && write == nil
            return Progress(acts: acts, commits: write != nil && committed == nil, reports: committed != nil, flushes: flushes)
        }

        mutating func loseMemory() {
            (write, committed) = (nil, nil)
            (signed, marked) = ([:], [:])
        }

        mutating func backUp() { copy = Copy(rows: rows, commands: commands, numbers: numbers) }

        mutating func restore() { (rows, commands, numbers) = (copy.rows, copy.commands, copy.numbers) }

        mutating func crash() {
            machine = OutboxMachine()
            loseMemory()
        }
    }

    mutating func submit(_ sender: Int, _ app: String, _ life: Int64) throws {
        let number = nextNumber(sender, app)
        let command = try seal(sender, number, app, life)
        let (row, _) = SentCommand.prepare(command.descriptor, isConnected: senders[sender].machine.isConnected)
        senders[sender].commands[command.header.id] = command
        store(row, sender)
        let others = senders[sender].open.filter { $0.command.lane == row.command.lane && $0.command.number < number && $0.isUnanswered }
        senders[sender].machine.add(row, behind: others.sorted { $0.command.number < $1.command.number })
    }

    private mutating func nextNumber(_ sender: Int, _ app: String, above: UInt64 = 0) -> UInt64 {
        let own = now + senders[sender].skew
        let lowest = CommandNumber.lowest(relayTime: own + senders[sender].offset, ownTime: own)
        let number = max(max(senders[sender].numbers[app] ?? 0, above) + 1, lowest)
        senders[sender].numbers[app] = number
        return number
    }

    private mutating func seal(
        _ sender: Int,
        _ number: UInt64,
        _ app: String,
        _ life: Int64,
        id: CommandID? = nil,
        firstNumber: UInt64? = nil,
        expires: Int64? = nil
    ) throws -> SealedCommand {
        let created = now + senders[sender].skew + senders[sender].offset
        return try world.command(
            from: senders[sender].device,
            to: target.device,
            number: number,
            app: app,
            life: life,
            created: created,
            id: id,
            firstNumber: firstNumber,
            expires: expires.map { max($0, created + 1) }
        )
    }

    /// Puts the copy of the journal in place.
    mutating func restore(sender: Int) {
        let before = senders[sender].rows
        senders[sender].restore()
        for (id, row) in before where senders[sender].rows[id] == nil { history.lostBySender.insert(row.command.key) }
        for row in senders[sender].open {
            let key = row.command.key
            history.reopened.insert(key)
            // Its end is lost with the state.
            history.reportedNotRun.remove(key)
            if case .accepted = row.state { continue }
            history.accepted.remove(key)
        }
    }

    mutating func retry(_ sender: Int) {
        world.now += 60_000
        let retries = senders[sender].retries
        senders[sender].retries = []
        for retry in retries { senders[sender].machine.retry(retry.id, retry.request) }
    }

    mutating func cancel(_ sender: Int, _ id: CommandID) {
        guard senders[sender].machine.adopt(senders[sender].rows[id], id, isEnd: false) else { return }
        senders[sender].machine.cancel(id)
    }

    // MARK: Messages

    mutating func read(_ message: RelayMessage, sender: Int) {
        switch message {
        case .ok(let answer):
            if let id = answered(answer.ref, sender) { senders[sender].machine.accepted(id) }
        case .failure(let failure):
            if let id = senders[sender].cancellations.removeValue(forKey: failure.ref) {
                if failure.code == .unavailable { senders[sender].machine.cancelRefused(id, retryAfter: 1_000) }
                return
            }
            guard let id = answered(failure.ref, sender) else { return }
            if failure.code == .clockSkew { senders[sender].offset = -senders[sender].skew }
            senders[sender].machine.refused(id, CommandRejection(failure), now: now)
        case .commandStatus(let status):
            senders[sender].lastMark += 1
            senders[sender].marked[senders[sender].lastMark] = status
            senders[sender].machine.mark(senders[sender].lastMark)
        case .command, .commandCancel, .commandSettled: history.violations.append("a sender got a message for targets")
        default: break
        }
    }

    /// The command that the answer is about; `nil` if the command was signed again since.
    private mutating func answered(_ ref: RequestRef, _ sender: Int) -> CommandID? {
        guard let command = senders[sender].requests.removeValue(forKey: ref) else { return nil }
        return senders[sender].machine[command.id]?.command.digest == command.digest ? command.id : nil
    }

    private mutating func take(_ message: RelayMessage.CommandStatus, _ sender: Int) throws {
        let id = message.id
        if senders[sender].machine[id] == nil,
            !senders[sender].machine.adopt(senders[sender].rows[id], id, isEnd: message.isEnd)
        {
            return
        }
        switch message.status {
        case .waking(let wake): senders[sender].machine.progressed(id, .waking(wake))
        case .step(let state):
            if let progress = CommandProgress(state) { senders[sender].machine.progressed(id, progress) }
        case .attestedByRelay(let outcome):
            senders[sender].machine.ended(id, CommandFinal(attestedByRelay: outcome), receiptIsValid: false)
        case .attestedByTarget(let receipt, let reply):
            guard let row = senders[sender].machine[id] else { return }
            let record = try target.device.record(world.account.rawValue).payload
            let final = CommandFinal(
                receipt: receipt.bytes,
                reply: reply?.bytes,
                of: row.command,
                isSignedAgain: row.signings > 1,
                from: record
            )
            guard let final else { return }
            if let highest = final.highest {
                let app = row.command.lane.appID
                senders[sender].numbers[app] = max(senders[sender].numbers[app] ?? 0, highest)
            }
            // A receipt for bytes that the restored state does not know proves nothing to the sender.
            if final.attestedBy != .target, !history.hasGoneBack { history.violations.append("a receipt was changed") }
            senders[sender].machine.ended(id, final, receiptIsValid: final.attestedBy == .target)
        }
    }

    // MARK: Actions

    mutating func act(sender: Int) throws {
        guard senders[sender].write == nil, let action = senders[sender].machine.next(now: now) else { return }
        switch action {
        case .commit(let rows): senders[sender].write = .commit(rows)
        case .load(let rows): senders[sender].write = .load(rows, connection: senders[sender].machine.connectionNumber)
        case .send(let id, let again):
            guard let row = senders[sender].rows[id], let command = senders[sender].commands[id], row.state != .prepared else {
                return history.violations.append("sent, and not stored as sent")
            }
            let ref = nextRef()
            senders[sender].requests[ref] = command.descriptor
            send(.commandSend(.init(ref: ref, command: Blob(command.encoded), again: again)), from: sender)
        case .cancel(let id):
            let ref = nextRef()
            senders[sender].cancellations[ref] = id
            send(.commandCancel(.init(ref: ref, id: id)), from: sender)
        case .acknowledge(let id):
            // The end of a command that the restored journal does not know has no reader, and the relay may delete it.
            let key = CommandKey(sender: senders[sender].device.id, id: id)
            let isLost = senders[sender].rows[id] == nil && history.lostBySender.contains(key)
            if senders[sender].rows[id]?.isEnded != true, !isLost { history.violations.append("acknowledged, not stored") }
            send(.commandAcknowledge(.init(id: id)), from: sender)
        case .signAnew(let id, let above):
            guard let old = senders[sender].machine[id]?.command, let first = senders[sender].commands[id]?.header else { return }
            let app = old.lane.appID
            let number = above.map { nextNumber(sender, app, above: $0) } ?? old.number
            let command = try seal(
                sender,
                number,
                app,
                old.expires - old.created,
                id: id,
                firstNumber: first.firstNumber ?? (above == nil ? nil : first.number),
                expires: above == nil ? nil : old.expires
            )
            senders[sender].signed[id] = command
            senders[sender].machine.signedAnew(command.descriptor)
        case .report(let row): checkReport(row, sender)
        case .reached(let mark):
            if let status = senders[sender].marked.removeValue(forKey: mark) { try take(status, sender) }
        case .retryLater(let id, let request, _): senders[sender].retries.append((id, request))
        case .markDirect, .offer, .settle: history.violations.append("a message on a direct session that is not there")
        // A restored relay may state the end of a command that its sender has as not sent.
        case .reject: if !history.hasGoneBack { history.violations.append("an honest relay was not believed") }
        }
    }

    /// Only committed states may be reported.
    private mutating func checkReport(_ row: SentCommand, _ sender: Int) {
        guard let stored = senders[sender].rows[row.command.id] else {
            return history.violations.append("told of what is not stored: \(row.state)")
        }
        if row.isEnded, stored.state != row.state { history.violations.append("told \(row.state), stored \(stored.state)") }
        if case .accepted = row.state { history.accepted.insert(row.command.key) }
    }

    // MARK: The journal

    mutating func commit(sender: Int) {
        guard let write = senders[sender].write, senders[sender].committed == nil else { return }
        switch write {
        case .commit(let rows):
            for row in rows { store(row, sender) }
            senders[sender].committed = []
        case .load(let rows, _):
            for row in rows { store(row, sender) }
            senders[sender].committed = senders[sender].open
        }
    }

    mutating func report(sender: Int) {
        guard let write = senders[sender].write, let open = senders[sender].committed else { return }
        (senders[sender].write, senders[sender].committed) = (nil, nil)
        switch write {
        case .commit: senders[sender].machine.committed()
        case .load(_, let connection): senders[sender].machine.loaded(open, ended: [], for: connection)
        }
    }

    /// The disk is full: data that is not stored is lost, as by a crash.
    mutating func fail(sender: Int) {
        guard senders[sender].write != nil, senders[sender].committed == nil else { return }
        senders[sender].loseMemory()
        senders[sender].machine.failed()
        disconnect(sender)
    }

    private mutating func store(_ row: SentCommand, _ sender: Int) {
        let id = row.command.id
        // An end stands.
        if senders[sender].rows[id]?.isEnded == true { return }
        checkCommit(row)
        senders[sender].rows[id] = row.stored
        if let signed = senders[sender].signed[id], signed.descriptor == row.command {
            senders[sender].commands[id] = signed
            senders[sender].signed[id] = nil
        }
    }
}
