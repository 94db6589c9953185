// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

@testable import RelayProtocol

/// MARK: - Senders
extension CommandWorld {
    mutating func submit(_ sender: Int, _ lane: CommandLane, _ life: Int64) {
        let number = nextNumber(sender, lane)
        let command = signed(sender, ids.next(), lane, number, life)
        let (row, actions) = SentCommand.prepare(command, isConnected: senders[sender].sending != nil)
        senders[sender].rows[command.id] = row
        perform(sender, row, actions)
        if senders[sender].sending?.add(command) ?? false { change(sender, command.id) { $0.connected() } }
    }

    mutating func nextNumber(_ sender: Int, _ lane: CommandLane) -> UInt64 {
        senders[sender].numbers[lane, default: 0] += 1
        return senders[sender].numbers[lane] ?? 0
    }

    func signed(_ sender: Int, _ id: CommandID, _ lane: CommandLane, _ number: UInt64, _ life: Int64) -> CommandDescriptor {
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

    mutating func change(_ sender: Int, _ id: CommandID, _ input: (inout SentCommand) -> [SentCommand.Action]) {
        guard var row = senders[sender].rows[id] else { return }
        let actions = input(&row)
        senders[sender].rows[id] = row
        perform(sender, row, actions)
    }

    mutating func perform(_ sender: Int, _ row: SentCommand, _ actions: [SentCommand.Action]) {
        func frame(_ frame: Frame) -> Task { .frame(link: sender, epoch: links[sender].epoch, frame) }
        for action in actions {
            switch action {
            case .persist(let row): senders[sender].queue.append(.persist(row))
            case .note(let row): senders[sender].queue.append(.note(row))
            case .send(let again): senders[sender].queue.append(frame(.send(row.command, again: again)))
            case .cancel: senders[sender].queue.append(frame(.cancel(row.command.id)))
            case .acknowledge: senders[sender].queue.append(frame(.acknowledge(row.command.id)))
            case .signAnew: senders[sender].queue.append(.signAnew(row.command.id))
            case .answered:
                if let next = senders[sender].sending?.answered(row.command) { change(sender, next) { $0.connected() } }
            case .report(let report): senders[sender].queue.append(.report(row.command.id, report))
            case .retryLater, .reject: break
            }
        }
    }

    mutating func arriveAtSender(_ frame: Frame, _ sender: Int) {
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

    mutating func workAtSender(_ sender: Int) {
        guard !senders[sender].queue.isEmpty else { return }
        switch senders[sender].queue.removeFirst() {
        case .persist(let row):
            senders[sender].noted[row.command.id] = nil
            store(row, sender)
            // The same write may store pending rows, too.
            if row.command.number.isMultiple(of: 2) { storeNoted(sender) }
        case .note(let row): senders[sender].noted[row.command.id] = row
        case .signAnew(let id):
            guard let old = senders[sender].rows[id]?.command else { return }
            let command = signed(sender, id, old.lane, old.number, old.expires - old.created)
            let isCurrent = senders[sender].sending?.isCurrent(command) ?? false
            change(sender, id) { $0.signedAnew(command, sending: isCurrent) }
        case .report(let id, let report):
            // Only committed states may be reported.
            guard let row = senders[sender].stored[id] else { return violations.append("told of what is not stored: \(report)") }
            switch (report, row.state) {
            case (.status(.final(let outcome, _)), .final(let final)) where outcome == final.outcome: break
            case (.status(.final), _), (.withdrawn, .sent), (.withdrawn, .accepted): violations.append("told, not stored: \(report)")
            case (.status, _): history.accepted.insert(CommandKey(sender: senders[sender].id, id: id))
            default: break
            }
        case .frame(_, let epoch, let frame): transmit(sender, epoch, frame, up: true)
        case let task: violations.append("a sender has \(task)")
        }
    }

    private mutating func store(_ row: SentCommand, _ sender: Int) {
        checkCommit(row, after: senders[sender].stored[row.command.id])
        senders[sender].stored[row.command.id] = row.stored
        senders[sender].storedNumbers[row.command.lane] = max(
            senders[sender].storedNumbers[row.command.lane] ?? 0,
            row.command.number
        )
    }

    mutating func storeNoted(_ sender: Int) {
        for row in senders[sender].noted.values.sorted(by: { $0.command.id < $1.command.id }) { store(row, sender) }
        senders[sender].noted = [:]
    }
}
