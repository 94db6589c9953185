// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

@Suite struct CommandTargetTests {
    private typealias Action = CommandTarget.Action
    private let clock = TargetClock(own: 1_000_000_001, relay: 1_000_000_001)
    private let late = TargetClock(own: 1_000_060_000, relay: 1_000_060_000)

    private func row(_ command: CommandDescriptor, _ state: CommandTarget.State) -> CommandTarget.Row {
        CommandTarget.Row(restoring: command, state: state)
    }

    /// The actions for a command that was not running. Its answer is persisted first: otherwise the command could run after a crash.
    private func answered(_ command: CommandDescriptor, _ outcome: CommandOutcome) -> [Action] {
        [.persist(row(command, .answered(outcome)), highest: nil, reply: nil), .sendResult(command.key)]
    }

    private func ended(_ command: CommandDescriptor, _ outcome: CommandOutcome, reply: [UInt8]? = nil) -> [Action] {
        [.sendResult(command.key), .note(row(command, .answered(outcome)), reply: reply)]
    }

    private func handled(_ command: CommandDescriptor) -> [Action] {
        [.persist(row(command, .handling), highest: nil, reply: nil), .handle(command)]
    }

    private func target(with commands: CommandDescriptor...) -> CommandTarget {
        var target = CommandTarget()
        for command in commands { _ = target.offered(command, check: .valid, clock) }
        return target
    }

    @Test func commandIsStoredThenHandledThenRemoved() {
        let command = CommandDescriptor.test(number: 3)
        var target = CommandTarget()
        // The handler starts at once, so one write stores both.
        let taken: [Action] = [
            .persist(row(command, .handling), highest: 3, reply: nil), .sendReceived(command.key), .handle(command),
        ]
        #expect(target.offered(command, check: .valid, clock) == taken)
        #expect(target.handlerEnded(command.key, .succeeded, reply: [1], clock) == ended(command, .succeeded, reply: [1]))
        #expect(target.settled(command.key) == [.remove(command.key)])
        #expect(target.settled(command.key) == [])
    }

    @Test func commandThatExpiresBeforeHandlingIsNotHandled() {
        let (command, next) = (CommandDescriptor.test(number: 1), CommandDescriptor.test(number: 2))
        var target = target(with: command, next)
        #expect(target.expiresBeforeHandling(command.key, clock) == nil)
        #expect(target.expiresBeforeHandling(next.key, late) == nil)
        #expect(target.expiresBeforeHandling(command.key, late) == ended(command, .expired) + answered(next, .expired))
        #expect(target.handlerEnded(command.key, .succeeded, reply: nil, late) == [])
    }

    @Test func knownCommandGetsTheStoredAnswer() {
        let command = CommandDescriptor.test(number: 1)
        var target = target(with: command)
        #expect(target.knows(command))
        #expect(target.offered(command, check: .valid, clock) == [.sendReceived(command.key)])
        _ = target.handlerEnded(command.key, .declined, reply: nil, clock)
        #expect(target.offered(command, check: .valid, clock) == [.sendResult(command.key)])
        #expect(target.connected() == [.sendResult(command.key)])
    }

    @Test func forgottenCommandNeverRunsAgain() {
        let command = CommandDescriptor.test(number: 5)
        var target = target(with: command)
        _ = target.handlerEnded(command.key, .succeeded, reply: nil, clock)
        _ = target.settled(command.key)
        for number: UInt64 in [4, 5] {
            let old = CommandDescriptor.test(number: number)
            #expect(target.offered(old, check: .valid, clock) == [.sendUnstoredResult(old, .indeterminate(.forgotten), highest: 5)])
        }
        #expect(target.offered(.test(number: 6), check: .valid, clock).count == 3)
    }

    @Test func otherBytesUnderAKnownIDNeverRun() {
        var target = target(with: .test(number: 1))
        let other = CommandDescriptor.test(number: 1, digest: [7, 7])
        #expect(!target.knows(other))
        #expect(target.offered(other, check: .valid, clock) == [.sendUnstoredResult(other, .indeterminate(.forgotten), highest: 1)])
    }

    /// Its sender's stored state has gone back: the number was used before, and the id is new.
    @Test func newCommandWithAPassedNumberCertainlyDidNotRun() {
        var target = target(with: .test(number: 5))
        let template = CommandDescriptor.test(number: 6)
        let behind = CommandDescriptor(
            id: template.id,
            lane: template.lane,
            number: 4,
            created: template.created,
            expires: template.expires,
            digest: template.digest,
            size: 1
        )
        guard case .sendUnstoredResult(behind, .failed, highest: 5, on: .relay) = target.offered(behind, check: .valid, clock).first else {
            Issue.record("it is not known that the command did not run")
            return
        }
        // Once a later one was accepted, this is not certain any more.
        _ = target.offered(.test(number: 7), check: .valid, clock)
        #expect(target.offered(behind, check: .valid, clock) == [.sendUnstoredResult(behind, .indeterminate(.forgotten), highest: 7)])
    }

    /// A relay that hides a command, says that its number has passed, and gets it again with a higher number, cannot make it run twice.
    @Test func commandSignedAgainWithAHigherNumberRunsOnce() {
        let command = CommandDescriptor.test(number: 5)
        func again(_ number: UInt64) -> CommandDescriptor {
            CommandDescriptor(
                id: command.id,
                lane: command.lane,
                number: number,
                firstNumber: 5,
                created: command.created,
                expires: command.expires,
                digest: Digest256(hashing: [1, 2, 3]),
                size: 1
            )
        }
        var target = target(with: command)
        _ = target.handlerEnded(command.key, .succeeded, reply: nil, clock)
        _ = target.settled(command.key)
        #expect(
            target.offered(again(8), check: .valid, clock) == [.sendUnstoredResult(again(8), .indeterminate(.forgotten), highest: 5)]
        )
        // If the number had passed by other commands, it runs under the new one, and never under the old one.
        var other = self.target(with: .test(number: 4))
        #expect(other.offered(again(8), check: .valid, clock).first == .persist(row(again(8), .received), highest: 8, reply: nil))
        var settled = self.target(with: again(8))
        _ = settled.handlerEnded(command.key, .succeeded, reply: nil, clock)
        _ = settled.settled(command.key)
        for old in [command, again(8), again(9)] {
            #expect(settled.offered(old, check: .valid, clock) == [.sendUnstoredResult(old, .indeterminate(.forgotten), highest: 8)])
        }
    }

    /// The relay knows that this target had stored the command, so the stored state has gone back.
    @Test func confirmedCommandThatIsUnknownDoesNotRun() {
        var target = CommandTarget()
        let command = CommandDescriptor.test(number: 1)
        #expect(
            target.offered(command, check: .valid, wasReceived: true, clock)
                == [.sendUnstoredResult(command, .indeterminate(.forgotten), highest: nil)]
        )
        #expect(target.isEmpty)
        #expect(target.offered(.test(number: 2), check: .valid, clock).count == 3)
    }

    @Test func forgedCommandIsNeitherStoredNorPutInALane() {
        var target = target(with: .test(number: 1))
        let forged = CommandDescriptor.test(number: .max, digest: [0])
        let before = target
        #expect(
            target.offered(forged, check: .forged(reason: "no"), clock) == [
                .sendUnstoredResult(forged, .failed(reason: "no"), highest: nil)
            ]
        )
        #expect(target.offered(forged, check: .unverifiable, clock) == [])
        #expect(target == before)
    }

    @Test func rejectionIsStoredAndItsNumberCounts() {
        let command = CommandDescriptor.test(number: 7)
        var target = CommandTarget()
        let actions = target.offered(command, check: .refused(.declined), clock)
        #expect(actions == [.persist(row(command, .answered(.declined)), highest: 7, reply: nil), .sendResult(command.key)])
        _ = target.settled(command.key)
        // The same command is offered again and would be permitted now. The sender may have got `declined`, so it must not run.
        #expect(target.offered(command, check: .valid, clock) == [.sendUnstoredResult(command, .indeterminate(.forgotten), highest: 7)])
    }

    @Test func lanesOfARemovedSenderAreRemoved() {
        let command = CommandDescriptor.test(number: 1)
        var target = target(with: command)
        #expect(target.senderRemoved(command.lane.sender) == [])
        _ = target.handlerEnded(command.key, .succeeded, reply: nil, clock)
        #expect(target.senderRemoved(command.lane.target) == [])
        #expect(target.senderRemoved(command.lane.sender) == [.removeLane(command.lane)])
    }

    @Test func unknownAppIsAnsweredAndOpensNoLane() {
        let command = CommandDescriptor.test(number: 7)
        var target = CommandTarget()
        let actions = target.offered(command, check: .appUnknown, clock)
        #expect(actions == [.persist(row(command, .answered(.unsupported)), highest: nil, reply: nil), .sendResult(command.key)])
        // The next check may have another result, but the answer stays the same.
        #expect(target.offered(command, check: .valid, clock) == [.sendResult(command.key)])

        var open = self.target(with: .test(number: 1))
        let refused = open.offered(command, check: .refused(.declined), clock)
        #expect(refused.first == .persist(row(command, .answered(.declined)), highest: 7, reply: nil))
    }

    @Test func laneHandlesOneAtATimeInOrder() {
        let first = CommandDescriptor.test(number: 1)
        let second = CommandDescriptor.test(number: 2)
        var target = target(with: first)
        let stored: [Action] = [.persist(row(second, .received), highest: 2, reply: nil), .sendReceived(second.key)]
        #expect(target.offered(second, check: .valid, clock) == stored)
        let actions = target.handlerEnded(first.key, .succeeded, reply: nil, clock)
        #expect(actions == ended(first, .succeeded) + handled(second))
    }

    @Test func sixteenLanesAtOnce() {
        var target = CommandTarget()
        var handling: [CommandDescriptor] = []
        for lane in 0..<20 {
            let command = CommandDescriptor.test(number: 1, app: String(repeating: "a", count: lane + 1))
            if target.offered(command, check: .valid, clock).contains(.handle(command)) { handling.append(command) }
        }
        #expect(handling.count == 16)
        #expect(target.handlerEnded(handling[3].key, .succeeded, reply: nil, clock).count == 4)
    }

    @Test func expiryIsCheckedRightBeforeHandling() {
        let first = CommandDescriptor.test(number: 1)
        let second = CommandDescriptor.test(number: 2)
        var target = target(with: first, second)
        let actions = target.handlerEnded(first.key, .succeeded, reply: nil, late)
        #expect(actions == ended(first, .succeeded) + answered(second, .expired))
    }

    @Test func falseRelayTimeExtendsExpiryByAtMostADay() {
        let command = CommandDescriptor.test(number: 1)
        let lies = TargetClock(own: command.expires + CommandPeriod.grace, relay: 0)
        var target = CommandTarget()
        let days = lies.own / 86_400_000
        let outcome = CommandOutcome.failed(
            reason: "the device's clock is \(days) days ahead of the relay's, so that the command has expired there; set its clock"
        )
        let expired: [Action] = [.persist(row(command, .answered(outcome)), highest: 1, reply: nil), .sendResult(command.key)]
        #expect(target.offered(command, check: .valid, lies) == expired)
        let allowed = TargetClock(own: command.expires + CommandPeriod.grace - 1, relay: 0)
        var other = CommandTarget()
        #expect(other.offered(command, check: .valid, allowed).last == .handle(command))
    }

    /// Paired devices have no relay that tells the time.
    @Test func clockOfTheSenderCountsWithoutARelay() {
        let command = CommandDescriptor.test(number: 1)
        let (half, day) = (Int64(1_800_000), CommandPeriod.grace)
        for (lead, offset, end) in [
            (half, -half - 1, nil), (half, -half, CommandOutcome.expired), (-half, half, .expired), (-half, half - 1, nil),
            (day - 1, -day, nil),
        ] {
            let clock = TargetClock(own: command.expires + lead, relay: command.expires + lead, senders: [command.lane.sender: offset])
            #expect(clock.end(of: command) == end, "\(lead), \(offset)")
        }
        let days = TargetClock(own: command.expires + day, relay: 0, senders: [command.lane.sender: -day - 1])
        let reason = "the device's clock is 24 hours ahead of the sender's, so that the command has expired there; set its clock"
        #expect(days.end(of: command) == .failed(reason: reason))
        for offset in [Int64.min, .max] {
            #expect(TargetClock(own: 1, relay: 1, senders: [command.lane.sender: offset]).end(of: command) == (offset > 0 ? .expired : nil))
        }
        // Others keep the relay's time.
        #expect(TargetClock(own: 0, relay: command.expires, senders: [.test(99): 0]).end(of: command) == .expired)
    }

    @Test func restartDoesNotRerunAHandledCommand() {
        let first = CommandDescriptor.test(number: 1)
        let second = CommandDescriptor.test(number: 2)
        var target = CommandTarget(
            positions: [first.lane: .init(number: 2, latest: second.id)],
            rows: [row(second, .received), row(first, .handling)]
        )
        #expect(target.start(clock) == answered(first, .indeterminate(.interrupted)) + handled(second))
    }

    @Test func restartKeepsResultsUntilTheyAreSettled() {
        let command = CommandDescriptor.test(number: 1)
        var target = CommandTarget(
            positions: [command.lane: .init(number: 1, latest: command.id)],
            rows: [row(command, .answered(.succeeded))]
        )
        #expect(target.start(clock) == [])
        #expect(target.connected() == [.sendResult(command.key)])
    }

    @Test func cancelTakesEffectBeforeHandlingOnly() {
        let first = CommandDescriptor.test(number: 1)
        let second = CommandDescriptor.test(number: 2)
        var target = target(with: first, second)
        #expect(target.cancelled(second.key) == answered(second, .cancelled))
        #expect(target.cancelled(first.key) == [.tellCancelled(first.key)])
        #expect(target.handlerEnded(first.key, .succeeded, reply: nil, clock) == ended(first, .succeeded))
        #expect(target.cancelled(first.key) == [.sendResult(first.key)])
        #expect(target.cancelled(CommandDescriptor.test(number: 9).key) == [])
    }

    @Test func handlerTimeIsExtendedOnce() {
        let command = CommandDescriptor.test(number: 1)
        var target = target(with: command)
        #expect(target.handlerAskedForTime(command.key) == [.extendTime(command.key)])
        #expect(target.handlerAskedForTime(command.key) == [])
        let actions = target.handlerTimedOut(command.key, clock)
        #expect(actions == [.stopHandler(command.key)] + ended(command, .indeterminate(.timedOut)))
        #expect(target.handlerEnded(command.key, .succeeded, reply: nil, clock) == [])
        #expect(target.handlerTimedOut(command.key, clock) == [])
        #expect(target.handlerAskedForTime(command.key) == [])
    }

    @Test func handlerCannotReportThatItHasNotRun() {
        let command = CommandDescriptor.test(number: 1)
        for outcome in [CommandOutcome.expired, .cancelled, .indeterminate(.targetLost)] {
            var target = target(with: command)
            let actions = target.handlerEnded(command.key, outcome, reply: [1], clock)
            #expect(actions == ended(command, .failed(reason: "the handler did not answer")))
        }
    }

    @Test func unansweredCommandCannotBeSettled() {
        let command = CommandDescriptor.test(number: 1)
        var target = target(with: command)
        #expect(target.settled(command.key) == [])
        #expect(target.knows(command))
    }

    @Test func tooManyOffersDisconnect() {
        var limits = Limits()
        limits[.mailboxCommands] = 2
        var target = CommandTarget(limits: limits)
        let commands = (1...4).map { CommandDescriptor.test(number: $0) }
        for command in commands.prefix(2) { _ = target.offered(command, check: .valid, clock) }
        let exceeded = LimitExceeded(limit: .mailboxCommands, allowed: 2, requested: 3)
        #expect(target.offered(commands[2], check: .valid, clock) == [.disconnect(exceeded)])
        // The fourth command must not overtake the third, although there is room now.
        _ = target.handlerEnded(commands[0].key, .succeeded, reply: nil, clock)
        _ = target.settled(commands[0].key)
        #expect(target.offered(commands[3], check: .valid, clock) == [])
        _ = target.connected()
        #expect(target.offered(commands[2], check: .valid, clock).count == 2)
    }

    @Test func extremeSizesDoNotTrap() {
        var target = target(with: .test(number: 1))
        let huge = CommandDescriptor.test(number: .max, expires: .max, size: .max)
        let exceeded = LimitExceeded(limit: .mailboxBytes, allowed: 64 << 20, requested: .max)
        #expect(target.offered(huge, check: .valid, clock) == [.disconnect(exceeded)])
    }
}
