// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

@testable import RelayProtocol

/// MARK: - Relay
extension CommandWorld {
    mutating func arriveAtRelay(_ frame: Frame, _ link: Int, _ epoch: Int) {
        switch frame {
        case .send(let command, let history): arrive(command, history, link, epoch)
        case .cancel(let id): changeMailbox(CommandKey(sender: senders[link].id, id: id)) { $0.cancel(now: $1) }
        case .acknowledge(let id): changeMailbox(CommandKey(sender: senders[link].id, id: id)) { row, _ in row.acknowledged() }
        case .received(let key): changeMailbox(key) { row, _ in row.received() }
        case .result(let key, let digest, let final):
            if relay.rows[key] != nil {
                changeMailbox(key) { $0.ended(final, digest: digest, now: $1) }
            } else if CommandAdmission(limits: limits, databaseBegan: relay.began).settlesUnknownResult(now: now) {
                relay.queue.append(.frame(link: link, epoch: epoch, .settled(key)))
            }
        default: violations.append("the relay got \(frame)")
        }
    }

    private mutating func arrive(_ command: CommandDescriptor, _ history: CommandHistory, _ link: Int, _ epoch: Int) {
        guard let target = targets.firstIndex(where: { $0.id == command.lane.target }) else { return }
        let known = relay.rows[command.key]
        let isReopened = history.isOffered && known?.isReopened(by: command) ?? false
        if var known, !isReopened, !command.replaces(known.command) {
            let elsewhere = history.isOffered ? known.offeredElsewhere(command, isReceived: history == .received) : []
            let actions = elsewhere + known.sentAgain(command)
            relay.rows[command.key] = known
            return perform(command, actions, answering: link)
        }
        let mailbox = relay.rows.values.filter { $0.command.lane.target == command.lane.target && !$0.isFinal }
        let waiting = relay.rows.values.filter { $0.command.lane.sender == command.lane.sender && $0.isFinal }
        let inLane = relay.rows.values.filter { $0.command.lane == command.lane }
        do throws(CommandRejection) {
            let inDoubt = try CommandAdmission(limits: limits, databaseBegan: relay.began).check(
                command,
                again: history != .new,
                offered: history.isOffered,
                now: now,
                targetIsKnown: !targets[target].isRevoked,
                targetIsRevoked: targets[target].isRevoked,
                highestNumber: inLane.map(\.command.number).max(),
                mailbox: MailboxUse(commands: mailbox.count, bytes: mailbox.reduce(0) { $0 + $1.command.size }),
                repliesWaiting: MailboxUse(commands: waiting.count, bytes: 0)
            )
            if let known {
                relay.queue.append(.removeMailbox(command.key))
                relay.deliveries[target]?.answered(known.command)
            }
            let (row, actions) = MailboxCommand.store(command, inDoubt: inDoubt, isReceived: history == .received)
            relay.rows[command.key] = row
            perform(command, actions, answering: link)
            relay.deliveries[target]?.add(command)
            offerNext(target)
        } catch {
            if let known { return perform(command, known.sentAgain(command, refusedFor: error), answering: link) }
            relay.queue.append(.frame(link: link, epoch: epoch, .refused(command.id, command.digest, error)))
        }
    }

    mutating func changeMailbox(_ key: CommandKey, _ input: (inout MailboxCommand, Int64) -> [MailboxCommand.Action]) {
        guard var row = relay.rows[key] else { return }
        let actions = input(&row, now)
        relay.rows[key] = row
        perform(row.command, actions)
    }

    mutating func offerNext(_ target: Int) {
        while let key = relay.deliveries[target]?.next() { changeMailbox(key) { $0.offer(now: $1) } }
    }

    /// - Parameter link: The process whose request is answered. All processes of the sender learn of everything else.
    mutating func perform(_ command: CommandDescriptor, _ actions: [MailboxCommand.Action], answering link: Int? = nil) {
        guard let target = targets.firstIndex(where: { $0.id == command.lane.target }) else { return }
        let processes = senders.indices.filter { senders[$0].id == command.lane.sender }
        func toSender(_ frame: Frame) -> [Task] {
            processes.filter { link == nil || !frame.isAnswer || $0 == link }.map { .frame(link: $0, epoch: links[$0].epoch, frame) }
        }
        func toTarget(_ frame: Frame) -> Task {
            .frame(link: senders.count + target, epoch: links[senders.count + target].epoch, frame)
        }
        for action in actions {
            switch action {
            case .persist(let row): relay.queue.append(.persistMailbox(row))
            case .note: break
            case .remove:
                relay.rows[command.key] = nil
                relay.queue.append(.removeMailbox(command.key))
            case .accept: relay.queue += toSender(.accepted(command.id, command.digest))
            case .refuse(let rejection): relay.queue += toSender(.refused(command.id, command.digest, rejection))
            case .progress(let progress): relay.queue += toSender(.progress(command.id, progress))
            case .final(let final):
                if final.attestedBy == .relay { history.endedByRelay.insert(command.key) }
                relay.queue += toSender(.final(command.id, final))
            case .offer(let wasReceived): relay.queue.append(toTarget(.offer(command, wasReceived: wasReceived)))
            case .requestCancel: relay.queue.append(toTarget(.requestCancel(command.key)))
            case .settle: relay.queue.append(toTarget(.settled(command.key)))
            case .answered:
                relay.deliveries[target]?.answered(command)
                offerNext(target)
            }
        }
    }

    mutating func workAtRelay() {
        guard !relay.queue.isEmpty else { return }
        switch relay.queue.removeFirst() {
        case .persistMailbox(let row):
            relay.stored[row.command.key] = row
            // If this is lost before the sender gets it, the target can only report that the command may have run.
            if row.isFinal { history.begun.insert(row.command.key) }
        case .removeMailbox(let key): relay.stored[key] = nil
        case .frame(let link, let epoch, let frame):
            if case .accepted(let id, _) = frame {
                let key = CommandKey(sender: senders[link].id, id: id)
                if relay.stored[key] == nil { violations.append("accepted, not stored") }
            }
            transmit(link, epoch, frame, up: false)
        case let task: violations.append("the relay has \(task)")
        }
    }
}
