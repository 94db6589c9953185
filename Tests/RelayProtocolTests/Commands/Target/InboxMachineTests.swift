// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

/// What the target of commands writes, and what waits for it. `CommandModelTests` has it crash anywhere.
@Suite struct InboxMachineTests {
    private let lane = CommandLane(sender: .test(1), target: .test(2), appID: "player")
    private let clock = TargetClock(own: 10, relay: 10)
    private var ids = Identifiers()

    private mutating func command(_ number: UInt64, expires: Int64 = 50) -> CommandDescriptor {
        let id = ids.next()
        return CommandDescriptor(
            id: id,
            lane: lane,
            number: number,
            created: 5,
            expires: expires,
            digest: CommandWorld.digest(id, 5),
            size: 3
        )
    }

    private func connected() -> InboxMachine {
        var machine = InboxMachine(CommandTarget())
        machine.connected()
        return machine
    }

    private func actions(_ machine: inout InboxMachine, now: Int64 = 0) -> [InboxMachine.Action] {
        var actions: [InboxMachine.Action] = []
        while let action = machine.next(now: now, clock) { actions.append(action) }
        return actions
    }

    /// Takes the next commit, and reports it as stored.
    private func commit(_ machine: inout InboxMachine, now: Int64 = 0) throws -> InboxMachine.Commit {
        guard case .commit(let commit) = machine.next(now: now, clock) else { throw CancellationError() }
        #expect(machine.next(now: now, clock) == nil, "nothing before it is on disk")
        machine.committed()
        return commit
    }

    private func handling(_ command: CommandDescriptor) throws -> InboxMachine {
        var machine = connected()
        machine.offered(command, check: .valid, clock)
        let written = try commit(&machine)
        #expect(written.writes.map(\.row.state) == [.handling])
        #expect(written.writes.map(\.highest) == [command.number])
        #expect(actions(&machine) == [.sendReceived(command.key), .handle(command)])
        return machine
    }

    private let delay = WriteBehindBuffer<CommandKey, InboxMachine.Write>.delay

    /// However often the account has no room, one delay serves all results.
    @Test mutating func resultsThatFindNoRoomFollowOneAfterTheOther() throws {
        var machine = connected()
        var keys: [CommandKey] = []
        for number in 1...3 as ClosedRange<UInt64> {
            let command = command(number)
            keys.append(command.key)
            machine.offered(command, check: .valid, clock)
            _ = try commit(&machine)
            _ = actions(&machine)
            machine.handlerEnded(command.key, .succeeded, reply: [7], clock)
            _ = actions(&machine)
        }
        for key in keys + keys { machine.notSettled(key) }
        #expect(actions(&machine) == [.retryLater(after: UnsettledResults.delay)])
        machine.retry()
        #expect(actions(&machine).map(\.sentResult) == [keys[0]])
        // There is still no room.
        machine.notSettled(keys[0])
        #expect(actions(&machine) == [.retryLater(after: UnsettledResults.delay)])
        machine.retry()
        #expect(actions(&machine).map(\.sentResult) == [keys[1]])
        machine.settled(keys[1], hadReply: true)
        #expect(actions(&machine).map(\.sentResult) == [keys[2]])
        // This one gave no room back.
        machine.settled(keys[2])
        #expect(actions(&machine).map(\.sentResult) == [])
        // The next connection sends what is left.
        machine.disconnected()
        _ = try commit(&machine)
        machine.connected()
        machine.retry()
        #expect(actions(&machine).compactMap(\.sentResult) == [keys[0]])
    }

    @Test mutating func resultIsSentBeforeItIsWritten() throws {
        let command = command(1)
        var machine = try handling(command)
        machine.handlerEnded(command.key, .succeeded, reply: [7], clock)
        let write = InboxMachine.Write(row: .init(restoring: command, state: .answered(.succeeded)), highest: nil, reply: [7])
        #expect(actions(&machine) == [.sendResult(command.key, unwritten: write)])
        machine.settled(command.key)
        #expect(actions(&machine).isEmpty)
        machine.storeDeferred()
        // Only the row that says "handling" has to go.
        #expect(try commit(&machine) == InboxMachine.Commit(removals: [command.key]))
        #expect(!machine.hasUnwritten)
    }

    @Test mutating func unsettledResultIsWrittenAfterTheDelay() throws {
        let command = command(1)
        var machine = try handling(command)
        machine.handlerEnded(command.key, .succeeded, reply: nil, clock)
        _ = actions(&machine)
        machine.storeDeferred()
        #expect(actions(&machine, now: delay - 1).isEmpty)
        machine.storeDeferred()
        #expect(try commit(&machine, now: delay).writes.map(\.row.state) == [.answered(.succeeded)])
    }

    @Test(arguments: [false, true]) mutating func resultWithoutAConnectionIsWrittenAtOnce(answersFirst: Bool) throws {
        let command = command(1)
        var machine = try handling(command)
        if answersFirst {
            machine.handlerEnded(command.key, .succeeded, reply: nil, clock)
            _ = actions(&machine)
            machine.disconnected()
        } else {
            machine.disconnected()
            machine.handlerEnded(command.key, .succeeded, reply: nil, clock)
        }
        #expect(try commit(&machine).writes.map(\.row.state) == [.answered(.succeeded)])
        machine.connected()
        #expect(actions(&machine) == [.sendResult(command.key, unwritten: nil)])
    }

    @Test mutating func removalIsCommittedBeforeTheSameCommandIsStored() throws {
        var machine = connected()
        let (command, other) = (command(1), command(2))
        // No lane is opened for an app that is not here, so the relay could offer the same command again.
        machine.offered(command, check: .appUnknown, clock)
        _ = try commit(&machine)
        _ = actions(&machine)
        machine.settled(command.key)
        machine.offered(other, check: .appUnknown, clock)
        machine.offered(command, check: .appUnknown, clock)
        let both = try commit(&machine)
        #expect(both.removals == [command.key])
        #expect(both.writes.map(\.key) == [other.key, command.key])
        #expect(actions(&machine) == [.sendResult(other.key, unwritten: nil), .sendResult(command.key, unwritten: nil)])
    }

    @Test mutating func failedWriteIsRetriedFirst() throws {
        var machine = connected()
        let command = command(1)
        machine.offered(command, check: .valid, clock)
        guard let first = machine.next(now: 0, clock) else { throw CancellationError() }
        machine.failed(first)
        machine.disconnected()
        machine.connected()
        #expect(machine.next(now: 0, clock) == first)
        machine.committed()
        // The `command.received` message belonged to the lost connection.
        #expect(actions(&machine) == [.handle(command)])
    }

    @Test mutating func commandExpiredWhileStoredIsNotHandled() throws {
        var machine = connected()
        let command = command(1, expires: 20)
        machine.offered(command, check: .valid, clock)
        _ = try commit(&machine)
        let late = TargetClock(own: 30, relay: 30)
        #expect(machine.next(now: 0, late) == .sendReceived(command.key))
        guard case .sendResult(command.key, let write, on: .relay) = machine.next(now: 0, late) else { return #expect(Bool(false)) }
        #expect(write?.row.state == .answered(.expired))
    }

    @Test mutating func takeUnwrittenReturnsEachResultOnce() throws {
        let command = command(1)
        var machine = try handling(command)
        machine.handlerEnded(command.key, .succeeded, reply: nil, clock)
        _ = actions(&machine)
        #expect(machine.takeUnwritten().writes.map(\.row.state) == [.answered(.succeeded)])
        #expect(machine.takeUnwritten().isEmpty)
    }
}

extension InboxMachine.Action {
    fileprivate var sentResult: CommandKey? { if case .sendResult(let key, _, _) = self { key } else { nil } }
}
