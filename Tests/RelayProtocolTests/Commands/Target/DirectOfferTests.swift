// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

/// What a target does with commands that come from the relay and from their senders.
@Suite struct DirectOfferTests {
    private let clock = TargetClock(own: 1_000_000_001, relay: 1_000_000_001)
    private let command = CommandDescriptor.test(number: 3)
    private var direct: CommandPath { .direct(command.lane.sender) }

    @Test func resultLeavesOnEachPath() {
        var target = CommandTarget()
        let taken = target.offered(command, check: .valid, on: direct, clock)
        #expect(taken.contains(.sendReceived(command.key, on: direct)))
        #expect(target.offered(command, check: .valid, clock) == [.sendReceived(command.key)])
        let ended = target.handlerEnded(command.key, .succeeded, reply: nil, clock)
        #expect(ended.prefix(2) == [.sendResult(command.key), .sendResult(command.key, on: direct)])
        // A new connection on each path gets it again.
        #expect(target.connected() == [.sendResult(command.key)])
        #expect(target.connected(direct) == [.sendResult(command.key, on: direct)])
        #expect(target.connected(.direct(.test(9))) == [])
    }

    @Test func settledResultAnswersLateOffers() {
        var target = CommandTarget()
        _ = target.offered(command, check: .valid, clock)
        _ = target.handlerEnded(command.key, .succeeded, reply: [1, 2], clock)
        guard case .keepSettled(let row)? = target.settled(command.key, isKept: true).first else { return #expect(Bool(false)) }
        #expect(row.state == .settled(.succeeded) && row.replyBytes == 2 && target.isEmpty)
        #expect(target.offered(command, check: .valid, on: direct, clock) == [.sendResult(command.key, on: direct)])
        #expect(target.settled(command.key, on: direct) == [])
        // It is read back, and forgotten when nobody offers it any more.
        var restored = CommandTarget(rows: [row])
        #expect(restored.isEmpty && restored.knows(command))
        #expect(restored.start(clock) == [])
        #expect(restored.connected() == [])
        let end = command.expires + CommandPeriod.grace
        #expect(restored.removeForgotten(TargetClock(own: end, relay: end - 1)) == [])
        #expect(restored.removeForgotten(TargetClock(own: end, relay: end)) == [.remove(command.key)])
        #expect(!restored.knows(command))
    }

    /// A relay that has not offered it may have forgotten it, and the sender not know the result.
    @Test func relayThatHasNotOfferedItSettlesNothing() {
        var target = CommandTarget()
        _ = target.offered(command, check: .valid, on: direct, clock)
        _ = target.handlerEnded(command.key, .succeeded, reply: nil, clock)
        #expect(target.connected().isEmpty && target.settled(command.key) == [])
        #expect(target.settled(command.key, on: direct) == [.remove(command.key)])
    }

    @Test func resultThatNobodyTakesIsForgotten() {
        var target = CommandTarget()
        _ = target.offered(command, check: .valid, on: direct, clock)
        _ = target.handlerEnded(command.key, .succeeded, reply: nil, clock)
        let end = command.expires + CommandPeriod.grace + CommandPeriod.retention
        #expect(target.removeForgotten(TargetClock(own: end, relay: end - 1)) == [])
        #expect(target.removeForgotten(TargetClock(own: end, relay: end)) == [.remove(command.key)])
    }

    @Test func cancelledOfferOfAnUnknownCommandNeverRuns() {
        var target = CommandTarget()
        let actions = target.offered(command, check: .valid, isCancelled: true, on: direct, clock)
        let row = CommandTarget.Row(restoring: command, state: .answered(.cancelled), paths: [direct])
        #expect(actions == [.persist(row, highest: 3, reply: nil), .sendResult(command.key, on: direct)])
        #expect(target.offered(command, check: .valid, clock) == [.sendResult(command.key)])
    }

    @Test func cancelledOfferOfAWaitingCommandCancelsIt() {
        let next = CommandDescriptor.test(number: 4)
        var target = CommandTarget()
        _ = target.offered(command, check: .valid, clock)
        _ = target.offered(next, check: .valid, clock)
        // The first one runs: its handler is told.
        #expect(
            target.offered(command, check: .valid, isCancelled: true, on: direct, clock)
                == [.sendReceived(command.key, on: direct), .tellCancelled(command.key)]
        )
        let actions = target.offered(next, check: .valid, isCancelled: true, on: direct, clock)
        #expect(actions.contains(.sendResult(next.key)) && actions.contains(.sendResult(next.key, on: direct)))
    }

    @Test func offerThatCannotBeTakenIsPostponed() {
        var limits = Limits()
        limits[.mailboxCommands] = 1
        var target = CommandTarget(limits: limits)
        _ = target.offered(command, check: .valid, clock)
        let next = CommandDescriptor.test(number: 4)
        #expect(target.offered(next, check: .valid, on: direct, clock) == [.postpone(next.key)])
        #expect(target.offered(next, check: .unverifiable, on: direct, clock) == [.postpone(next.key)])
        #expect(
            target.offered(next, check: .forged(reason: "no"), on: direct, clock)
                == [.sendUnstoredResult(next, .failed(reason: "no"), highest: nil, on: direct)]
        )
    }

    /// The stored state has gone back: it may have run.
    @Test func receivedCommandThatIsUnknownIsForgotten() {
        var target = CommandTarget()
        #expect(
            target.offered(command, check: .valid, wasReceived: true, on: direct, clock)
                == [.sendUnstoredResult(command, .indeterminate(.forgotten), highest: nil, on: direct)]
        )
    }

    // MARK: What is kept

    private func row(_ number: UInt64, from sender: EndpointID, bytes: Int = 1) -> CommandTarget.Row {
        var ids = Identifiers()
        var id = ids.next()
        for _ in 0..<number { id = ids.next() }
        let command = CommandDescriptor(
            id: id,
            lane: CommandLane(sender: sender, target: .test(9), appID: "player"),
            number: number,
            created: 0,
            expires: 10,
            digest: CommandWorld.digest(id, 0, number),
            size: 1
        )
        return CommandTarget.Row(restoring: command, state: .settled(.succeeded), replyBytes: bytes - 1)
    }

    @Test func keptResultsAreBounded() {
        var settled = SettledCommands()
        let most = SettledCommands.maximumPerSender
        for number in 1...UInt64(most.commands) { #expect(settled.add(row(number, from: .test(1))) == []) }
        #expect(settled.add(row(5_000, from: .test(1))) == [row(1, from: .test(1)).command.key])
        #expect(settled.add(row(6_000, from: .test(2), bytes: most.bytes)) == [])
        // One large result takes the places of the sender's older ones, and of nobody else's.
        #expect(settled.add(row(6_001, from: .test(2), bytes: most.bytes)) == [row(6_000, from: .test(2)).command.key])
        // All together: the sender that has most gives way.
        for sender in 3...5 { #expect(settled.add(row(1, from: .test(sender), bytes: most.bytes - 2_000)) == []) }
        let removed = settled.add(row(1, from: .test(6), bytes: 6_000))
        #expect(removed == [row(6_001, from: .test(2)).command.key])
    }
}
