// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import DeviceRelay

/// The commands that an endpoint sends, on a real journal.
@Suite(.timeLimit(.minutes(5))) struct OutboxTests {
    private let directory: TemporaryDirectory
    private let target: Member

    init() throws {
        directory = try TemporaryDirectory()
        target = try Member("Target")
    }

    private func world() async throws -> EndpointWorld {
        let world = try EndpointWorld(directory)
        await world.list(target.record)
        return world
    }

    private func sent(by world: EndpointWorld, after count: Int = 0) async throws -> EndpointMessage.CommandSend {
        let sentMessages = await world.sentMessages.first { $0.compactMap(\.sending).count > count }
        return try #require(sentMessages?.compactMap(\.sending).dropFirst(count).first)
    }

    private func receipt(_ row: SentCommand, _ outcome: CommandOutcome) throws -> RelayMessage.CommandStatus {
        let receipt = try Signed(CommandReceipt(for: row.command, outcome: outcome, time: 1), key: target.key)
        return .init(id: row.command.id, status: .attestedByTarget(Blob(receipt.encoded), reply: nil))
    }

    @Test func launchedCommandIsSentAndGetsItsOutcome() async throws {
        let world = try await world()
        await world.connect()
        let (row, state) = try await world.launch("https://example.org/", on: target.id, appID: "player")
        let send = try await sent(by: world)
        #expect(send.command.bytes == (try world.endpoint.journal.read { try $0.sentContent(row.command.id)?.blob }))
        await world.answer(send.ref, .ok(nil))
        #expect(await state.first { $0 == .accepted(.accepted) } != nil)
        await world.receiveStatus(try receipt(row, .succeeded))
        let end = await state.first(where: \.isEnded)
        guard case .final(let final) = end else { return #expect(Bool(false), "\(String(describing: end))") }
        #expect(final.outcome == .succeeded)
        #expect(final.attestedBy == .target)
        // It is reported only when it is stored, and then acknowledged.
        #expect(try world.endpoint.journal.read { try $0.sent(row.command.id)?.state } == end)
        #expect(try await world.next { $0.acknowledged } == row.command.id)
        await world.end()
    }

    @Test func receiptSignedByAnotherKeyIsIgnored() async throws {
        let world = try await world()
        await world.connect()
        let (row, state) = try await world.launch("https://example.org/", on: target.id, appID: "player")
        await world.answer(try await sent(by: world).ref, .ok(nil))
        let forged = try Signed(CommandReceipt(for: row.command, outcome: .succeeded, time: 1), key: P256SigningKey())
        await world.receiveStatus(.init(id: row.command.id, status: .attestedByTarget(Blob(forged.encoded), reply: nil)))
        guard case .final(let final) = await state.first(where: \.isEnded) else { return #expect(Bool(false)) }
        #expect(final.attestedBy == .relay)
        #expect(final.outcome == .indeterminate(.targetLost))
        await world.end()
    }

    @Test func unansweredCommandIsResentUnchangedAfterACrash() async throws {
        let first = try await world()
        await first.connect()
        let (row, _) = try await first.launch("https://example.org/", on: target.id, appID: "player")
        let send = try await sent(by: first)
        await first.crash()
        let second = try await world()
        await second.connect()
        let again = try await sent(by: second)
        #expect(again.command == send.command)
        #expect(again.again)
        #expect(try await second.commands().map(\.command.id) == [row.command.id])
        await first.end()
        await second.end()
    }

    @Test func nextCommandOfALaneWaitsForTheAnswer() async throws {
        let world = try await world()
        await world.connect()
        let (first, _) = try await world.launch("https://example.org/1", on: target.id, appID: "player")
        let (second, _) = try await world.launch("https://example.org/2", on: target.id, appID: "player")
        let send = try await sent(by: world)
        #expect(try SealedCommand(decoding: send.command.bytes).header.id == first.command.id)
        #expect(world.sentMessages.value.compactMap(\.sending).count == 1)
        await world.answer(send.ref, .ok(nil))
        #expect(try SealedCommand(decoding: try await sent(by: world, after: 1).command.bytes).header.id == second.command.id)
        await world.end()
    }

    @Test func commandIsSignedAgainAfterClockSkew() async throws {
        let world = try await world()
        await world.connect()
        let (row, _) = try await world.launch("https://example.org/", on: target.id, appID: "player")
        let send = try await sent(by: world)
        let time = Milliseconds(clamping: row.command.created + 9 * 3_600_000)
        await world.answer(send.ref, .failure(.init(ref: send.ref, code: .clockSkew, message: "", time: time)))
        let again = try SealedCommand(decoding: try await sent(by: world, after: 1).command.bytes)
        #expect(again.header.id == row.command.id)
        #expect(again.header.created >= time.count)
        #expect(again.header.expires - again.header.created == row.command.expires - row.command.created)
        // The stored command is the one that is sent.
        #expect(try world.endpoint.journal.read { try $0.sent(row.command.id)?.command.digest } == again.descriptor.digest)
        await world.end()
    }

    /// Two processes of the endpoint have the same command, and the relay's answer makes each sign it again.
    @Test func commandThatTwoProcessesSignAgainHasOneOutcome() async throws {
        let (first, second) = (try await world(), try await world())
        await first.connect()
        let (row, state) = try await first.launch("https://example.org/", on: target.id, appID: "player")
        let send = try await sent(by: first)
        await second.connect()
        let repeated = try await sent(by: second)
        #expect(repeated.command == send.command)
        let time = Milliseconds(clamping: row.command.created + 9 * 3_600_000)
        await first.answer(send.ref, .failure(.init(ref: send.ref, code: .clockSkew, message: "", time: time)))
        let again = try await sent(by: first, after: 1)
        await second.answer(repeated.ref, .failure(.init(ref: repeated.ref, code: .clockSkew, message: "", time: time)))
        let alike = try await sent(by: second, after: 1)
        #expect(alike.command == again.command)
        #expect(alike.again)
        let command = try SealedCommand(decoding: again.command.bytes).descriptor
        let receipt = Blob<BlobKinds.Receipt>(
            try Signed(CommandReceipt(for: command, outcome: .succeeded, time: 1), key: target.key).encoded
        )
        for world in [second, first] {
            await world.receiveStatus(.init(id: row.command.id, status: .attestedByTarget(receipt, reply: nil)))
            #expect(try await world.next { $0.acknowledged } == row.command.id)
        }
        guard case .final(let final) = await state.first(where: \.isEnded) else { return #expect(Bool(false)) }
        #expect(final.outcome == .succeeded)
        #expect(try second.endpoint.journal.read { try $0.sent(row.command.id)?.state } == .final(final))
        await first.end()
        await second.end()
    }

    /// The journal of the endpoint goes back to an earlier state, as with a restored backup.
    @Test func restoredJournalUsesNoNumberTwice() async throws {
        let copy = try TemporaryDirectory()
        let first = try await world()
        await first.connect()
        let path = first.endpoint.storage.journalPath
        await first.end()
        try FileManager.default.copyItem(atPath: path, toPath: copy.path + "/journal")
        let second = try await world()
        await second.connect()
        var numbers: [UInt64] = []
        for number in 1...3 {
            let (row, _) = try await second.launch("https://example.org/\(number)", on: target.id, appID: "player")
            numbers.append(row.command.number)
            await second.answer(try await sent(by: second, after: number - 1).ref, .ok(nil))
        }
        await second.end()
        for name in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + name) }
        try FileManager.default.copyItem(atPath: copy.path + "/journal", toPath: path)
        let third = try await world()
        await third.connect()
        let (row, _) = try await third.launch("https://example.org/4", on: target.id, appID: "player")
        #expect(try row.command.number > #require(numbers.max()))
        await third.end()
    }

    /// The relay has a higher number than this endpoint's stored state.
    @Test func commandWithAPassedNumberIsSentAgainAboveIt() async throws {
        let world = try await world()
        await world.connect()
        let (row, state) = try await world.launch("https://example.org/", on: target.id, appID: "player")
        let send = try await sent(by: world)
        let highest = row.command.number + 1_000_000_000
        await world.answer(send.ref, .failure(.init(ref: send.ref, code: .numberPassed, message: "", highest: highest)))
        let message = try await sent(by: world, after: 1)
        let again = try SealedCommand(decoding: message.command.bytes)
        #expect(again.header.id == row.command.id)
        #expect(again.header.number == highest + 1)
        #expect(again.header.firstNumber == row.command.number)
        #expect(again.header.expires == row.command.expires)
        #expect(!message.again)
        // The target has passed this one, too.
        await world.answer(message.ref, .ok(nil))
        let passed = CommandReceipt(for: again.descriptor, outcome: .failed(reason: "passed"), highest: highest + 9, time: 1)
        let receipt = Blob<BlobKinds.Receipt>(try Signed(passed, key: target.key).encoded)
        await world.receiveStatus(.init(id: row.command.id, status: .attestedByTarget(receipt, reply: nil)))
        let third = try await sent(by: world, after: 2)
        let last = try SealedCommand(decoding: third.command.bytes)
        #expect(last.header.number == highest + 10)
        #expect(last.header.firstNumber == row.command.number)
        // The same receipt once more says nothing about the new bytes.
        await world.receiveStatus(.init(id: row.command.id, status: .attestedByTarget(receipt, reply: nil)))
        await world.answer(third.ref, .ok(nil))
        let done = try Signed(CommandReceipt(for: last.descriptor, outcome: .succeeded, time: 1), key: target.key)
        await world.receiveStatus(.init(id: row.command.id, status: .attestedByTarget(Blob(done.encoded), reply: nil)))
        guard case .final(let final) = await state.first(where: \.isEnded) else { return #expect(Bool(false)) }
        #expect(final.outcome == .succeeded)
        // The next command goes on above them.
        let (next, _) = try await world.launch("https://example.org/2", on: target.id, appID: "player")
        #expect(next.command.number == highest + 11)
        await world.end()
    }

    @Test func cancelledUnsentCommandIsWithdrawn() async throws {
        let world = try await world()
        let (row, state) = try await world.launch("https://example.org/", on: target.id, appID: "player")
        try await world.cancel(row.command.id)
        #expect(await state.first(where: \.isEnded) == .withdrawn)
        #expect(try world.endpoint.journal.read { try $0.sent(row.command.id)?.state } == .withdrawn)
        await world.connect()
        #expect(try await world.commands().map(\.state) == [.withdrawn])
        #expect(world.sentMessages.value.compactMap(\.sending).isEmpty)
        await world.end()
    }

    /// The relay could not store the cancellation, and the connection stays.
    @Test func cancellationIsRepeatedUntilItIsStored() async throws {
        let world = try await world()
        await world.connect()
        let (row, state) = try await world.launch("https://example.org/", on: target.id, appID: "player")
        await world.answer(try await sent(by: world).ref, .ok(nil))
        try await world.cancel(row.command.id)
        func cancellation(_ number: Int) async throws -> RequestRef {
            let sentMessages = await world.sentMessages.first { $0.compactMap(\.cancelling).count >= number }
            return try #require(sentMessages?.compactMap(\.cancelling).dropFirst(number - 1).first)
        }
        let first = try await cancellation(1)
        await world.answer(first, .failure(.init(ref: first, code: .unavailable, message: "")))
        await world.delayBegins()
        #expect(await world.delays() == 1)
        await world.passDelays()
        let second = try await cancellation(2)
        await world.answer(second, .failure(.init(ref: second, code: .tooManyRequests, message: "")))
        await world.receiveStatus(.init(id: row.command.id, status: .attestedByRelay(.cancelled)))
        #expect(await state.first(where: \.isEnded) != nil)
        // The command has ended.
        await world.passDelays()
        #expect(world.sentMessages.value.compactMap(\.cancelling).count == 2)
        await world.end()
    }
}

extension EndpointMessage {
    var sending: CommandSend? { if case .commandSend(let message) = self { message } else { nil } }
    var cancelling: RequestRef? { if case .commandCancel(let message) = self { message.ref } else { nil } }
    var acknowledged: CommandID? { if case .commandAcknowledge(let message) = self { message.id } else { nil } }
    var result: CommandResult? { if case .commandResult(let message) = self { message } else { nil } }
    var received: CommandID? { if case .commandReceived(let message) = self { message.id } else { nil } }
}
