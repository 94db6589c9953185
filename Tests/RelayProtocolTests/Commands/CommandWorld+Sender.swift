// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

@testable import RelayProtocol

/// The senders: an `OutboxMachine` each, and the journal that its owner writes to.
extension CommandWorld {
    /// What was given to a sender's journal, in order. A crash loses what is not committed.
    enum SenderWrite: Hashable {
        case insert(CommandID, CommandLane, life: Int64, isConnected: Bool, isDirect: Bool)
        case commit([SentCommand])
        case load([SentCommand], connection: Int)
        case markDirect(EndpointID, [SentCommand], connection: Int)
    }

    /// Committed, and not reported to the machine yet.
    enum SenderNews: Hashable {
        case inserted(SentCommand)
        case committed(superseded: [SentCommand])
        case loaded([SentCommand], ended: [SentCommand], connection: Int)
        case marked(EndpointID, [SentCommand], ended: [SentCommand], connection: Int)
    }

    mutating func submit(_ sender: Int, _ lane: CommandLane, _ life: Int64) {
        let (isConnected, isDirect) = (
            senders[sender].machine.isConnected, senders[sender].machine.isConnected(directlyTo: lane.target)
        )
        senders[sender].writes.append(.insert(ids.next(), lane, life: life, isConnected: isConnected, isDirect: isDirect))
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
        let number = max(max(journals[senders[sender].journal].storedNumbers[lane] ?? 0, above) + 1, lowest)
        journals[senders[sender].journal].storedNumbers[lane] = number
        return number
    }

    mutating func cancel(_ sender: Int, _ id: CommandID) {
        guard let row = journals[senders[sender].journal].stored[id], senders[sender].machine.adopt(row, id, isEnd: false) else { return }
        senders[sender].machine.cancel(id)
    }

    mutating func arriveAtSender(_ frame: Frame, _ sender: Int) {
        switch frame {
        case .accepted(let id, let digest):
            if senders[sender].machine[id]?.command.digest == digest { senders[sender].machine.accepted(id) }
        case .refused(let id, let digest, let rejection):
            if senders[sender].machine[id]?.command.digest == digest { senders[sender].machine.refused(id, rejection, now: now) }
        case .receivedDirectly(let id): senders[sender].machine.receivedDirectly(id)
        case .progress, .final, .resultDirectly:
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
        case .resultDirectly(let key, let told): return takeDirectly(key.id, told, sender)
        default: return
        }
        if senders[sender].machine[id] == nil,
            !senders[sender].machine.adopt(journals[senders[sender].journal].stored[id], id, isEnd: final != nil)
        {
            return
        }
        if case .progress(_, let progress) = frame { senders[sender].machine.progressed(id, progress) }
        guard let final else { return }
        end(id, final, sender, directly: false)
    }

    private mutating func takeDirectly(_ id: CommandID, _ final: CommandFinal, _ sender: Int) {
        let stored = journals[senders[sender].journal].stored[id]
        let target = targets.first { final.receipt != nil && $0.id == (stored?.command.lane.target ?? $0.id) }
        guard let target, senders[sender].machine[id] != nil || senders[sender].machine.adopt(stored, id, endedAt: target.id) else {
            return
        }
        end(id, final, sender, directly: true)
    }

    private mutating func end(_ id: CommandID, _ final: CommandFinal, _ sender: Int, directly isDirect: Bool) {
        guard let row = senders[sender].machine[id] else { return }
        let isValid = final.receipt == CommandWorld.receipt(row.command.digest, final.outcome)
        if let highest = final.highest {
            journals[senders[sender].journal].storedNumbers[row.command.lane] = max(
                journals[senders[sender].journal].storedNumbers[row.command.lane] ?? 0,
                highest
            )
        }
        let isRevoked = targets.contains { $0.id == row.command.lane.target && $0.isRevoked }
        senders[sender].machine.ended(id, final, receiptIsValid: isValid, directly: isDirect, targetIsRevoked: isRevoked)
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
            guard let row = journals[senders[sender].journal].stored[id] else { return violations.append("sent, not stored") }
            if row.state == .prepared, row.signings == 1 { violations.append("sent, and stored as if it were not") }
            let history: CommandHistory = row.isReceivedDirectly ? .received : row.isDirect ? .offered : again ? .sent : .new
            transmit(sender, epoch, .send(row.command, history), up: true)
        case .markDirect(let target, let rows):
            let connection = senders[sender].machine.connectionNumber(on: .direct(target))
            senders[sender].writes.append(.markDirect(target, rows, connection: connection))
        case .offer(let id): offer(id, sender)
        case .settle(let id, let target):
            let key = CommandKey(sender: senders[sender].id, id: id)
            let isLost = journals[senders[sender].journal].stored[id] == nil && history.lostBySender.contains(key)
            if journals[senders[sender].journal].stored[id]?.isEnded != true, !isLost { violations.append("settled, not stored") }
            if let target = targets.firstIndex(where: { $0.id == target }) {
                transmit(Pair(sender: sender, target: target), .settledDirectly(key), up: true)
            }
        case .cancel(let id): transmit(sender, epoch, .cancel(id), up: true)
        case .acknowledge(let id):
            // The end of a command that the restored journal does not know has no reader, and the relay may delete it.
            let isLost =
                journals[senders[sender].journal].stored[id] == nil
                && history.lostBySender.contains(CommandKey(sender: senders[sender].id, id: id))
            if journals[senders[sender].journal].stored[id]?.isEnded != true, !isLost { violations.append("acknowledged, not stored") }
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

    private mutating func offer(_ id: CommandID, _ sender: Int) {
        guard let stored = journals[senders[sender].journal].stored[id], let row = senders[sender].machine[id] else {
            return violations.append("offered, not stored")
        }
        if !stored.isDirect, !stored.isEnded { violations.append("offered, and stored as if the target did not have it") }
        guard let target = targets.firstIndex(where: { $0.id == row.command.lane.target }) else { return }
        let wasReceived = row.state == .accepted(.delivered)
        transmit(
            Pair(sender: sender, target: target),
            .offerDirectly(stored.command, wasReceived: wasReceived, isCancelled: row.cancelRequested),
            up: true
        )
    }

    /// Only committed states may be reported.
    private mutating func checkReport(_ row: SentCommand, _ sender: Int) {
        let key = row.command.key
        guard let stored = journals[senders[sender].journal].stored[row.command.id] else {
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
        case .insert(let id, let lane, let life, let isConnected, let isDirect):
            let number = nextNumber(sender, lane)
            var (row, _) = SentCommand.prepare(signed(sender, id, lane, number) { $0 + life }, isConnected: isConnected)
            let hasOthers = journals[senders[sender].journal].stored.values.contains { $0.command.lane == lane && !$0.isEnded }
            if isDirect, !hasOthers, let marked = row.markedDirect { row = marked }
            insert(row, sender)
            senders[sender].news.append(.inserted(row))
        case .commit(let rows):
            let superseded = rows.filter { !store($0, sender) }.compactMap { journals[senders[sender].journal].stored[$0.command.id] }
            senders[sender].news.append(.committed(superseded: superseded))
        case .markDirect(let target, let rows, let connection):
            for row in rows { _ = store(row, sender) }
            var marked: [SentCommand] = []
            for (id, row) in journals[senders[sender].journal].stored where row.command.lane.target == target {
                guard let direct = row.markedDirect else { continue }
                journals[senders[sender].journal].stored[id] = direct
                marked.append(direct)
            }
            marked.sort { $0.command.id < $1.command.id }
            senders[sender].news.append(.marked(target, marked, ended: watched(sender), connection: connection))
        case .load(let rows, let connection):
            for row in rows { _ = store(row, sender) }
            let open = journals[senders[sender].journal].stored.values.filter { !$0.isEnded }.sorted { $0.command.id < $1.command.id }
            senders[sender].news.append(.loaded(open, ended: watched(sender), connection: connection))
        }
    }

    /// The ended commands that the app of a process watches.
    private func watched(_ sender: Int) -> [SentCommand] {
        let rows = journals[senders[sender].journal].stored.values.filter { $0.isEnded && senders[sender].machine[$0.command.id] != nil }
        return rows.sorted { $0.command.id < $1.command.id }
    }

    /// The journal tells of a commit.
    mutating func tellSender(_ sender: Int) {
        guard !senders[sender].news.isEmpty else { return }
        switch senders[sender].news.removeFirst() {
        case .inserted(let row):
            let command = row.command
            let others = journals[senders[sender].journal].stored.values.filter { other in
                guard other.command.lane == command.lane, other.command.number < command.number else { return false }
                return other.state == .prepared || other.state == .sent
            }
            senders[sender].machine.add(row, behind: others.sorted { $0.command.number < $1.command.number })
        case .committed(let superseded): senders[sender].machine.committed(superseded: superseded)
        case .marked(let target, let rows, let ended, let connection):
            senders[sender].machine.marked(rows, ended: ended, directlyTo: target, for: connection)
        case .loaded(let open, let ended, let connection): senders[sender].machine.loaded(open, ended: ended, for: connection)
        }
    }

    /// The disk is full: data that is not stored is lost, as by a crash.
    mutating func failAtSender(_ sender: Int) {
        guard !senders[sender].writes.isEmpty else { return }
        if case .insert = senders[sender].writes.removeFirst() { return }
        senders[sender].machine.failed()
        senders[sender].marked = [:]
        disconnect(sender)
        for pair in direct.keys.sorted() where pair.sender == sender { disconnectDirectly(pair) }
    }

    private mutating func insert(_ row: SentCommand, _ sender: Int) {
        checkCommit(row, after: nil)
        put(row, sender)
    }

    private mutating func put(_ row: SentCommand, _ sender: Int) {
        journals[senders[sender].journal].stored[row.command.id] = row.stored
        let highest = journals[senders[sender].journal].storedNumbers[row.command.lane] ?? 0
        journals[senders[sender].journal].storedNumbers[row.command.lane] = max(highest, row.command.number)
    }

    /// - Returns: False if another process has changed the row meanwhile.
    private mutating func store(_ row: SentCommand, _ sender: Int) -> Bool {
        guard let old = journals[senders[sender].journal].stored[row.command.id], !old.isEnded else { return false }
        if old.command.digest != row.command.digest {
            // Signed again.
            guard row.signings == old.signings, old.state == .prepared else { return false }
        }
        guard row.mayReplace(old) else { return false }
        checkCommit(row, after: old)
        let marked = row.isEnded || !old.isDirect ? row : row.markedDirect ?? row
        put(marked.markedShared(like: old), sender)
        return true
    }

    /// Puts the copy of the journal in place.
    mutating func restoreSender(_ sender: Int) {
        let backup = journals[senders[sender].journal].backup
        for (id, row) in journals[senders[sender].journal].stored where backup.stored[id] == nil {
            history.lostBySender.insert(row.command.key)
        }
        (journals[senders[sender].journal].stored, journals[senders[sender].journal].storedNumbers) = (backup.stored, backup.storedNumbers)
        for row in backup.stored.values where !row.isEnded {
            let key = row.command.key
            history.reopened.insert(key)
            // Its end is lost with the state.
            history.reportedNotRun.remove(key)
            if case .accepted = row.state { continue }
            history.accepted.remove(key)
        }
        noteUnconfirmed()
    }

    mutating func crashSender(_ sender: Int) {
        senders[sender].machine = OutboxMachine()
        senders[sender].writes = []
        senders[sender].news = []
        senders[sender].marked = [:]
    }
}
