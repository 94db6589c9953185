// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

/// What the sender of commands writes, and what waits for it. `CommandModelTests` has it crash anywhere.
@Suite struct OutboxMachineTests {
    private let lane = CommandLane(sender: .test(1), target: .test(2), appID: "player")
    private var ids = Identifiers()

    private mutating func command(_ number: UInt64, _ state: SentCommand.State = .queued) -> SentCommand {
        let id = ids.next()
        let descriptor = CommandDescriptor(
            id: id,
            lane: lane,
            number: number,
            created: 5,
            expires: 50,
            digest: CommandWorld.digest(id, 5),
            size: 3
        )
        return SentCommand(restoring: descriptor, state: state, cancelRequested: false, signings: 1, isShared: true)
    }

    private func connected(_ open: [SentCommand] = []) -> OutboxMachine {
        var machine = OutboxMachine()
        machine.connected()
        #expect(machine.next(now: 0) == .load([]))
        #expect(machine.next(now: 0) == nil)
        machine.loaded(open, ended: [], for: machine.connectionNumber)
        return machine
    }

    /// All actions up to the next commit.
    private func actions(_ machine: inout OutboxMachine, now: Int64 = 0) -> [OutboxMachine.Action] {
        var actions: [OutboxMachine.Action] = []
        while let action = machine.next(now: now) { actions.append(action) }
        return actions
    }

    @Test mutating func storedCommandIsSentWithoutAnotherWrite() {
        var machine = connected()
        let row = command(1)
        machine.add(row, behind: [])
        #expect(actions(&machine) == [.send(row.command.id, again: false)])
    }

    @Test mutating func refusedRequestIsRepeatedOnTheSameConnection() {
        let row = command(1, .sent)
        let id = row.command.id
        var machine = connected([row])
        #expect(actions(&machine) == [.send(id, again: true)])
        machine.refused(id, CommandRejection(.other(code: "rateLimited"), mayHaveRun: true), now: 0, retryAfter: 700)
        #expect(actions(&machine) == [.retryLater(id, .send, after: 700)])
        machine.retry(id, .send)
        #expect(actions(&machine) == [.send(id, again: true)])
        machine.cancel(id)
        guard case .commit = machine.next(now: 0) else { return #expect(Bool(false)) }
        machine.committed()
        #expect(actions(&machine) == [.cancel(id)])
        machine.cancelRefused(id, retryAfter: 800)
        #expect(actions(&machine) == [.retryLater(id, .cancel, after: 800)])
        machine.retry(id, .cancel)
        // The next connection repeats both.
        machine.disconnected()
        #expect(actions(&machine).isEmpty)
    }

    @Test mutating func outcomeIsReportedAfterItIsStored() {
        let row = command(1, .sent)
        var machine = connected([row])
        _ = actions(&machine)
        machine.ended(row.command.id, CommandFinal(attestedByRelay: .expired), receiptIsValid: false)
        guard case .commit(let rows) = machine.next(now: 0) else { return #expect(Bool(false)) }
        #expect(rows.map(\.isEnded) == [true])
        #expect(machine.next(now: 0) == nil)
        machine.committed()
        #expect(actions(&machine) == [.report(rows[0]), .acknowledge(row.command.id)])
        #expect(machine[row.command.id] == nil)
    }

    @Test mutating func progressIsWrittenWithADelay() {
        let (first, second) = (command(1, .sent), command(2, .sent))
        var machine = connected([first, second])
        _ = actions(&machine)
        machine.accepted(first.command.id)
        let performed = actions(&machine)
        #expect(performed.contains { if case .commit = $0 { true } else { false } } == false)
        #expect(machine.hasNoted)
        machine.storeDeferred()
        #expect(actions(&machine, now: 1).isEmpty, "not before its time")
        machine.storeDeferred()
        guard case .commit(let rows) = machine.next(now: WriteBehindBuffer<CommandID, SentCommand>.delay) else {
            return #expect(Bool(false))
        }
        #expect(rows.map(\.state) == [.accepted(.accepted)])
        #expect(!machine.hasNoted)
    }

    @Test mutating func actionsOfALostConnectionAreDropped() {
        let row = command(1, .sent)
        var machine = connected([row])
        machine.disconnected()
        #expect(actions(&machine).isEmpty)
        machine.connected()
        #expect(actions(&machine) == [.load([])])
    }

    /// The target says that the number had passed, while the command waits to be sent again on a new connection.
    @Test mutating func commandThatMustBeSignedAgainIsNotSentBefore() {
        let row = command(1, .accepted(.accepted))
        var machine = connected([row])
        let final = CommandFinal(outcome: .failed(reason: "passed"), receipt: [1], reply: nil, highest: 7)
        machine.ended(row.command.id, final, receiptIsValid: true)
        guard case .commit(let rows) = machine.next(now: 0) else { return #expect(Bool(false)) }
        #expect(rows.map(\.state) == [.prepared])
        machine.committed()
        #expect(actions(&machine) == [.signAnew(row.command.id, above: 7)])
    }

    /// The target says the same before the stored commands are read for a new connection.
    @Test mutating func commandsAreReadAfterWhatWasDecidedBefore() {
        let row = command(1, .sent)
        var machine = connected([row])
        _ = actions(&machine)
        machine.disconnected()
        machine.mark(1)
        machine.connected()
        #expect(machine.next(now: 0) == .reached(mark: 1))
        let final = CommandFinal(outcome: .failed(reason: "passed"), receipt: [1], reply: nil, highest: 7)
        machine.ended(row.command.id, final, receiptIsValid: true)
        guard case .commit(let rows) = machine.next(now: 0) else { return #expect(Bool(false)) }
        #expect(rows.map(\.state) == [.prepared])
        machine.committed()
        #expect(actions(&machine) == [.signAnew(row.command.id, above: 7), .load([])])
    }

    @Test mutating func outcomeStoredByAnotherProcessIsKept() {
        let (row, next) = (command(1, .sent), command(2, .sent))
        var machine = connected([row, next])
        _ = actions(&machine)
        machine.cancel(row.command.id)
        guard case .commit = machine.next(now: 0) else { return #expect(Bool(false)) }
        var ended = row
        _ = ended.ended(CommandFinal(attestedByRelay: .expired), receiptIsValid: false)
        machine.committed(superseded: [ended])
        #expect(actions(&machine) == [.report(ended), .cancel(row.command.id), .send(next.command.id, again: true)])
        #expect(machine[row.command.id] == nil)
    }

    /// Another process has sent a command that the relay refuses here, and the relay has taken it there. The lane goes on.
    @Test mutating func commandThatAnotherProcessHasSentIsNotRefused() {
        let (row, next) = (command(1, .sent), command(2, .sent))
        var machine = connected([row, next])
        _ = actions(&machine)
        let rejection = CommandRejection(.expired, mayHaveRun: false)
        machine.refused(row.command.id, rejection, now: 9)
        guard case .commit = machine.next(now: 0) else { return #expect(Bool(false)) }
        var other = row
        _ = other.accepted()
        machine.committed(superseded: [other])
        #expect(actions(&machine) == [.send(next.command.id, again: true)])
        #expect(machine[row.command.id] == other)
    }

    /// Both processes of the endpoint sign a command again, and the other one is first.
    @Test mutating func commandSignedByAnotherProcessIsSentAsTheOtherSignedIt() {
        let (row, next) = (command(1, .sent), command(2, .sent))
        var machine = connected([row, next])
        _ = actions(&machine)
        machine.refused(row.command.id, CommandRejection(.clockSkew, mayHaveRun: false), now: 9)
        guard case .commit = machine.next(now: 0) else { return #expect(Bool(false)) }
        let other = SentCommand(restoring: resigned(row.command), state: .sent, cancelRequested: false, signings: 2, isShared: true)
        machine.committed(superseded: [other])
        #expect(actions(&machine) == [.send(row.command.id, again: true)], "it is neither signed again nor overtaken")
        machine.accepted(row.command.id)
        #expect(actions(&machine) == [.report(machine[row.command.id] ?? row), .send(next.command.id, again: true)])
    }

    /// The app cancels a command while this process would sign it again, which another process has done.
    @Test mutating func cancellationOutlivesTheBytesThatItWasFor() {
        let row = command(1, .prepared)
        var machine = connected([row])
        guard case .commit = machine.next(now: 0) else { return #expect(Bool(false)) }
        machine.committed()
        machine.refused(row.command.id, CommandRejection(.clockSkew, mayHaveRun: false), now: 9)
        machine.cancel(row.command.id)
        machine.mark(3)
        guard case .commit = machine.next(now: 0) else { return #expect(Bool(false)) }
        let other = SentCommand(restoring: resigned(row.command), state: .sent, cancelRequested: false, signings: 2, isShared: true)
        machine.committed(superseded: [other])
        guard case .commit(let rows) = machine.next(now: 0) else { return #expect(Bool(false)) }
        #expect(rows.map(\.cancelRequested) == [true])
        #expect(rows.map(\.command) == [other.command])
        machine.committed()
        let id = row.command.id
        #expect(actions(&machine) == [.cancel(id), .send(id, again: true), .cancel(id), .reached(mark: 3)])
    }

    private func resigned(_ command: CommandDescriptor) -> CommandDescriptor {
        CommandDescriptor(
            id: command.id,
            lane: command.lane,
            number: command.number,
            created: 9,
            expires: command.expires,
            digest: CommandWorld.digest(command.id, 9),
            size: command.size
        )
    }

    @Test mutating func failedWriteIsNotReported() {
        let row = command(1, .sent)
        var machine = connected([row])
        _ = actions(&machine)
        machine.ended(row.command.id, CommandFinal(attestedByRelay: .expired), receiptIsValid: false)
        _ = machine.next(now: 0)
        machine.failed()
        #expect(actions(&machine).isEmpty)
        #expect(machine[row.command.id] == nil)
        machine.connected()
        #expect(machine.next(now: 0) == .load([]))
        machine.loaded([row], ended: [], for: machine.connectionNumber)
        #expect(actions(&machine) == [.send(row.command.id, again: true)])
    }

    @Test mutating func markIsReachedAfterEarlierActions() {
        let row = command(1, .sent)
        var machine = connected([row])
        _ = actions(&machine)
        machine.cancel(row.command.id)
        machine.mark(7)
        guard case .commit = machine.next(now: 0) else { return #expect(Bool(false)) }
        machine.committed()
        #expect(actions(&machine) == [.cancel(row.command.id), .reached(mark: 7)])
    }

    @Test mutating func outcomeOfAnUnknownCommandIsAcknowledged() {
        var machine = connected()
        let row = command(1, .sent)
        let isOpen = machine.adopt(nil, row.command.id, isEnd: true)
        #expect(!isOpen)
        #expect(actions(&machine) == [.acknowledge(row.command.id)])
        let adopted = machine.adopt(row, row.command.id, isEnd: true)
        #expect(adopted)
        #expect(actions(&machine).isEmpty)
    }
}
