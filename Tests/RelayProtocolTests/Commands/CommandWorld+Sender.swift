// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

@testable import RelayProtocol

/// The senders: an `OutboxMachine` each, and the journal that its owner writes to.
extension CommandWorld {
    /// What was given to a sender's journal, in order. A crash loses what is not committed.
    enum SenderWrite: Hashable {
        case insert(CommandID, CommandLane, life: Int64, isConnected: Bool)
        case commit([SentCommand])
        case load([SentCommand], connection: Int)
    }

    /// Committed, and not reported to the machine yet.
    enum SenderNews: Hashable {
        case inserted(SentCommand)
        case committed
        case loaded([SentCommand], connection: Int)
    }

    mutating func submit(_ sender: Int, _ lane: CommandLane, _ life: Int64) {
        let isConnected = senders[sender].machine.isConnected
        senders[sender].writes.append(.insert(ids.next(), lane, life: life, isConnected: isConnected))
    }

    func signed(
        _ sender: Int,
        _ id: CommandID,
        _ lane: CommandLane,
        _ number: UInt64,
        first: UInt64? = nil,
        expires: (_ created: Int64) -> Int64
    ) -> CommandDescriptor {
        let created = now + senders[sender].skew + senders[sender].offset
        return CommandDescriptor(
            id: id,
            lane: lane,
            number: number,
            firstNumber: first,
            created: created,
            expires: expires(created),
            digest: CommandWorld.digest(id, created, number),
            size: 1_000
        )
    }

    private mutating func nextNumber(_ sender: Int, _ lane: CommandLane, above: UInt64 = 0) -> UInt64 {
        let own = now + senders[sender].skew
        let lowest = CommandNumber.lowest(relayTime: own + senders[sender].offset, ownTime: own)
        let number = max(max(senders[sender].storedNumbers[lane] ?? 0, above) + 1, lowest)
        senders[sender].storedNumbers[lane] = number
        return number
    }

    mutating func cancel(_ sender: Int, _ id: CommandID) {
        guard let row = senders[sender].stored[id], senders[sender].machine.adopt(row, id, isEnd: false) else { return }
        senders[sender].machine.cancel(id)
    }

    mutating func arriveAtSender(_ frame: Frame, _ sender: Int) {
        switch frame {
        case .accepted(let id, let digest):
            if senders[sender].machine[id]?.command.digest == digest { senders[sender].machine.accepted(id) }
        case .refused(let id, let digest, let rejection):
            if senders[sender].machine[id]?.command.digest == digest { senders[sender].machine.refused(id, rejection, now: now) }
        case .progress, .final:
            senders[sender].lastMark += 1
            senders[sender].marked[senders[sender].lastMark] = frame
            senders[sender].machine.mark(senders[sender].lastMark)
        default: violations.append("a sender got \(frame)")
        }
    }

    /// The relay's next message about a command.
    private mutating func take(_ frame: Frame, _ sender: Int) {
        let (id, final): (CommandID, CommandFinal?)
        switch frame {
        case .progress(let its, _): (id, final) = (its, nil)
        case .final(let its, let told): (id, final) = (its, told)
        default: return
        }
        if senders[sender].machine[id] == nil,
            !senders[sender].machine.adopt(senders[sender].stored[id], id, isEnd: final != nil)
        {
            return
        }
        if case .progress(_, let progress) = frame { senders[sender].machine.progressed(id, progress) }
        guard let final, let row = senders[sender].machine[id] else { return }
        let isValid = final.receipt == CommandWorld.receipt(row.command.digest, final.outcome)
        if let highest = final.highest {
            senders[sender].storedNumbers[row.command.lane] = max(senders[sender].storedNumbers[row.command.lane] ?? 0, highest)
        }
        senders[sender].machine.ended(id, final, receiptIsValid: isValid)
    }

    /// The sender's owner carries out one action.
    mutating func workAtSender(_ sender: Int) {
        guard let action = senders[sender].machine.next(now: now) else { return }
        let epoch = links[sender].epoch
        switch action {
        case .commit(let rows): senders[sender].writes.append(.commit(rows))
        case .load(let rows):
            senders[sender].writes.append(.load(rows, connection: senders[sender].machine.connectionNumber))
        case .send(let id, let again):
            guard let row = senders[sender].stored[id] else { return violations.append("sent, not stored") }
            if row.state == .prepared { violations.append("sent, and stored as if it were not") }
            transmit(sender, epoch, .send(row.command, again: again), up: true)
        case .cancel(let id): transmit(sender, epoch, .cancel(id), up: true)
        case .acknowledge(let id):
            // The end of a command that the restored journal does not know has no reader, and the relay may delete it.
            let isLost = senders[sender].stored[id] == nil && history.lostBySender.contains(CommandKey(sender: senders[sender].id, id: id))
            if senders[sender].stored[id]?.isEnded != true, !isLost { violations.append("acknowledged, not stored") }
            transmit(sender, epoch, .acknowledge(id), up: true)
        case .signAnew(let id, let above):
            guard let old = senders[sender].machine[id]?.command else { return }
            guard let above else {
                let command = signed(sender, id, old.lane, old.number, first: old.firstNumber) { $0 + old.expires - old.created }
                return senders[sender].machine.signedAnew(command)
            }
            let number = nextNumber(sender, old.lane, above: above)
            let command = signed(sender, id, old.lane, number, first: old.firstNumber ?? old.number) { max(old.expires, $0 + 1) }
            senders[sender].machine.signedAnew(command)
        case .report(let row): checkReport(row, sender)
        case .reached(let mark):
            if let frame = senders[sender].marked.removeValue(forKey: mark) { take(frame, sender) }
        case .retryLater, .reject: break
        }
    }

    /// Only committed states may be reported.
    private mutating func checkReport(_ row: SentCommand, _ sender: Int) {
        let key = row.command.key
        guard let stored = senders[sender].stored[row.command.id] else {
            return violations.append("told of what is not stored: \(row.state)")
        }
        if row.isEnded, stored.state != row.state { violations.append("told \(row.state), stored \(stored.state)") }
        if case .accepted = row.state { history.accepted.insert(key) }
    }

    // MARK: The journal

    /// The journal makes its next commit.
    mutating func storeAtSender(_ sender: Int) {
        guard !senders[sender].writes.isEmpty else { return }
        switch senders[sender].writes.removeFirst() {
        case .insert(let id, let lane, let life, let isConnected):
            let number = nextNumber(sender, lane)
            let (row, _) = SentCommand.prepare(signed(sender, id, lane, number) { $0 + life }, isConnected: isConnected)
            store(row, sender)
            senders[sender].news.append(.inserted(row))
        case .commit(let rows):
            for row in rows { store(row, sender) }
            senders[sender].news.append(.committed)
        case .load(let rows, let connection):
            for row in rows { store(row, sender) }
            let open = senders[sender].stored.values.filter { !$0.isEnded }
            senders[sender].news.append(.loaded(open.sorted { $0.command.id < $1.command.id }, connection: connection))
        }
    }

    /// The journal tells of a commit.
    mutating func tellSender(_ sender: Int) {
        guard !senders[sender].news.isEmpty else { return }
        switch senders[sender].news.removeFirst() {
        case .inserted(let row):
            let command = row.command
            let others = senders[sender].stored.values.filter { other in
                guard other.command.lane == command.lane, other.command.number < command.number else { return false }
                return other.state == .prepared || other.state == .sent
            }
            senders[sender].machine.add(row, behind: others.sorted { $0.command.number < $1.command.number })
        case .committed: senders[sender].machine.committed()
        case .loaded(let open, let connection): senders[sender].machine.loaded(open, ended: [], for: connection)
        }
    }

    /// The disk is full: data that is not stored is lost, as by a crash.
    mutating func failAtSender(_ sender: Int) {
        guard !senders[sender].writes.isEmpty else { return }
        if case .insert = senders[sender].writes.removeFirst() { return }
        senders[sender].machine.failed()
        senders[sender].marked = [:]
        disconnect(sender)
    }

    private mutating func store(_ row: SentCommand, _ sender: Int) {
        let old = senders[sender].stored[row.command.id]
        // An end stands.
        if let old, old.isEnded { return }
        checkCommit(row, after: old)
        senders[sender].stored[row.command.id] = row.stored
        senders[sender].storedNumbers[row.command.lane] = max(senders[sender].storedNumbers[row.command.lane] ?? 0, row.command.number)
    }

    /// Puts the copy of the journal in place.
    mutating func restoreSender(_ sender: Int) {
        let backup = senders[sender].backup
        for (id, row) in senders[sender].stored where backup.stored[id] == nil { history.lostBySender.insert(row.command.key) }
        (senders[sender].stored, senders[sender].storedNumbers) = (backup.stored, backup.storedNumbers)
        for row in backup.stored.values where !row.isEnded {
            let key = row.command.key
            history.reopened.insert(key)
            // Its end is lost with the state.
            history.reportedNotRun.remove(key)
            if case .accepted = row.state { continue }
            history.accepted.remove(key)
        }
    }

    mutating func crashSender(_ sender: Int) {
        senders[sender].machine = OutboxMachine()
        senders[sender].writes = []
        senders[sender].news = []
        senders[sender].marked = [:]
    }
}
