// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// The commands that an endpoint takes, on a real journal.
@Suite(.timeLimit(.minutes(5))) struct InboxTests {
    private let directory: TemporaryDirectory
    private let sender: Member

    init() throws {
        directory = try TemporaryDirectory()
        sender = try Member("Sender")
    }

    /// An app that records its launches, and answers when the test permits it.
    private struct App {
        let launched = CurrentValue<[String]>([])
        let mayAnswer = CurrentValue(true)

        var registration: RemoteSystemAppRegistration {
            RemoteSystemAppRegistration(
                appID: "player",
                launchHandler: LaunchHandler(schemes: ["https"]) { [launched, mayAnswer] request in
                    launched.update { $0.append(request.uri.text) }
                    _ = await mayAnswer.first { $0 }
                    return .launched
                }
            )
        }
    }

    private func world(_ app: App, isListed: Bool = true) async throws -> EndpointWorld {
        let world = try EndpointWorld(directory, app: app.registration)
        if isListed { await world.list(sender.record) }
        await world.startInbox()
        await world.connect()
        return world
    }

    private func command(_ number: UInt64, for target: Signed<EndpointRecord>) throws -> SealedCommand {
        try SealedCommand.launch("https://example.org/\(number)", number, by: sender, on: target)
    }

    private func row(of command: SealedCommand, in world: EndpointWorld) throws -> JournalTransaction.Result? {
        try world.endpoint.journal.read { try $0.result(command.descriptor.key) }
    }

    @Test func offeredCommandIsHandledAndSettled() async throws {
        let app = App()
        let world = try await world(app)
        let command = try command(1, for: try await world.record())
        await world.offered(Blob(command.encoded), from: sender.record)
        let result = try await world.next { $0.result }
        #expect(app.launched.value == ["https://example.org/1"])
        #expect(world.sentMessages.value.first?.received == command.header.id)
        #expect(try await result.outcome(of: command, by: world.record()) == .succeeded)
        await world.answer(result.ref, .settled(.init(ref: result.ref, sender: sender.id, id: command.header.id)))
        await world.end()
        let next = try EndpointWorld(directory)
        #expect(try next.endpoint.journal.read { try $0.receivedContent(command.descriptor.key) } == nil)
        await next.end()
    }

    @Test func commandOfferedTwiceIsHandledOnce() async throws {
        let app = App()
        let world = try await world(app)
        let command = try command(1, for: try await world.record())
        for _ in 0..<3 { await world.offered(Blob(command.encoded), from: sender.record) }
        _ = try await world.next { $0.result }
        await world.offered(Blob(command.encoded), from: sender.record)
        _ = await world.sentMessages.first { $0.compactMap(\.result).count == 2 }
        #expect(app.launched.value.count == 1)
        // The very bytes: two receipts for one command would be two outcomes.
        #expect(Set(world.sentMessages.value.compactMap(\.result?.receipt.bytes)).count == 1)
        await world.end()
    }

    /// The account has no room for the result, and gets room on the same connection.
    @Test func resultThatFoundNoRoomIsSentAgain() async throws {
        let app = App()
        let world = try await world(app)
        let command = try command(1, for: try await world.record())
        await world.offered(Blob(command.encoded), from: sender.record)
        let first = try await world.next { $0.result }
        let exceeded = LimitExceeded(limit: .accountBytes, allowed: 1, requested: 2)
        await world.answer(first.ref, .failure(.init(ref: first.ref, exceeding: exceeded)))
        await world.delayBegins()
        await world.passDelays()
        let sentMessages = await world.sentMessages.first { $0.compactMap(\.result).count == 2 }
        let second = try #require(sentMessages?.compactMap(\.result).last)
        #expect(second.receipt.bytes == first.receipt.bytes)
        await world.answer(second.ref, .settled(.init(ref: second.ref, sender: sender.id, id: command.header.id)))
        await world.passDelays()
        await world.end()
        #expect(world.sentMessages.value.compactMap(\.result).count == 2)
        #expect(app.launched.value.count == 1)
    }

    /// However often the relay says that there is no room, one delay serves all results, and each is sent once after it.
    @Test func resultsThatFindNoRoomDoNotMultiply() async throws {
        let app = App()
        let world = try await world(app)
        let record = try await world.record()
        var count = 0
        for number in 1...3 as ClosedRange<UInt64> {
            let command = try command(number, for: record)
            // The relay offers it again, so its result is sent twice.
            for _ in 0..<2 {
                await world.offered(Blob(command.encoded), from: sender.record)
                count += 1
                let expected = count
                let results = await world.sentMessages.first { $0.compactMap(\.result).count == expected }?.compactMap(\.result)
                let ref = try #require(results?.last?.ref)
                let exceeded = LimitExceeded(limit: .accountBytes, allowed: 1, requested: 2)
                await world.answer(ref, .failure(.init(ref: ref, exceeding: exceeded)))
            }
        }
        func results(_ count: Int) async throws -> [EndpointMessage.CommandResult] {
            let sentMessages = await world.sentMessages.first { $0.compactMap(\.result).count >= count }
            return try #require(sentMessages).compactMap(\.result)
        }
        await world.delayBegins()
        #expect(await world.delays() == 1)
        await world.passDelays()
        // One finds out whether there is room.
        var last = try #require(try await results(7).last)
        let exceeded = LimitExceeded(limit: .accountBytes, allowed: 1, requested: 2)
        await world.answer(last.ref, .failure(.init(ref: last.ref, exceeding: exceeded)))
        await world.delayBegins()
        #expect(await world.delays() == 1)
        await world.passDelays()
        last = try #require(try await results(8).last)
        #expect(world.sentMessages.value.compactMap(\.result).count == 8)
        // A result beyond another limit will never fit.
        let other = LimitExceeded(limit: .replyBytes, allowed: 1, requested: 2)
        await world.answer(last.ref, .failure(.init(ref: last.ref, exceeding: other)))
        #expect(await world.delays() == 0)
        await world.end()
    }

    /// The relay says that the sender is revoked, and lists it again. An answer meanwhile would not be true.
    @Test func commandOfASenderThatOnlyTheRelayRevokesIsNotAnswered() async throws {
        let app = App()
        let world = try await world(app)
        let command = try command(1, for: try await world.record())
        await world.removed(.init(endpoint: sender.id, isRevoked: true, revocation: nil))
        await world.offered(Blob(command.encoded), from: sender.record)
        await world.disconnect()
        await world.list(sender.record)
        await world.connect()
        await world.offered(Blob(command.encoded), from: sender.record)
        let result = try await world.next { $0.result }
        #expect(try await result.outcome(of: command, by: world.record()) == .succeeded)
        #expect(app.launched.value.count == 1)
        #expect(world.sentMessages.value.compactMap(\.result).count == 1)
        await world.end()
    }

    @Test func commandInterruptedByACrashIsNotHandledAgain() async throws {
        let app = App()
        app.mayAnswer.update { $0 = false }
        let first = try await world(app)
        let command = try command(1, for: try await first.record())
        await first.offered(Blob(command.encoded), from: sender.record)
        _ = await app.launched.first { !$0.isEmpty }
        await first.crash()
        let second = try await world(app)
        let result = try await second.next { $0.result }
        let receipt = try Signed<CommandReceipt>(
            verifying: result.receipt.bytes,
            for: command.descriptor,
            from: try await second.record().payload,
            reply: nil
        )
        #expect(receipt.payload.outcome == .indeterminate(.interrupted))
        await second.offered(Blob(command.encoded), from: sender.record)
        _ = await second.sentMessages.first { $0.compactMap(\.result).count == 2 }
        #expect(app.launched.value.count == 1)
        app.mayAnswer.update { $0 = true }
        await first.end()
        await second.end()
    }

    @Test func resultWithoutAConnectionIsStored() async throws {
        let app = App()
        app.mayAnswer.update { $0 = false }
        let world = try await world(app)
        let command = try command(1, for: try await world.record())
        await world.offered(Blob(command.encoded), from: sender.record)
        _ = await app.launched.first { !$0.isEmpty }
        await world.disconnect()
        app.mayAnswer.update { $0 = true }
        while try row(of: command, in: world) == nil { await Task.yield() }
        await world.end()
        let next = try EndpointWorld(directory)
        let stored = try #require(try row(of: command, in: next))
        await next.startInbox()
        await next.connect()
        #expect(try await next.next { $0.result }.receipt.bytes == stored.receipt)
        await next.end()
    }

    @Test func commandOfAnUnlistedSenderWaits() async throws {
        let app = App()
        let world = try await world(app, isListed: false)
        let command = try command(1, for: try await world.record())
        await world.offered(Blob(command.encoded), from: sender.record)
        #expect(app.launched.value.isEmpty)
        #expect(world.sentMessages.value.isEmpty)
        await world.list(sender.record)
        _ = try await world.next { $0.result }
        #expect(app.launched.value.count == 1)
        await world.end()
    }
}
