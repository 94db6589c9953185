// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

/// Commands, from the sender to the target and back.
@Suite struct CommandFlowTests {
    let sender = TestDevice(subject: "me")
    let target = TestDevice(subject: "me")

    private func received(_ command: SealedCommand) -> EndpointMessage {
        .commandReceived(.init(sender: command.header.sender, id: command.header.id))
    }

    private func result(_ command: SealedCommand, _ world: CoreWorld, _ outcome: CommandOutcome = .succeeded, ref: Int64 = 5) throws
        -> EndpointMessage
    {
        let receipt = try world.receipt(of: command, by: target, outcome)
        return .commandResult(.init(ref: testRef(ref), sender: command.header.sender, id: command.header.id, receipt: receipt))
    }

    @Test func commandIsOfferedHandledAndSettled() async throws {
        let world = try await CoreWorld()
        let (near, far) = (try await world.open(sender), try await world.open(target))
        let command = try await world.command(from: sender, to: target)
        #expect(try await near.send(command) == [.ok(.init(ref: testRef(), result: .init(state: .accepted)))])
        let offer = try await far.receive()
        let row = try await world.store.transact { [sender] in try $0.endpoint(sender.id) }
        let record = try #require(row).record
        #expect(offer == [.command(.init(command: Blob(command.encoded), sender: .init(record: Blob(record))))])
        #expect(try await world.row(command)?.state == .offered(received: false, cancelRequested: false))

        #expect(try await far.send(received(command)).isEmpty)
        #expect(try await near.receive().map(\.status) == [.step(.delivered)])
        let settled = try await far.send(try result(command, world))
        #expect(settled == [.commandSettled(.init(ref: testRef(5), sender: sender.id, id: command.header.id))])
        guard case .attestedByTarget(let receipt, nil)? = try await near.receive().first?.status else { throw TestError("no outcome") }
        _ = try Signed<CommandReceipt>(
            verifying: receipt.bytes,
            for: command.descriptor,
            from: target.record(command.header.account).payload,
            reply: nil
        )

        // Sent again on every new channel, host or client, until it is acknowledged.
        let client = try await world.open(sender, role: .client)
        #expect(try await client.receive().map(\.status) == [.attestedByTarget(receipt, reply: nil)])
        try await client.send(.commandAcknowledge(.init(id: command.header.id)))
        #expect(try await world.row(command) == nil)
        #expect(try await world.open(sender).receive().isEmpty)
    }

    @Test func commandIsOfferedWhenASuspendedTargetConnects() async throws {
        let world = try await CoreWorld()
        let near = try await world.open(sender)
        let far = try await world.open(target)
        try await far.send(.leaving(.init(ref: testRef(), reason: .suspended)))
        let command = try await world.command(from: sender, to: target)
        let answer = try await near.send(command)
        // No wake is sent, and no status reports one.
        #expect(answer.map(\.isOK) == [true])
        #expect(try await far.receive().isEmpty)
        #expect(try await world.row(command)?.state == .stored)
        let awake = try await world.open(target)
        #expect(try await awake.receive().map(\.offered) == [command.encoded])
        // Without an answer of the target it is offered on every channel, and also after `received`.
        try await awake.send(received(command))
        let third = try await world.open(target)
        #expect(try await third.receive().map(\.offered) == [command.encoded])
    }

    @Test func commandWithATooLongLifeIsRejected() async throws {
        let world = try await CoreWorld()
        let near = try await world.open(sender)
        _ = try await world.open(target)
        let command = try await world.command(from: sender, to: target)
        var header = command.header
        header.expires = header.created + CommandPeriod.maximumLife + 1
        // The relay leaves the signature to the target.
        var envelope = try ValueSet(decoding: command.encoded)
        envelope["header"] = .data(try ValueSetEncoder().encode(header).encodedBytes())
        let answer = try await near.send(.commandSend(.init(ref: testRef(), command: Blob(try envelope.encodedBytes()))))
        guard case .failure(let failure)? = answer.first else { throw TestError("no error") }
        #expect(failure.code == .livesTooLong && !failure.mayHaveRun)
        #expect(try await world.row(command) == nil)
    }

    @Test func repeatedSendReturnsTheCurrentState() async throws {
        let world = try await CoreWorld()
        let (near, far) = (try await world.open(sender), try await world.open(target))
        let command = try await world.command(from: sender, to: target)
        try await near.send(command)
        #expect(try await near.send(command, again: true).map(\.okState) == [.accepted])
        try await far.send(received(command))
        _ = try await near.receive()
        #expect(try await near.send(command, again: true).first?.okState == .delivered)
        try await far.send(try result(command, world))
        _ = try await near.receive()
        world.clock.pass(400_000)
        let answer = try await near.send(command, again: true)
        #expect(answer.first?.okState == .final)
        #expect(answer.count == 2)
        #expect(try await far.receive().isEmpty)
    }

    @Test func cancelAsksTheTargetOnlyAfterTheOffer() async throws {
        let world = try await CoreWorld()
        let near = try await world.open(sender)
        let asleep = try await world.open(target)
        try await asleep.disconnect()
        let early = try await world.command(from: sender, to: target)
        try await near.send(early)
        let answer = try await near.send(.commandCancel(.init(ref: testRef(2), id: early.header.id)))
        #expect(answer.first?.okState == .final)
        #expect(answer.last?.status == .attestedByRelay(.cancelled))
        let far = try await world.open(target)
        #expect(try await far.receive().isEmpty)

        let late = try await world.command(from: sender, to: target, number: 2)
        try await near.send(late)
        _ = try await far.receive()
        #expect(try await near.send(.commandCancel(.init(ref: testRef(2), id: late.header.id))).map(\.okState) == [.accepted])
        #expect(try await far.receive() == [.commandCancel(.init(sender: sender.id, id: late.header.id))])
        // Behind the offer on the next channel, too.
        let again = try await world.open(target)
        #expect(try await again.receive().map(\.offered) == [late.encoded, nil])
        #expect(
            try await near.send(.commandCancel(.init(ref: testRef(3), id: try await world.command(from: sender, to: target).header.id)))
                .first?.failure?.code == .notFound
        )
    }

    @Test func unansweredCommandsExpireOrBecomeIndeterminate() async throws {
        let world = try await CoreWorld()
        let near = try await world.open(sender)
        let asleep = try await world.open(target)
        try await asleep.disconnect()
        let waiting = try await world.command(from: sender, to: target, life: 60_000)
        try await near.send(waiting)
        _ = near.peer.take()
        world.clock.pass(59_999)
        world.core.handleDeadlines()
        #expect(try await near.receive().isEmpty)
        world.clock.pass(1)
        world.core.handleDeadlines()
        #expect(try await near.receive().map(\.status) == [.attestedByRelay(.expired)])
        world.clock.pass(CommandPeriod.retention)
        world.core.handleDeadlines()
        try await world.settle()
        #expect(try await world.row(waiting) == nil)

        let far = try await world.open(target)
        let offered = try await world.command(from: sender, to: target, number: 2, life: 60_000)
        try await near.send(offered)
        #expect(try await far.receive().count == 1)
        _ = near.peer.take()
        world.clock.pass(60_000 + CommandPeriod.grace - 1)
        world.core.handleDeadlines()
        #expect(try await near.receive().isEmpty)
        world.clock.pass(1)
        world.core.handleDeadlines()
        #expect(try await near.receive().map(\.status) == [.attestedByRelay(.indeterminate(.targetLost))])
        // Too late: it is settled, and nothing changes.
        guard case .commandSettled? = try await far.send(try result(offered, world)).first else { throw TestError("not settled") }
        #expect(try await near.receive().isEmpty)
    }

    @Test func allExpiredCommandsEndTogether() async throws {
        let world = try await CoreWorld()
        let near = try await world.open(sender)
        let far = try await world.open(target)
        try await far.disconnect()
        for number in 1...150 {
            try await near.send(try await world.command(from: sender, to: target, number: UInt64(number), life: 1_000))
        }
        _ = near.peer.take()
        world.clock.pass(1_000)
        world.core.handleDeadlines()
        #expect(try await near.receive().count { $0.status == .attestedByRelay(.expired) } == 150)
    }

    @Test func windowLimitsUnansweredOffers() async throws {
        let world = try await CoreWorld()
        let near = try await world.open(sender)
        let asleep = try await world.open(target)
        try await asleep.disconnect()
        var commands: [SealedCommand] = []
        for number in 1...20 {
            commands.append(try await world.command(from: sender, to: target, number: UInt64(number)))
            try await near.send(commands[number - 1])
        }
        let far = try await world.open(target)
        #expect(try await far.receive().map(\.offered) == commands.prefix(16).map(\.encoded))
        try await far.send(received(commands[0]))
        try await far.send(try result(commands[1], world))
        #expect(try await far.receive().isEmpty)
        let all = try await near.receive()
        #expect(all.contains { $0.status == .step(.delivered) })
        try await far.send(received(commands[2]))
        #expect(try await world.row(commands[18])?.state == .offered(received: false, cancelRequested: false))
        #expect(try await world.row(commands[19])?.state == .stored)
    }

    @Test func outcomesWaitForASenderThatReadsSlowly() async throws {
        let world = try await CoreWorld()
        let (near, far) = (try await world.open(sender), try await world.open(target))
        var ids: [CommandID] = []
        for number in 1...40 {
            let command = try await world.command(from: sender, to: target, number: UInt64(number))
            try await near.send(command)
            try await far.send(try result(command, world))
            ids.append(command.header.id)
        }
        try await near.disconnect()
        func outcomes(_ messages: [RelayMessage]) -> [CommandID] {
            messages.compactMap { if case .commandStatus(let status) = $0 { status.id } else { nil } }
        }
        let peer = TestPeer(isReading: false)
        let again = try await world.open(sender, peer: peer)
        #expect(outcomes(peer.take()) == Array(ids.prefix(16)))
        // The sender has acknowledged this one on another channel.
        let other = try await world.open(sender, role: .client)
        try await other.send(.commandAcknowledge(.init(id: ids[16])))
        peer.read(1)
        #expect(outcomes(try await again.receive()) == [ids[17]])
        peer.read()
        #expect(outcomes(try await again.receive()) == Array(ids.suffix(22)))
    }

    @Test func eachRejectedCommandGetsItsCode() async throws {
        var limits = Limits()
        limits[.mailboxCommands] = 3
        let world = try await CoreWorld(limits: limits)
        let near = try await world.open(sender)
        let far = try await world.open(target)
        try await far.disconnect()
        func rejection(_ command: SealedCommand, again: Bool = false) async throws -> RelayMessage.Failure? {
            try await near.send(command, again: again).first?.failure
        }
        let first = try await world.command(from: sender, to: target, number: 5)
        #expect(try await rejection(first) == nil)
        let passed = try await rejection(try await world.command(from: sender, to: target, number: 5))
        #expect(passed?.code == .numberPassed)
        #expect(passed?.mayHaveRun == false)
        #expect(try await rejection(try await world.command(from: sender, to: TestDevice(subject: "me")))?.code == .targetUnknown)

        let old = try await world.command(from: sender, to: target, number: 6, life: 900_000)
        world.clock.pass(CommandPeriod.creationTolerance + 1)
        let skewed = try await rejection(old)
        #expect(skewed?.code == .clockSkew)
        #expect(skewed?.time?.count == world.clock.now)
        #expect(try await rejection(old, again: true) == nil)
        let brief = try await world.command(from: sender, to: target, number: 7, life: 10)
        world.clock.pass(10)
        #expect(try await rejection(brief)?.code == .expired)

        #expect(try await rejection(try await world.command(from: sender, to: target, number: 8)) == nil)
        let full = try await rejection(try await world.command(from: sender, to: target, number: 9))
        #expect(full?.code == .mailboxFull)
        #expect(full?.limit?.name == "mailboxCommands")

        // Signed by another, for another account, for another relay.
        let forged = try await world.command(from: TestDevice(subject: "me"), to: target)
        #expect(try await rejection(forged)?.code == .signatureInvalid)
        let foreign = try await world.command(from: sender, to: target, account: "elsewhere")
        #expect(try await rejection(foreign)?.code == .signatureInvalid)
        let elsewhere = try await CoreWorld().command(from: sender, to: target, account: first.header.account)
        #expect(try await rejection(elsewhere)?.code == .signatureInvalid)
        let garbage = try await near.send(.commandSend(.init(ref: testRef(), command: Blob([1, 2]), again: true)))
        #expect(garbage.first?.failure?.code == .malformed)
    }

    @Test func relayForwardsACommandWithAnInvalidSignature() async throws {
        let world = try await CoreWorld()
        let (near, far) = (try await world.open(sender), try await world.open(target))
        var changed = try await world.command(from: sender, to: target).encoded
        changed[changed.count - 1] ^= 1
        #expect(try await near.send(.commandSend(.init(ref: testRef(), command: Blob(changed)))).first?.isOK == true)
        #expect(try await far.receive().map(\.offered) == [changed])
    }

    /// A command that finds its target ready is offered in the transaction that stores it; others wait for theirs.
    @Test(arguments: 1...20 as ClosedRange<UInt64>) func commandsOfALaneAreOfferedInOrder(seed: UInt64) async throws {
        let world = try await CoreWorld()
        var random = SeededGenerator(seed: seed)
        let near = try await world.open(sender)
        let account = try await world.account(of: sender)
        var commands: [SealedCommand] = []
        for number in 1...30 as ClosedRange<UInt64> {
            commands.append(try await world.command(from: sender, to: target, number: number, account: account))
        }
        var far: Session? = try await world.open(target)
        var seen: [UInt64] = []
        func listen(answersAll: Bool = false) async throws {
            for offer in try await far?.receive().compactMap(\.offered) ?? [] {
                let command = try SealedCommand(decoding: offer)
                // What was not answered is offered again on the next channel.
                if !seen.contains(command.header.number) { seen.append(command.header.number) }
                guard let far, answersAll || .random(using: &random) else { continue }
                _ = world.core.receive(received(command), on: far.channel)
            }
        }
        for command in commands {
            // No message waits for an answer.
            _ = world.core.receive(.commandSend(.init(ref: testRef(), command: Blob(command.encoded))), on: near.channel)
            switch Int.random(in: 0..<6, using: &random) {
            case 0: try await listen()
            case 1:
                try await listen()
                if let gone = far { world.core.disconnected(gone.channel, isSilent: false) }
                far = nil
            case 2, 3:
                if far == nil { far = try await world.open(target) }
            default: break
            }
        }
        if far == nil { far = try await world.open(target) }
        for _ in 0..<4 { try await listen(answersAll: true) }
        try await far?.disconnect()
        far = try await world.open(target)
        for _ in 0..<4 { try await listen(answersAll: true) }
        #expect(seen == Array(1...30), "seed \(seed)")
    }

    @Test func senderThatAcknowledgesNothingGetsMailboxFull() async throws {
        var limits = Limits()
        limits[.mailboxCommands] = 3
        let world = try await CoreWorld(limits: limits)
        let (near, far) = (try await world.open(sender), try await world.open(target))
        var codes: [ControlErrorCode?] = []
        for number in 1...5 {
            let command = try await world.command(from: sender, to: target, number: UInt64(number))
            codes.append(try await near.send(command).compactMap(\.failure).first?.code)
            try await far.send(try result(command, world))
        }
        #expect(codes == [nil, nil, nil, .mailboxFull, .mailboxFull])
    }

    @Test func wrongReceiptIsRejectedOrIgnored() async throws {
        let world = try await CoreWorld()
        let (near, far) = (try await world.open(sender), try await world.open(target))
        let command = try await world.command(from: sender, to: target)
        try await near.send(command)
        _ = near.peer.take()
        let id = command.header.id
        let lane = command.descriptor.lane
        func elsewhere(from sender: EndpointID, to target: EndpointID) throws -> Blob<BlobKinds.Receipt> {
            let known = command.descriptor
            let other = CommandDescriptor(
                id: id,
                lane: CommandLane(sender: sender, target: target, appID: lane.appID),
                number: known.number,
                created: known.created,
                expires: known.expires,
                digest: known.digest,
                size: known.size
            )
            return Blob(try Signed(CommandReceipt(for: other, outcome: .succeeded, time: 1), key: self.target.identityKey).encoded)
        }
        let wrong: [(Blob<BlobKinds.Receipt>, reply: Blob<BlobKinds.Reply>?, ControlErrorCode)] = [
            (try world.receipt(of: command, by: target), Blob([1]), .signatureInvalid),
            (try elsewhere(from: lane.target, to: lane.target), nil, .signatureInvalid),
            (try elsewhere(from: lane.sender, to: lane.sender), nil, .signatureInvalid),
            (Blob([1]), nil, .malformed),
        ]
        for (receipt, reply, code) in wrong {
            let message = EndpointMessage.CommandResult(ref: testRef(), sender: sender.id, id: id, receipt: receipt, reply: reply)
            #expect(try await far.send(.commandResult(message)).last?.failure?.code == code)
        }
        #expect(try await near.receive().isEmpty)
        #expect(try await world.row(command)?.state == .offered(received: false, cancelRequested: false))
        // For other bytes under the same id: settled, and nothing changes.
        let other = try await world.command(from: sender, to: target, number: 2)
        let receipt = try world.receipt(of: other, by: target)
        let answer = try await far.send(.commandResult(.init(ref: testRef(), sender: sender.id, id: id, receipt: receipt)))
        guard case .commandSettled? = answer.last else { throw TestError("not settled") }
        #expect(try await near.receive().isEmpty)
    }

    /// As with a command's own signature: the relay forwards it, and the sender verifies it.
    @Test func relayForwardsAReceiptWithAnInvalidSignature() async throws {
        let world = try await CoreWorld()
        let (near, far) = (try await world.open(sender), try await world.open(target))
        let command = try await world.command(from: sender, to: target)
        try await near.send(command)
        _ = near.peer.take()
        let forged = try world.receipt(of: command, by: sender)
        let result = EndpointMessage.CommandResult(ref: testRef(), sender: sender.id, id: command.header.id, receipt: forged)
        guard case .commandSettled? = try await far.send(.commandResult(result)).last else { throw TestError("not settled") }
        #expect(try await near.receive().map(\.status) == [.attestedByTarget(forged, reply: nil)])
        // The delivery is over: the target is not asked again.
        #expect(try await world.open(target).receive().isEmpty)
    }

    @Test func removingAnEndpointEndsItsCommands() async throws {
        let world = try await CoreWorld()
        let first = TestDevice(subject: "me")
        let revoker = try await world.open(first)
        let near = try await world.open(sender)
        let far = try await world.open(target)
        let offered = try await world.command(from: sender, to: target)
        try await near.send(offered)
        _ = try await far.receive()
        try await far.disconnect()
        let waiting = try await world.command(from: sender, to: target, number: 2)
        try await near.send(waiting)
        _ = near.peer.take()
        try await revoker.send(first.revocation(of: target.id, account: revoker.account))
        let statuses = try await near.receive().compactMap(\.status)
        #expect(statuses == [.attestedByRelay(.indeterminate(.targetLost)), .attestedByRelay(.cancelled)])
        let late = try await near.send(try await world.command(from: sender, to: target, number: 3))
        #expect(late.first?.failure?.code == .targetUnknown)

        let next = TestDevice(subject: "me")
        let newFar = try await world.open(next)
        try await near.send(try await world.command(from: sender, to: next))
        _ = try await newFar.receive()
        try await revoker.send(first.revocation(of: sender.id, account: revoker.account))
        guard case .commandCancel? = try await newFar.receive().last else { throw TestError("not asked to stop") }
        #expect(near.peer.closeCode == 1008)
    }

    @Test(arguments: 0..<6) func restartAtAnyStageLosesNothing(_ stage: Int) async throws {
        let world = try await CoreWorld()
        var (near, far) = (try await world.open(sender), try await world.open(target))
        let command = try await world.command(from: sender, to: target)
        var outcomes: [RelayMessage.CommandStatus.Status] = []
        for step in 0..<6 {
            if step == stage {
                try await world.restart()
                (near, far) = (try await world.open(sender), try await world.open(target))
                if step > 0, step < 5 {
                    #expect(try await near.send(command, again: true).contains(where: \.isOK))
                    let offers = try await far.receive().compactMap(\.offered)
                    #expect(offers == (step < 4 ? [command.encoded] : []), "stage \(stage)")
                }
            }
            switch step {
            case 0: #expect(try await near.send(command).first?.isOK == true)
            case 1: break
            case 2: try await far.send(received(command))
            case 3: try await far.send(try result(command, world))
            case 4:
                outcomes += try await near.receive().compactMap(\.status).filter { if case .attestedByTarget = $0 { true } else { false } }
            default: try await near.send(.commandAcknowledge(.init(id: command.header.id)))
            }
        }
        #expect(Set(outcomes).count <= 1)
        #expect(try await world.row(command) == nil)
    }

    @Test func newDatabaseAssumesThatCommandsMayHaveRun() async throws {
        let world = try await CoreWorld(age: 0)
        let near = try await world.open(sender)
        let far = try await world.open(target)
        try await far.disconnect()
        let command = try await world.command(from: sender, to: target, life: 60_000)
        // It may have been accepted, and have run, before the database was lost.
        #expect(try await near.send(command, again: true).first?.isOK == true)
        #expect(try await world.row(command)?.state == .offered(received: false, cancelRequested: false))
        let rejected = try await near.send(try await world.command(from: sender, to: TestDevice(subject: "me")), again: true)
        #expect(rejected.first?.failure?.mayHaveRun == true)
        world.clock.pass(60_000)
        world.core.handleDeadlines()
        #expect(try await near.receive().allSatisfy { $0.status == nil })

        // A result for what is not known is not settled by a young database.
        let awake = try await world.open(target)
        let lost = try await world.command(from: sender, to: target, number: 2)
        #expect(try await awake.send(try result(lost, world)).last?.failure?.code == .notFound)
        world.clock.pass(CommandPeriod.retention)
        guard case .commandSettled? = try await awake.send(try result(lost, world)).last else { throw TestError("not settled") }
    }
}
