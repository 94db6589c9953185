// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

@testable import RelayProtocol

/// MARK: - Targets
extension CommandWorld {
    func clock(_ target: Int) -> TargetClock {
        let own = now + targets[target].skew
        return TargetClock(own: own, relay: own + targets[target].offset)
    }

    mutating func arriveAtTarget(_ frame: Frame, _ target: Int) {
        switch frame {
        case .offer(let command):
            let check: CommandCheck = command.number % refusesEvery == 0 ? .refused(.failed(reason: "refused")) : .valid
            if check != .valid { history.answers[command.key] = .failed(reason: "refused") }
            perform(target, targets[target].machine.offered(command, check: check, clock(target)))
        case .requestCancel(let key): perform(target, targets[target].machine.cancelled(key))
        case .settled(let key): perform(target, targets[target].machine.settled(key))
        default: violations.append("a target got \(frame)")
        }
    }

    mutating func perform(_ target: Int, _ actions: [CommandTarget.Action]) {
        let link = senders.count + target
        let epoch = links[link].epoch
        for action in actions {
            let task: Task? =
                switch action {
                case .persist(let row, let highest, _): .persistTarget(row, highest: highest)
                case .note(let row, _): .noteTarget(row)
                case .remove(let key): .removeTarget(key)
                case .removeLane: nil
                case .sendReceived(let key): .frame(link: link, epoch: epoch, .received(key))
                case .sendResult(let key): .sendResult(key, epoch: epoch)
                case .sendUnstoredResult(let command, let outcome):
                    .frame(link: link, epoch: epoch, CommandWorld.result(command, outcome))
                case .handle(let command): .handle(command, decidedAt: now)
                case .stopHandler(let key): .stopHandler(key)
                case .disconnect: .disconnect
                case .extendTime, .tellCancelled: nil
                }
            if let task { targets[target].queue.append(task) }
        }
    }

    mutating func answer(_ target: Int, _ key: CommandKey, _ outcome: CommandOutcome) {
        targets[target].handlers.removeAll { $0.key == key }
        history.answers[key] = outcome
        perform(target, targets[target].machine.handlerEnded(key, outcome, reply: nil, clock(target)))
    }

    mutating func workAtTarget(_ target: Int) {
        guard !targets[target].queue.isEmpty else { return }
        switch targets[target].queue.removeFirst() {
        case .persistTarget(let row, let highest):
            // The same write also performs pending removals, before the row is stored.
            if row.command.number.isMultiple(of: 2) || targets[target].removals.contains(row.command.key) { removeSettled(target) }
            store(row, target)
            if let highest { targets[target].storedHighest[row.command.lane] = highest }
        case .noteTarget(let row):
            // Without a connection nothing is in flight.
            if links[senders.count + target].isUp { targets[target].noted[row.command.key] = row } else { store(row, target) }
        case .removeTarget(let key):
            targets[target].noted[key] = nil
            targets[target].removals.append(key)
        case .sendResult(let key, let epoch):
            // It was settled while the message waited.
            guard var row = targets[target].noted[key] ?? targets[target].stored[key], !targets[target].removals.contains(key) else {
                return
            }
            if row.state == .handling, case .noteTarget(let next) = targets[target].queue.first, next.command.key == key { row = next }
            guard case .answered(let outcome) = row.state else { return violations.append("sent a result before its time") }
            transmit(senders.count + target, epoch, CommandWorld.result(row.command, outcome), up: true)
        case .frame(let link, let epoch, let frame):
            if case .received(let key) = frame, targets[target].stored[key] == nil { violations.append("received, not stored") }
            transmit(link, epoch, frame, up: true)
        case .handle(let command, let decidedAt): handle(command, decidedAt, target)
        case .stopHandler(let key): targets[target].handlers.removeAll { $0.key == key }
        case .disconnect: disconnect(senders.count + target)
        case let task: violations.append("a target has \(task)")
        }
    }

    private mutating func store(_ row: CommandTarget.Row, _ target: Int) {
        targets[target].stored[row.command.key] = row
        if row.state != .received { history.begun.insert(row.command.key) }
        if case .answered(let outcome) = row.state { history.results[row.command.key] = outcome }
    }

    mutating func storeTheRest(_ target: Int) {
        removeSettled(target)
        for row in targets[target].noted.values { store(row, target) }
        targets[target].noted = [:]
    }

    mutating func removeSettled(_ target: Int) {
        for key in targets[target].removals { targets[target].stored[key] = nil }
        targets[target].removals = []
    }
}
