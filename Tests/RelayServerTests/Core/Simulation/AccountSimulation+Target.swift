// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

@testable import RelayServer

/// The target: an `InboxMachine`, and the journal that its owner writes to.
extension AccountSimulation {
    struct Target {
        let device: TestDevice
        let skew: Int64
        var offset: Int64 = 0
        var machine = InboxMachine(CommandTarget())
        // The journal.
        var rows: [CommandKey: CommandTarget.Row] = [:]
        var positions: [CommandLane: CommandTarget.LanePosition] = [:]
        /// A copy of the journal.
        private(set) var copy = Copy()
        struct Copy {
            var rows: [CommandKey: CommandTarget.Row] = [:]
            var positions: [CommandLane: CommandTarget.LanePosition] = [:]
        }
        /// Given to the journal.
        var write: InboxMachine.Commit?
        /// It is on disk, and not reported.
        var isCommitted = false
        var handlers: [CommandDescriptor] = []

        init(device: TestDevice, skew: Int64) { (self.device, self.skew) = (device, skew) }

        mutating func backUp() { copy = Copy(rows: rows, positions: positions) }

        mutating func restore() { (rows, positions) = (copy.rows, copy.positions) }

        var progress: Progress {
            let acts = machine.hasWork
            let flushes = machine.hasUnwritten && !acts && write == nil
            return Progress(acts: acts, commits: write != nil && !isCommitted, reports: isCommitted, flushes: flushes)
        }

        /// Whether the target still sends the stored result until it is settled.
        func keepsResult(of key: CommandKey) -> Bool {
            guard let row = rows[key], case .answered = row.state else { return false }
            return machine.knows(row.command)
        }
    }

    private var targetNode: Int { senders.count }

    private var clock: TargetClock {
        let own = now + target.skew
        return TargetClock(own: own, relay: own + target.offset)
    }

    mutating func readAtTarget(_ message: RelayMessage) throws {
        switch message {
        case .command(let offer):
            let command = try SealedCommand(decoding: offer.command.bytes)
            target.machine.offered(command.descriptor, check: try check(command), wasReceived: offer.wasReceived, clock)
        case .commandCancel(let message): target.machine.cancelled(CommandKey(sender: message.sender, id: message.id))
        case .commandSettled(let message): target.machine.settled(CommandKey(sender: message.sender, id: message.id))
        case .commandStatus: history.violations.append("a target got a message for senders")
        default: break
        }
    }

    private mutating func check(_ command: SealedCommand) throws -> CommandCheck {
        guard let sender = senders.first(where: { $0.device.id == command.header.sender }) else { return .unverifiable }
        let recipient = SealedCommand.Recipient(account: world.account.rawValue, relay: world.relayID, endpoint: target.device.id)
        do throws(CommandError) {
            let record: EndpointRecord
            do { record = try sender.device.record(world.account.rawValue).payload } catch { return .unverifiable }
            try command.verify(for: recipient, from: record, now: .min)
            return .valid
        } catch {
            history.violations.append("the relay changed a command: \(error)")
            return .forged(reason: "forged")
        }
    }

    mutating func answer(_ key: CommandKey, _ outcome: CommandOutcome) {
        target.handlers.removeAll { $0.key == key }
        history.answers[key, default: []].insert(outcome)
        target.machine.handlerEnded(key, outcome, reply: nil, clock)
    }

    mutating func timeOut(_ key: CommandKey) {
        history.timedOut.insert(key)
        target.machine.handlerTimedOut(key, clock)
    }

    // MARK: Actions

    mutating func actAtTarget() throws {
        guard target.write == nil, let action = target.machine.next(now: now, clock) else { return }
        switch action {
        case .commit(let commit): target.write = commit
        case .sendReceived(let key, _):
            if target.rows[key] == nil { history.violations.append("received, not stored") }
            send(.commandReceived(.init(sender: key.sender, id: key.id)), from: targetNode)
        case .sendResult(let key, let unwritten, _):
            guard let row = unwritten?.row ?? target.rows[key], case .answered(let outcome) = row.state else {
                return history.violations.append("sent a result that is not there")
            }
            if target.rows[key] == nil || target.rows[key]?.state == .received {
                history.violations.append("sent a result that a crash turns into another handling")
            }
            try sendResult(row.command, outcome)
        case .sendUnstoredResult(let command, let outcome, let highest, _):
            // A journal that goes back no longer knows that the number had passed.
            if highest != nil, history.taken[command.key] == nil { history.taken[command.key] = command }
            try sendResult(command, outcome, highest)
        case .handle(let command): handle(command)
        case .stopHandler(let key): target.handlers.removeAll { $0.key == key }
        case .disconnect: disconnect(targetNode)
        case .extendTime, .tellCancelled, .retryLater: break
        case .postpone: history.violations.append("an answer on a direct session that is not there")
        }
    }

    private mutating func sendResult(_ command: CommandDescriptor, _ outcome: CommandOutcome, _ highest: UInt64? = nil) throws {
        history.answered.insert(command.digest)
        send(try world.result(of: command, outcome, highest: highest, by: target.device, ref: nextRef()), from: targetNode)
    }

    // MARK: The journal

    mutating func commitAtTarget() {
        guard let commit = target.write, !target.isCommitted else { return }
        for key in commit.removals { target.rows[key] = nil }
        for lane in commit.lanes { target.positions[lane] = nil }
        for write in commit.writes {
            let row = write.row
            if let highest = write.highest {
                var position = target.positions[row.command.lane] ?? .init(number: highest, latest: row.command.id)
                position.number = max(position.number, highest)
                position.latest = max(position.latest, row.command.id)
                target.positions[row.command.lane] = position
            }
            history.taken[row.command.key] = row.command
            target.rows[row.command.key] = row
            if row.state != .received { history.begun.insert(row.command.key) }
            if case .answered(let outcome) = row.state { history.results[row.command.key] = outcome }
        }
        target.isCommitted = true
    }

    mutating func reportToTarget() {
        guard target.isCommitted else { return }
        (target.write, target.isCommitted) = (nil, false)
        target.machine.committed()
    }

    /// The disk is full: the write waits until it is not.
    mutating func failAtTarget() {
        guard let commit = target.write, !target.isCommitted else { return }
        target.write = nil
        target.machine.failed(.commit(commit))
        disconnect(targetNode)
    }

    /// Puts the copy of the journal in place.
    mutating func restoreTarget() {
        target.restore()
        for (key, command) in history.taken {
            let isKnown = target.positions[command.lane].map { command.number <= $0.number } ?? false
            guard target.rows[key]?.state != .handling, !isKnown || target.rows[key] != nil else { continue }
            history.lostByTarget.insert(key)
        }
        // The order of a lane holds from the restored position on: its sender may have gone back, too, to lower numbers.
        for (lane, last) in history.lastHandled {
            history.lastHandled[lane] = target.positions[lane].map { min($0.number, last) }
        }
    }

    mutating func crashTarget() {
        (target.write, target.isCommitted) = (nil, false)
        target.handlers = []
        target.machine = InboxMachine(CommandTarget(positions: target.positions, rows: Array(target.rows.values)))
        target.machine.start(clock)
    }
}
