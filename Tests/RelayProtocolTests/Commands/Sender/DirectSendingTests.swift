// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

/// What a sender does with commands that their target may have got without the relay.
@Suite struct DirectSendingTests {
    private let target = EndpointID.test(2)
    private var ids = Identifiers()
    private let done = CommandFinal(outcome: .succeeded, receipt: [1], reply: nil)
    private let expired = CommandFinal(attestedByRelay: .expired)

    private mutating func command(_ number: UInt64, _ state: SentCommand.State = .sent, isDirect: Bool = true) -> SentCommand {
        let id = ids.next()
        let descriptor = CommandDescriptor(
            id: id,
            lane: CommandLane(sender: .test(1), target: target, appID: "player"),
            number: number,
            created: 5,
            expires: 50,
            digest: CommandWorld.digest(id, 5),
            size: 3
        )
        return SentCommand(restoring: descriptor, state: state, cancelRequested: false, signings: 1, isDirect: isDirect, isShared: true)
    }

    // MARK: A command

    @Test mutating func markedCommandCountsAsSent() {
        for state in [SentCommand.State.prepared, .queued, .sent] {
            let marked = command(1, state, isDirect: false).markedDirect
            #expect(marked?.state == .sent && marked?.isDirect == true)
        }
        #expect(command(1, .accepted(.accepted), isDirect: false).markedDirect?.state == .accepted(.accepted))
        for ended in [SentCommand.State.withdrawn, .final(done), .refused(.init(.expired, mayHaveRun: false))] {
            #expect(command(1, ended, isDirect: false).markedDirect == nil)
        }
    }

    @Test mutating func wordOfTheRelayEndsNoDirectCommand() {
        for state in [SentCommand.State.sent, .accepted(.accepted), .accepted(.delivered)] {
            for outcome in [CommandOutcome.expired, .cancelled, .indeterminate(.targetLost)] {
                var row = command(1, state)
                #expect(row.ended(CommandFinal(attestedByRelay: outcome), receiptIsValid: false) == [])
                #expect(row.state == state)
                // A signed revocation says that nobody else will ever tell.
                let actions = row.ended(CommandFinal(attestedByRelay: outcome), receiptIsValid: false, targetIsRevoked: true)
                #expect(actions.last == .acknowledge && row.state == .final(CommandFinal(attestedByRelay: .indeterminate(.targetLost))))
            }
        }
    }

    @Test mutating func refusalsAreNoEndEither() {
        let reasons: [CommandRejection.Reason] = [
            .clockSkew, .numberPassed, .livesTooLong, .other(code: "x"), .limit(.init(limit: .commandBytes, allowed: 1, requested: 2)),
        ]
        for reason in reasons {
            var row = command(1)
            let actions = row.refused(CommandRejection(reason, mayHaveRun: true, highest: 9), now: .max)
            #expect(actions == [.retryLater(.send, after: SentCommand.retryDelay)] && row.state == .sent, "\(reason)")
        }
        // The relay will not have these, so its lane goes on.
        let final: [CommandRejection.Reason] = [.expired, .targetUnknown, .idConflict]
        for reason in final {
            for state in [SentCommand.State.sent, .accepted(.accepted)] {
                var row = command(1, state)
                #expect(row.refused(CommandRejection(reason, mayHaveRun: true), now: 0) == [.answered])
                #expect(row.state == state)
            }
        }
        // It was sent before the relay was told: it is told soon, and the lane waits for that.
        for reason in reasons + final {
            var row = command(1)
            #expect(
                row.refused(CommandRejection(reason, mayHaveRun: false), now: 0) == [.retryLater(.send, after: SentCommand.shortRetryDelay)]
            )
        }
    }

    @Test mutating func receiptEndsItOnAnyPath() {
        for isDirect in [false, true] {
            var row = command(1)
            let actions = row.ended(done, receiptIsValid: true, directly: isDirect)
            #expect(row.state == .final(done))
            #expect(actions.first == .persist(row) && actions.last == (isDirect ? .settle : .acknowledge))
            #expect(actions.contains(.answered) && actions.contains(.answeredDirectly))
            // The other path gets its acknowledgement, and the outcome stands.
            #expect(row.ended(expired, receiptIsValid: false, directly: !isDirect) == [isDirect ? .acknowledge : .settle])
            #expect(row.state == .final(done))
        }
        var row = command(1)
        #expect(row.ended(done, receiptIsValid: false, directly: true) == [.reject])
        #expect(row.state == .sent)
    }

    /// It is not signed again, because the target may have the bytes.
    @Test mutating func passedNumberIsAnEnd() {
        var row = command(1)
        let passed = CommandFinal(outcome: .failed(reason: "later ones"), receipt: [1], reply: nil, highest: 9)
        let actions = row.ended(passed, receiptIsValid: true)
        #expect(actions.first == .persist(row) && row.state == .final(passed))
    }

    @Test mutating func targetThatNeverAnswersIsLost() {
        var row = command(1)
        let deadline = row.command.expires + CommandPeriod.grace
        #expect(row.deadline(hasRelay: true) == deadline)
        #expect(row.handleDeadline(now: deadline - 1, hasRelay: true) == [])
        let actions = row.handleDeadline(now: deadline, hasRelay: true)
        #expect(actions.first == .persist(row))
        #expect(row.state == .final(CommandFinal(attestedByRelay: .indeterminate(.targetLost))) && row.deadline(hasRelay: true) == nil)
        #expect(command(1, isDirect: false).deadline(hasRelay: true) == nil)
    }

    @Test mutating func preconditionsKeepWhatOthersHaveStored() {
        let stored = command(1)
        let own = SentCommand(restoring: stored.command, state: .prepared, cancelRequested: false, signings: 1)
        func row(_ state: SentCommand.State, isDirect: Bool = false) -> SentCommand {
            SentCommand(restoring: stored.command, state: state, cancelRequested: false, signings: 1, isDirect: isDirect)
        }
        for state in [SentCommand.State.prepared, .withdrawn, .refused(.init(.expired, mayHaveRun: false)), .final(expired)] {
            #expect(!row(state).mayReplace(stored), "\(state)")
        }
        for state in [SentCommand.State.sent, .accepted(.delivered), .final(done)] { #expect(row(state).mayReplace(stored), "\(state)") }
        #expect(row(.final(expired), isDirect: true).mayReplace(stored))
        #expect(row(.withdrawn).mayReplace(own) && !row(.withdrawn).mayReplace(row(.sent)))
        #expect(!row(.sent).mayReplace(row(.final(done))))
    }

    /// Without a relay nobody else says that it has expired.
    @Test mutating func commandThatWasNeverOfferedExpiresWithoutARelay() {
        var row = command(1, .prepared, isDirect: false)
        #expect(row.deadline(hasRelay: false) == row.command.expires)
        #expect(row.handleDeadline(now: row.command.expires - 1, hasRelay: false) == [])
        var machine = OutboxMachine(hasRelay: false)
        machine.add(row, behind: [])
        // The machine stays one without a relay when the disk is full.
        machine.failed()
        machine.add(row, behind: [])
        #expect(machine.nextDeadline == row.command.expires)
        machine.handleDeadlines(now: row.command.expires)
        let expired = CommandRejection(.expired, mayHaveRun: false)
        #expect(row.handleDeadline(now: row.command.expires, hasRelay: false).last == .report(.refused(expired)))
        #expect(machine.next(now: 0) == .commit([row]))
        // Another process has offered it meanwhile.
        let marked = SentCommand(restoring: row.command, state: .sent, cancelRequested: false, signings: 1, isDirect: true)
        machine.committed(superseded: [marked])
        #expect(machine.nextDeadline == marked.command.expires + CommandPeriod.grace)
        #expect(actions(&machine) == [])
        // What was offered may have run.
        #expect(!row.mayReplace(marked))
        #expect(command(1, isDirect: true).deadline(hasRelay: false) == 50 + CommandPeriod.grace)
    }

    // MARK: The machine

    private func actions(_ machine: inout OutboxMachine) -> [OutboxMachine.Action] {
        var actions: [OutboxMachine.Action] = []
        while let action = machine.next(now: 0) { actions.append(action) }
        return actions
    }

    private func connected(with rows: [SentCommand]) -> OutboxMachine {
        var machine = OutboxMachine()
        machine.connected(directlyTo: target)
        #expect(actions(&machine) == [.markDirect(target, [])])
        machine.marked(rows, directlyTo: target, for: machine.connectionNumber(on: .direct(target)))
        return machine
    }

    @Test mutating func laneIsOfferedInOrder() {
        let rows = [command(2), command(1), command(3)]
        let ids = rows.sorted { $0.command.number < $1.command.number }.map(\.command.id)
        var machine = connected(with: rows)
        #expect(actions(&machine) == [.offer(ids[0])])
        machine.receivedDirectly(ids[0])
        let next = actions(&machine)
        #expect(next.contains(.offer(ids[1])))
        // An end lets the lane go on, too, once it is stored.
        machine.ended(ids[1], done, receiptIsValid: true, directly: true)
        guard case .commit(let stored) = machine.next(now: 0) else { return #expect(Bool(false)) }
        #expect(stored.map(\.state) == [.final(done)])
        machine.committed()
        let rest = actions(&machine)
        #expect(rest.contains(.settle(ids[1], target)) && rest.contains(.offer(ids[2])))
        // What the target has got is not offered twice on a session.
        machine.add(command(4, .queued, isDirect: false), behind: [])
        // What is known of the earlier ones is stored with the mark.
        guard case .markDirect(target, let noted)? = actions(&machine).first else { return #expect(Bool(false)) }
        #expect(noted.map(\.state) == [.accepted(.delivered)])
        machine.marked([rows[0], rows[2]], directlyTo: target, for: machine.connectionNumber(on: .direct(target)))
        #expect(actions(&machine) == [])
    }

    /// A command that is alone in its lane is marked as it is stored.
    @Test mutating func commandThatIsStoredAsDirectIsOfferedAtOnce() {
        var machine = connected(with: [])
        #expect(actions(&machine) == [])
        let row = command(1)
        machine.add(row, behind: [])
        #expect(actions(&machine) == [.offer(row.command.id)])
        // The session was lost, and another one was opened, while it was stored.
        let late = command(2)
        machine.disconnected(directlyFrom: target)
        machine.connected(directlyTo: target)
        machine.add(late, behind: [])
        #expect(actions(&machine) == [.markDirect(target, [])])
        machine.marked([late], directlyTo: target, for: machine.connectionNumber(on: .direct(target)))
        #expect(actions(&machine) == [.offer(late.command.id)])
        // Without a session it waits for one.
        machine.disconnected(directlyFrom: target)
        machine.add(command(3), behind: [])
        #expect(actions(&machine) == [])
    }

    @Test mutating func cancellationIsOfferedAgain() {
        let row = command(1)
        var machine = connected(with: [row])
        #expect(actions(&machine) == [.offer(row.command.id)])
        machine.receivedDirectly(row.command.id)
        _ = actions(&machine)
        machine.cancel(row.command.id)
        guard case .commit(let stored) = machine.next(now: 0) else { return #expect(Bool(false)) }
        #expect(stored.map(\.cancelRequested) == [true])
        machine.committed()
        #expect(actions(&machine) == [.offer(row.command.id)])
    }

    @Test mutating func nothingIsOfferedOnASessionThatHasEnded() {
        let row = command(1)
        var machine = OutboxMachine()
        machine.connected(directlyTo: target)
        _ = actions(&machine)
        let number = machine.connectionNumber(on: .direct(target))
        machine.disconnected(directlyFrom: target)
        machine.connected(directlyTo: target)
        machine.marked([row], directlyTo: target, for: number)
        #expect(actions(&machine) == [.markDirect(target, [])])
        machine.marked([row], directlyTo: target, for: machine.connectionNumber(on: .direct(target)))
        machine.disconnected(directlyFrom: target)
        #expect(actions(&machine) == [])
    }

    /// The end of a command is read from the store before the machine has come to what follows from it.
    @Test mutating func laneAtTheRelayGoesOnAfterAnEndThatIsReadFirst() {
        let rows = [command(1), command(2)]
        let (first, next) = (rows[0].command.id, rows[1].command.id)
        var machine = OutboxMachine()
        machine.connected()
        _ = actions(&machine)
        machine.loaded(rows, ended: [], for: machine.connectionNumber)
        #expect(actions(&machine) == [.send(first, again: true)])
        // A session begins, and the receipt comes by the relay, before the relay has answered the send.
        machine.connected(directlyTo: target)
        machine.ended(first, done, receiptIsValid: true)
        guard case .commit(let stored) = machine.next(now: 0) else { return #expect(Bool(false)) }
        machine.committed()
        #expect(actions(&machine) == [.markDirect(target, [])])
        machine.marked([rows[1]], ended: stored, directlyTo: target, for: machine.connectionNumber(on: .direct(target)))
        let rest = actions(&machine)
        #expect(rest.contains(.report(stored[0])) && rest.contains(.send(next, again: true)) && rest.contains(.offer(next)))
    }

    /// The end of a command of another process, or one whose row is gone.
    @Test mutating func resultOfAnEndedCommandIsSettled() {
        var machine = OutboxMachine()
        let row = command(1, .final(done))
        #expect(machine.adopt(row, row.command.id, endedAt: target) == false)
        #expect(actions(&machine) == [.settle(row.command.id, target)])
        #expect(machine.adopt(nil, row.command.id, endedAt: target) == false)
        #expect(actions(&machine) == [.settle(row.command.id, target)])
    }
}
