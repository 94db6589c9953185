// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

@testable import RelayProtocol

/// The targets: an `InboxMachine` each, and the journal that its owner writes to.
extension CommandWorld {
    func clock(_ target: Int) -> TargetClock {
        let own = now + targets[target].skew
        return TargetClock(own: own, relay: own + targets[target].offset)
    }

    mutating func arriveAtTarget(_ frame: Frame, _ target: Int, from process: Int? = nil) {
        switch frame {
        case .offerDirectly(let command, let wasReceived, let isCancelled):
            targets[target].offeredBy[command.key] = process
            let path = CommandPath.direct(command.lane.sender)
            targets[target].machine.offered(
                command,
                check: check(command),
                wasReceived: wasReceived,
                isCancelled: isCancelled,
                on: path,
                clock(target)
            )
        case .settledDirectly(let key): targets[target].machine.settled(key, isKept: true, on: .direct(key.sender))
        case .offer(let command, let wasReceived):
            let check = check(command)
            targets[target].machine.offered(command, check: check, wasReceived: wasReceived, clock(target))
        case .requestCancel(let key): targets[target].machine.cancelled(key)
        case .settled(let key): targets[target].machine.settled(key, isKept: hasPaths)
        default: violations.append("a target got \(frame)")
        }
    }

    /// The owner's check.
    private mutating func check(_ command: CommandDescriptor) -> CommandCheck {
        let isRefused = command.number % refusesEvery == 0 && history.refusedByCheck.insert(command.digest).inserted
        guard isRefused else { return .valid }
        history.answers[command.key, default: []].insert(.failed(reason: "refused"))
        return .refused(.failed(reason: "refused"))
    }

    mutating func answer(_ target: Int, _ key: CommandKey, _ outcome: CommandOutcome) {
        targets[target].handlers.removeAll { $0.key == key }
        history.answers[key, default: []].insert(outcome)
        targets[target].machine.handlerEnded(key, outcome, reply: nil, clock(target))
    }

    mutating func timeOut(_ target: Int, _ key: CommandKey) {
        history.timedOut.insert(key)
        targets[target].machine.handlerTimedOut(key, clock(target))
    }

    /// The target's owner carries out one action.
    mutating func workAtTarget(_ target: Int) {
        guard targets[target].commit == nil, let action = targets[target].machine.next(now: now, clock(target)) else { return }
        let link = senders.count + target
        let epoch = links[link].epoch
        switch action {
        case .commit(let commit): targets[target].commit = commit
        case .sendReceived(let key, let path):
            if targets[target].stored[key] == nil { violations.append("received, not stored") }
            if path == .relay {
                transmit(link, epoch, .received(key), up: true)
            } else {
                sendDirectly(.receivedDirectly(key.id), of: key, target)
            }
        case .sendResult(let key, let unwritten, let path):
            guard let row = unwritten?.row ?? targets[target].stored[key], let outcome = row.outcome else {
                return violations.append("sent a result that is not there")
            }
            if targets[target].stored[key] == nil || targets[target].stored[key]?.state == .received {
                violations.append("sent a result that a crash turns into another handling")
            }
            sendResult(row.command, outcome, nil, on: path, target)
        case .sendUnstoredResult(let command, let outcome, let highest, let path):
            // A journal that goes back no longer knows that the number had passed.
            if highest != nil, history.taken[command.key] == nil { history.taken[command.key] = command }
            sendResult(command, outcome, highest, on: path, target)
        case .handle(let command): handle(command, target)
        case .stopHandler(let key): targets[target].handlers.removeAll { $0.key == key }
        case .disconnect: disconnect(link)
        case .extendTime, .tellCancelled, .retryLater, .postpone: break
        }
    }

    private mutating func sendResult(
        _ command: CommandDescriptor,
        _ outcome: CommandOutcome,
        _ highest: UInt64?,
        on path: CommandPath,
        _ target: Int
    ) {
        history.answered.insert(command.digest)
        let link = senders.count + target
        let result = CommandWorld.result(command, outcome, highest)
        guard path != .relay, case .result(let key, _, let final) = result else {
            return transmit(link, links[link].epoch, result, up: true)
        }
        sendDirectly(.resultDirectly(key, final), of: key, target)
    }

    /// To the process that has offered the command, or to another one of the sender.
    private mutating func sendDirectly(_ frame: Frame, of key: CommandKey, _ target: Int) {
        let open = direct.keys.sorted().filter { $0.target == target && senders[$0.sender].id == key.sender && direct[$0]?.isUp ?? false }
        let pair = open.first { $0.sender == targets[target].offeredBy[key] } ?? open.first
        if let pair { transmit(pair, frame, up: false) }
    }

    // MARK: The journal

    /// The commit is made. Its completion is another step.
    mutating func storeAtTarget(_ target: Int) {
        guard let commit = targets[target].commit, !targets[target].isCommitted else { return }
        for key in commit.removals { targets[target].stored[key] = nil }
        for lane in commit.lanes { targets[target].storedPositions[lane] = nil }
        for write in commit.writes { store(write, target) }
        targets[target].isCommitted = true
    }

    mutating func tellTarget(_ target: Int) {
        guard targets[target].isCommitted else { return }
        (targets[target].commit, targets[target].isCommitted) = (nil, false)
        targets[target].machine.committed()
    }

    /// The disk is full: nothing is promised until it is not.
    mutating func failAtTarget(_ target: Int) {
        guard let commit = targets[target].commit, !targets[target].isCommitted else { return }
        targets[target].commit = nil
        targets[target].machine.failed(.commit(commit))
        disconnect(senders.count + target)
        for pair in direct.keys.sorted() where pair.target == target { disconnectDirectly(pair) }
    }

    private mutating func store(_ write: InboxMachine.Write, _ target: Int) {
        let row = write.row
        if let highest = write.highest {
            var position = targets[target].storedPositions[row.command.lane] ?? .init(number: highest, latest: row.command.id)
            position.number = max(position.number, highest)
            position.latest = max(position.latest, row.command.id)
            targets[target].storedPositions[row.command.lane] = position
        }
        // Only the first path is stored.
        var known = row
        known.paths = targets[target].stored[row.command.key]?.paths ?? row.paths
        targets[target].stored[row.command.key] = known
        history.taken[row.command.key] = row.command
        if row.state != .received { history.begun.insert(row.command.key) }
        if let outcome = row.outcome { history.results[row.command.key] = outcome }
    }

    /// A target had these commands, its restored journal does not know them, and who may offer them has no confirmation, or none any more.
    mutating func noteUnconfirmed() {
        for key in history.lostByTarget {
            switch relay.rows[key]?.state {
            case .final, .offered(received: true, _): continue
            case .stored, .offered(received: false, _):
                history.unconfirmed.insert(key)
                continue
            case nil: break
            }
            let sent = journals.lazy.compactMap { $0.stored[key.id] }.first { $0.command.key == key }
            if let sent, !sent.isEnded, sent.state != .accepted(.delivered) { history.unconfirmed.insert(key) }
        }
    }

    /// Puts the copy of the journal in place.
    mutating func restoreTarget(_ target: Int) {
        let backup = targets[target].backup
        (targets[target].stored, targets[target].storedPositions) = (backup.stored, backup.storedPositions)
        for (key, command) in history.taken where command.lane.target == targets[target].id {
            let isKnown = backup.storedPositions[command.lane].map { command.number <= $0.number } ?? false
            guard backup.stored[key]?.state != .handling, !isKnown || backup.stored[key] != nil else { continue }
            history.lostByTarget.insert(key)
            // It waits in the copy, so it runs without an offer.
            if backup.stored[key]?.state == .received { history.unconfirmed.insert(key) }
        }
        noteUnconfirmed()
        // The order of a lane holds from the restored position on: its sender may have gone back, too, to lower numbers.
        for (lane, last) in history.lastHandled where lane.target == targets[target].id {
            history.lastHandled[lane] = backup.storedPositions[lane].map { min($0.number, last) }
        }
    }

    mutating func crashTarget(_ target: Int) {
        (targets[target].commit, targets[target].isCommitted) = (nil, false)
        targets[target].handlers = []
        targets[target].offeredBy = [:]
        targets[target].machine = InboxMachine(
            CommandTarget(
                limits: limits,
                positions: targets[target].storedPositions,
                rows: Array(targets[target].stored.values)
            )
        )
        targets[target].machine.start(clock(target))
    }
}
