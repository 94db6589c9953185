// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

/// What this process knows of its commands and has not stored yet, when a new connection has it read what is stored.
@Suite struct OutboxCommandsTests {
    private static let lane = CommandLane(
        sender: EndpointID(P256SigningKey().publicKey),
        target: EndpointID(P256SigningKey().publicKey),
        appID: "player"
    )
    private let first = Self.command(1)
    private let second = Self.command(2)

    private static func command(_ number: UInt64) -> SentCommand {
        var random = SystemRandomNumberGenerator()
        var ids = CommandIDGenerator()
        let descriptor = CommandDescriptor(
            id: ids.next(now: number, using: &random),
            lane: lane,
            number: number,
            created: 5,
            expires: 50,
            digest: Digest256(hashing: []),
            size: 3
        )
        return SentCommand(restoring: descriptor, state: .sent, cancelRequested: false, signings: 1, isShared: true)
    }

    private static func connect(_ commands: inout OutboxCommands, _ stored: [SentCommand]) -> [OutboxCommands.Step] {
        commands.connected()
        return commands.begin(stored)
    }

    private func actions(_ steps: [OutboxCommands.Step], of row: SentCommand) -> [SentCommand.Action] {
        steps.filter { $0.id == row.command.id }.map(\.action)
    }

    @Test func unstoredOutcomeSurvivesAReconnection() {
        var commands = OutboxCommands()
        _ = Self.connect(&commands, [first, second])
        let end = commands.input(first.command.id) { $0.ended(CommandFinal(attestedByRelay: .cancelled), receiptIsValid: false) }
        #expect(actions(end, of: first).count == 4)
        commands.disconnected()
        // The relay may have forgotten it by then, so nothing is asked.
        #expect(actions(Self.connect(&commands, [first, second]), of: first) == [.answered])
        // The outcome is there to be reported.
        #expect(commands[first.command.id]?.isEnded == true)
        let next = commands.answered(first.command.id)
        #expect(actions(next, of: second) == [.send(again: true)])
    }

    @Test func outcomeIsKeptUntilItIsReported() {
        var commands = OutboxCommands()
        _ = Self.connect(&commands, [first, second])
        // The relay's answer to the send comes behind the end, or is looked at behind it.
        #expect(actions(commands.input(first.command.id) { $0.accepted() }, of: first).last == .answered)
        _ = commands.input(first.command.id) { $0.ended(CommandFinal(attestedByRelay: .cancelled), receiptIsValid: false) }
        #expect(actions(commands.answered(first.command.id), of: second) == [.send(again: true)])
        #expect(commands.answered(first.command.id).isEmpty)
        #expect(commands[first.command.id]?.isEnded == true)
        _ = commands.remove(first.command.id)
        #expect(commands[first.command.id] == nil)
    }

    @Test func unstoredCancelIsSentAgain() {
        var commands = OutboxCommands()
        _ = Self.connect(&commands, [first])
        #expect(commands.input(first.command.id) { $0.cancel() }.count == 2)
        commands.disconnected()
        #expect(actions(Self.connect(&commands, [first]), of: first) == [.send(again: true), .cancel])
    }

    @Test func stateStoredByAnotherProcessIsUsed() {
        var commands = OutboxCommands()
        _ = Self.connect(&commands, [first, second])
        var cancelled = first
        _ = cancelled.cancel()
        commands.disconnected()
        // The other process has received the outcome of the second meanwhile.
        #expect(actions(Self.connect(&commands, [cancelled]), of: first) == [.send(again: true), .cancel])
        #expect(commands[second.command.id] == nil)
    }

    @Test func unsentCommandIsNotMarkedAsResent() {
        var commands = OutboxCommands()
        _ = Self.connect(&commands, [first])
        let queued = SentCommand.prepare(second.command, isConnected: true).0
        #expect(commands.add(queued, behind: []).isEmpty)
        commands.disconnected()
        _ = Self.connect(&commands, [first, queued.stored])
        #expect(actions(commands.answered(first.command.id), of: second) == [.send(again: false)])
    }

    /// Another process has sent the first command, while this one, whose copy is older, withdraws it.
    @Test(arguments: [true, false]) func laneWaitsForAWithdrawalThatIsNotStored(isTaken: Bool) {
        var commands = OutboxCommands()
        _ = Self.connect(&commands, [])
        commands.adopt(SentCommand(restoring: first.command, state: .prepared, cancelRequested: false, signings: 1))
        #expect(actions(commands.input(first.command.id) { $0.cancel() }, of: first).last == .report(.withdrawn))
        #expect(commands.add(second, behind: [first]).isEmpty)
        if isTaken {
            #expect(actions(commands.answered(first.command.id), of: second) == [.send(again: true)])
        } else {
            #expect(actions(commands.adopt(signedAgain: first), of: first).suffix(2) == [.send(again: true), .cancel])
            #expect(actions(commands.answered(first.command.id), of: second) == [.send(again: true)])
        }
    }

    /// A command that is stored just after the read, and added before the read rows.
    @Test func commandAddedDuringLoadingIsSentInOrder() {
        var commands = OutboxCommands()
        commands.connected()
        #expect(commands.add(second, behind: []).isEmpty)
        #expect(actions(commands.begin([first]), of: first) == [.send(again: true)])
        #expect(actions(commands.answered(first.command.id), of: second) == [.send(again: true)])
    }

    @Test func unstoredCommandIsDroppedByLoading() {
        var commands = OutboxCommands()
        _ = commands.add(first, behind: [])
        commands.connected()
        #expect(commands.begin([]).isEmpty)
        #expect(commands[first.command.id] == nil)
    }

    @Test func commandsLoadedForALostConnectionAreNotSent() {
        var commands = OutboxCommands()
        commands.connected()
        commands.disconnected()
        #expect(commands.begin([first]).isEmpty)
        #expect(!commands.isConnected)
        commands.connected()
        #expect(commands.add(second, behind: []).isEmpty)
        #expect(actions(commands.begin([first]), of: first) == [.send(again: true)])
        #expect(actions(commands.answered(first.command.id), of: second) == [.send(again: true)])
    }

    @Test func commandAdoptedDuringLoadingIsNotOvertaken() {
        var commands = OutboxCommands()
        commands.connected()
        commands.adopt(first)
        #expect(commands.add(second, behind: [first]).isEmpty)
        #expect(commands.begin([]).map(\.id) == [first.command.id])
        #expect(actions(commands.answered(first.command.id), of: second) == [.send(again: true)])
    }

    /// One that another process has stored, and that an app here has cancelled.
    @Test func commandAdoptedWhileConnectedIsNotOvertaken() {
        var commands = OutboxCommands()
        _ = Self.connect(&commands, [])
        commands.adopt(first)
        #expect(commands.add(second, behind: [first]).map(\.id) == [first.command.id])
        #expect(actions(commands.answered(first.command.id), of: second) == [.send(again: true)])
    }
}
