// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

@testable import RelayProtocol

/// The targets: an `InboxMachine` each, and the journal that its owner writes to.
extension CommandWorld {
    func clock(_ target: Int) -> TargetClock {
        let own = now + targets[target].skew
        return TargetClock(own: own, relay: own + targets[target].offset)
    }

    mutating func arriveAtTarget(_ frame: Frame, _ target: Int) {
        switch frame {
        case .offer(let command):
            let isRefused = command.number % refusesEvery == 0 && history.refusedByCheck.insert(command.digest).inserted
            let check: CommandCheck = isRefused ? .refused(.failed(reason: "refused")) : .valid
            if isRefused { history.answers[command.key] = .failed(reason: "refused") }
            targets[target].machine.offered(command, check: check, clock(target))
        case .requestCancel(let key): targets[target].machine.cancelled(key)
        case .settled(let key): targets[target].machine.settled(key)
        default: violations.append("a target got \(frame)")
        }
    }

    mutating func answer(_ target: Int, _ key: CommandKey, _ outcome: CommandOutcome) {
        targets[target].handlers.removeAll { $0.key == key }
        history.answers[key] = outcome
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
        case .sendReceived(let key):
            if targets[target].stored[key] == nil { violations.append("received, not stored") }
            transmit(link, epoch, .received(key), up: true)
        case .sendResult(let key, let unwritten):
            guard let row = unwritten?.row ?? targets[target].stored[key], case .answered(let outcome) = row.state else {
                return violations.append("sent a result that is not there")
            }
            if targets[target].stored[key] == nil || targets[target].stored[key]?.state == .received {
                violations.append("sent a result that a crash turns into another handling")
            }
            sendResult(row.command, outcome, link, epoch)
        case .sendUnstoredResult(let command, let outcome): sendResult(command, outcome, link, epoch)
        case .handle(let command): handle(command, target)
        case .stopHandler(let key): targets[target].handlers.removeAll { $0.key == key }
        case .disconnect: disconnect(link)
        case .extendTime, .tellCancelled: break
        }
    }

    private mutating func sendResult(_ command: CommandDescriptor, _ outcome: CommandOutcome, _ link: Int, _ epoch: Int) {
        history.answered.insert(command.digest)
        transmit(link, epoch, CommandWorld.result(command, outcome), up: true)
    }

    // MARK: The journal

    /// The commit is made. Its completion is another step.
    mutating func storeAtTarget(_ target: Int) {
        guard let commit = targets[target].commit, !targets[target].isCommitted else { return }
        for key in commit.removals { targets[target].stored[key] = nil }
        for lane in commit.lanes { targets[target].storedHighest[lane] = nil }
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
    }

    private mutating func store(_ write: InboxMachine.Write, _ target: Int) {
        let row = write.row
        if let highest = write.highest {
            targets[target].storedHighest[row.command.lane] = max(targets[target].storedHighest[row.command.lane] ?? 0, highest)
        }
        targets[target].stored[row.command.key] = row
        if row.state != .received { history.begun.insert(row.command.key) }
        if case .answered(let outcome) = row.state { history.results[row.command.key] = outcome }
    }

    mutating func crashTarget(_ target: Int) {
        (targets[target].commit, targets[target].isCommitted) = (nil, false)
        targets[target].handlers = []
        targets[target].machine = InboxMachine(
            CommandTarget(
                limits: limits,
                highestNumbers: targets[target].storedHighest,
                rows: Array(targets[target].stored.values)
            )
        )
        targets[target].machine.start(clock(target))
    }
}
