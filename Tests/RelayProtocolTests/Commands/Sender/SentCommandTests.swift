// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

@Suite struct SentCommandTests {
    private let command = CommandDescriptor.test(number: 1)
    private var now: Int64 { command.created }
    private let done = CommandFinal(outcome: .succeeded, receipt: [1], reply: [2])

    private func sent() -> SentCommand {
        var row = SentCommand.prepare(command, isConnected: true).0
        _ = row.connected()
        return row
    }

    private func accepted() -> SentCommand {
        var row = sent()
        _ = row.accepted()
        return row
    }

    private func certain(_ reason: CommandRejection.Reason) -> CommandRejection { CommandRejection(reason, mayHaveRun: false) }
    private func doubtful(_ reason: CommandRejection.Reason) -> CommandRejection { CommandRejection(reason, mayHaveRun: true) }

    @Test func commandIsStoredBeforeItIsSent() {
        var (row, actions) = SentCommand.prepare(command, isConnected: true)
        #expect(actions == [.persist(row)])
        // Sending it needs no second write: the stored row already says `sent`.
        #expect(row.state == .queued)
        #expect(row.stored.state == .sent)
        actions = row.connected()
        #expect(actions == [.send(again: false)])
        #expect(row.state == row.stored.state)
        #expect(row.connected() == [.send(again: true)])
    }

    /// It is stored as sent, and another process may have sent it.
    @Test func queuedCommandIsCancelledOnceItIsSent() {
        var (row, _) = SentCommand.prepare(command, isConnected: true)
        #expect(row.ended(done, receiptIsValid: true) == [.reject])
        #expect(row.progressed(.delivered) == [])
        #expect(row.refused(certain(.expired), now: now) == [])
        #expect(row.cancel() == [.persist(row)])
        #expect(row.cancel().isEmpty)
        #expect(row.connected() == [.send(again: false), .cancel])
    }

    /// The relay may take from one process what it refuses another for the moment.
    @Test func refusalOfWhatAnotherProcessMaySendIsNoEnd() {
        let full = certain(.limit(.init(limit: .mailboxCommands, allowed: 1, requested: 2)))
        let (stored, _) = SentCommand.prepare(command, isConnected: true)
        var own = stored
        _ = own.connected()
        var other = stored.stored
        #expect(other.connected() == [.persist(other), .send(again: true)])
        #expect(other.isShared && other.connected() == [.send(again: true)])
        // The process that has stored it does not know of the other yet. Its refusal is not stored.
        var refused = own
        #expect(refused.refused(full, now: now) == [.persist(refused), .answered, .report(.refused(full))])
        #expect(refused.mayReplace(stored.stored) && !refused.mayReplace(other))
        var accepted = other
        _ = accepted.accepted()
        #expect(!refused.mayReplace(accepted))
        // What it reads then, or at the next connection, is retried.
        var read = own.read(again: other)
        #expect(read.connected() == [.send(again: true)])
        #expect(read.refused(full, now: now) == [.retryLater(.send, after: SentCommand.retryDelay)])
        // A refusal that lasts is the end for both.
        for reason in [CommandRejection.Reason.expired, .targetUnknown, .idConflict, .livesTooLong, .numberPassed] {
            var ended = other
            #expect(ended.refused(certain(reason), now: now) == [.persist(ended), .answered, .report(.refused(certain(reason)))])
            #expect(ended.mayReplace(other))
        }
        // The mark stays when the first process writes without it.
        #expect(own.markedShared(like: other).isShared)
    }

    @Test func commandWaitsForAConnection() {
        var (row, actions) = SentCommand.prepare(command, isConnected: false)
        #expect(actions == [.persist(row)])
        actions = row.connected()
        #expect(row.state == .sent)
        #expect(actions == [.persist(row), .send(again: false)])
        #expect(row.connected() == [.send(again: true)])
    }

    @Test func acceptedCommandIsSentAgainOnEveryConnection() {
        var row = sent()
        #expect(row.accepted() == [.note(row), .report(.status(.accepted)), .answered])
        #expect(row.connected() == [.send(again: true)])
        #expect(row.accepted() == [.answered])
    }

    @Test func statusesGoForwardOnly() {
        var row = accepted()
        #expect(row.progressed(.delivered) == [.note(row), .report(.status(.delivered))])
        #expect(row.progressed(.waking(CommandWake())) == [])
        #expect(row.progressed(.delivered) == [])
    }

    @Test func finalIsStoredThenReportedThenAcknowledged() {
        var row = accepted()
        let actions = row.ended(done, receiptIsValid: true)
        #expect(row.state == .final(done))
        #expect(actions == [.persist(row), .answered, .report(.status(.final(.succeeded, attestedBy: .target))), .acknowledge])
    }

    @Test func secondFinalIsAcknowledgedAndIgnored() {
        var row = accepted()
        _ = row.ended(done, receiptIsValid: true)
        #expect(row.ended(CommandFinal(attestedByRelay: .expired), receiptIsValid: false) == [.acknowledge])
        #expect(row.state == .final(done))
        #expect(row.connected() == [.answered])
    }

    @Test func finalWithoutAValidReceiptIsRejected() {
        var row = accepted()
        #expect(row.ended(done, receiptIsValid: false) == [.reject])
        #expect(row.state == .accepted(.accepted))
    }

    @Test(arguments: [
        CommandOutcome.succeeded, .declined, .unsupported, .failed(reason: ""), .indeterminate(.interrupted), .indeterminate(.timedOut),
    ])
    func relayCannotAttestHandlerOutcomes(_ outcome: CommandOutcome) {
        var row = accepted()
        #expect(row.ended(CommandFinal(attestedByRelay: outcome), receiptIsValid: true) == [.reject])
        #expect(!row.isEnded)
    }

    @Test(arguments: [CommandOutcome.expired, .cancelled, .indeterminate(.targetLost)])
    func relayAttestsItsOwnOutcomes(_ outcome: CommandOutcome) {
        var row = sent()
        #expect(row.ended(CommandFinal(attestedByRelay: outcome), receiptIsValid: false).last == .acknowledge)
        #expect(row.isEnded)
    }

    @Test func certainRejectionIsReported() {
        var row = sent()
        let rejection = certain(.limit(LimitExceeded(limit: .mailboxCommands, allowed: 1, requested: 2)))
        #expect(row.refused(rejection, now: now) == [.persist(row), .answered, .report(.refused(rejection))])
        #expect(row.state == .refused(rejection))
        #expect(row.accepted() == [.answered])
        #expect(row.state == .refused(rejection))
    }

    @Test func doubtfulRejectionIsRetried() {
        var row = sent()
        #expect(row.refused(doubtful(.other(code: "rateLimited")), now: now) == [.retryLater(.send, after: SentCommand.retryDelay)])
        #expect(row.retry(.send) == [.send(again: true)])
        // The relay names a time, which is bounded below.
        #expect(row.refused(doubtful(.other(code: "rateLimited")), now: now, retryAfter: 5_000) == [.retryLater(.send, after: 5_000)])
        #expect(row.refused(doubtful(.other(code: "rateLimited")), now: now, retryAfter: -1) == [.retryLater(.send, after: 100)])
    }

    /// The relay cannot store the cancellation, until the command ends.
    @Test func refusedCancellationIsRepeatedWhileTheCommandIsOpen() {
        var row = sent()
        #expect(row.cancelRefused(retryAfter: 5) == [])
        #expect(row.cancel() == [.persist(row), .cancel])
        #expect(row.cancelRefused(retryAfter: 5) == [.retryLater(.cancel, after: 5)])
        #expect(row.retry(.cancel) == [.cancel])
        _ = row.ended(CommandFinal(attestedByRelay: .cancelled), receiptIsValid: false)
        #expect(row.cancelRefused(retryAfter: 5) == [])
        #expect(row.retry(.cancel) == [])
    }

    /// The relay rejects it each time before it looks for it, such as without the scope.
    @Test func commandThatTheRelayNeverLooksForEnds() {
        var row = sent()
        let rejection = doubtful(.other(code: "insufficientScope"))
        let forgotten = command.expires + CommandPeriod.grace + CommandPeriod.retention
        #expect(row.refused(rejection, now: forgotten) == [.retryLater(.send, after: SentCommand.retryDelay)])
        let final = CommandFinal(attestedByRelay: .indeterminate(.targetLost))
        #expect(row.refused(rejection, now: forgotten + 1) == [.persist(row), .answered, .report(.status(final.status))])
        #expect(row.state == .final(final))
    }

    @Test(arguments: [CommandRejection.Reason.expired, .targetUnknown])
    func rejectionOfAnAcceptedCommandIsIndeterminate(_ reason: CommandRejection.Reason) {
        for mayHaveRun in [false, true] {
            var row = accepted()
            _ = row.refused(CommandRejection(reason, mayHaveRun: mayHaveRun), now: now)
            #expect(row.state == .final(CommandFinal(attestedByRelay: .indeterminate(.targetLost))))
        }
    }

    @Test func passedNumberIsSignedAgainAboveTheHighest() {
        var row = sent()
        #expect(row.refused(passed, now: now) == [.persist(row), .signAnew(above: 7)])
        let again = CommandDescriptor.test(number: 8, first: 1)
        let signed = CommandDescriptor(
            id: command.id,
            lane: again.lane,
            number: 8,
            firstNumber: 1,
            created: now,
            expires: again.expires,
            digest: again.digest,
            size: 1
        )
        #expect(row.signedAnew(signed, sending: true) == [.persist(row), .send(again: false)])
        #expect(row.command == signed)
        // A relay that names no number cannot help.
        var other = sent()
        let rejection = certain(.numberPassed)
        #expect(other.refused(rejection, now: now) == [.persist(other), .answered, .report(.refused(rejection))])
    }

    /// The stored state has gone back: the command has ended since, and the relay has forgotten it. It must not hold up its lane.
    @Test func acceptedCommandWithAPassedNumberIsSignedAgain() {
        var row = accepted()
        #expect(row.refused(passed, now: now) == [.persist(row), .signAnew(above: 7)])
        #expect(row.state == .prepared)
        var doubted = accepted()
        #expect(doubted.refused(doubtful(.numberPassed), now: now) == [.retryLater(.send, after: SentCommand.retryDelay)])
    }

    private var passed: CommandRejection { CommandRejection(.numberPassed, mayHaveRun: false, highest: 7) }

    /// The target has not run it, and has passed its number.
    @Test func commandThatTheTargetHasPassedIsSignedAgain() {
        let final = CommandFinal(outcome: .failed(reason: "passed"), receipt: [1], reply: nil, highest: 7)
        var row = accepted()
        #expect(row.ended(final, receiptIsValid: true) == [.persist(row), .signAnew(above: 7)])
        #expect(row.state == .prepared)
        // Not for ever, not without proof, and not if the app has cancelled it.
        var tired = SentCommand(restoring: command, state: .sent, cancelRequested: false, signings: SentCommand.maximumSignings)
        #expect(tired.ended(final, receiptIsValid: true).last == .acknowledge)
        #expect(tired.state == .final(final))
        var forged = accepted()
        #expect(forged.ended(final, receiptIsValid: false) == [.reject])
        var cancelled = accepted()
        _ = cancelled.cancel()
        #expect(cancelled.ended(final, receiptIsValid: true).last == .acknowledge)
        // What may have run is not sent again.
        let unknown = CommandFinal(outcome: .indeterminate(.forgotten), receipt: [1], reply: nil, highest: 7)
        var doubtful = accepted()
        #expect(doubtful.ended(unknown, receiptIsValid: true).last == .acknowledge)
    }

    @Test func deliveredCommandCannotExpireOrBeCancelled() {
        for outcome in [CommandOutcome.expired, .cancelled] {
            var row = accepted()
            _ = row.progressed(.delivered)
            let actions = row.ended(CommandFinal(attestedByRelay: outcome), receiptIsValid: false)
            #expect(row.state == .final(CommandFinal(attestedByRelay: .indeterminate(.targetLost))))
            #expect(actions.last == .acknowledge)
        }
    }

    @Test func clockSkewIsSignedAgainUnderTheSameNumber() {
        var row = sent()
        #expect(row.refused(certain(.clockSkew), now: now) == [.persist(row), .signAnew(above: nil)])
        #expect(row.state == .prepared)
        let anew = CommandDescriptor.test(number: 1, digest: [9])
        #expect(row.signedAnew(anew, sending: true) == [.persist(row), .send(again: false)])
        #expect(row.command == anew)
    }

    /// A new connection reads the stored rows while the write of a new signature is pending.
    @Test func storedBytesDoNotReplaceANewerSignature() {
        var stored = sent()
        _ = stored.refused(certain(.clockSkew), now: now)
        var signed = stored
        _ = signed.signedAnew(.test(number: 1, digest: [9]), sending: false)
        #expect(signed.read(again: stored) == signed)
        // A cancellation of another process holds.
        var cancelled = sent()
        _ = cancelled.cancel()
        #expect(signed.read(again: cancelled).command == signed.command && signed.read(again: cancelled).cancelRequested)
        // So does an end.
        var ended = sent()
        _ = ended.refused(certain(.expired), now: now)
        #expect(signed.read(again: ended) == ended)
        #expect(stored.read(again: signed) == signed)
    }

    @Test func cancellationFollowsTheNewSignature() {
        for isCurrent in [true, false] {
            var row = sent()
            _ = row.cancel()
            _ = row.refused(certain(.clockSkew), now: now)
            let actions = row.signedAnew(.test(number: 1, digest: [9]), sending: isCurrent)
            guard isCurrent else {
                #expect(row.connected() == [.persist(row), .send(again: false), .cancel])
                continue
            }
            #expect(actions == [.persist(row), .send(again: false), .cancel])
        }
    }

    @Test func signaturesForClockSkewAreBounded() {
        var row = sent()
        var signings = 0
        while row.refused(certain(.clockSkew), now: now).contains(.signAnew(above: nil)), signings < 10 {
            signings += 1
            _ = row.signedAnew(.test(number: 1, digest: [9]), sending: true)
        }
        #expect(signings == SentCommand.maximumSignings - 1)
        #expect(row.state == .refused(certain(.clockSkew)))
    }

    @Test func newSignatureIsIgnoredOnceTheOldBytesAreSent() {
        var row = sent()
        _ = row.refused(certain(.clockSkew), now: now)
        _ = row.connected()
        #expect(row.signedAnew(.test(number: 1, digest: [9]), sending: true) == [])
        #expect(row.command == command)
    }

    @Test func cancelBeforeTheFirstSendWithdraws() {
        var (row, _) = SentCommand.prepare(command, isConnected: false)
        #expect(row.cancel() == [.persist(row), .answered, .report(.withdrawn)])
        #expect(row.connected() == [.answered])
    }

    @Test func cancelIsStoredAndFollowsEverySend() {
        var row = accepted()
        #expect(row.cancel() == [.persist(row), .cancel])
        #expect(row.cancel() == [])
        #expect(row.connected() == [.send(again: true), .cancel])
        #expect(!row.isEnded)
    }
}

@Suite struct CommandSendingTests {
    @Test func laneSendsOneAtATimeInOrder() {
        let commands = (1...3).map { CommandDescriptor.test(number: $0) }
        var sending = OutboxLanes(commands: commands.reversed())
        #expect(sending.start() == [commands[0].id])
        let isFourthSent = sending.add(.test(number: 4))
        #expect(!isFourthSent)
        #expect(sending.answered(commands[0]) == commands[1].id)
        #expect(sending.answered(commands[2]) == nil)
        #expect(sending.answered(commands[1]) == CommandDescriptor.test(number: 4).id)
        #expect(sending.answered(.test(number: 4)) == nil)
        let isFifthSent = sending.add(.test(number: 5))
        #expect(isFifthSent)
    }

    @Test func lanesDoNotWaitForEachOther() {
        var sending = OutboxLanes(commands: [.test(number: 1), .test(number: 2, app: "photos")])
        #expect(sending.start().count == 2)
        let isThirdSent = sending.add(.test(number: 1, app: "third"))
        #expect(isThirdSent)
    }
}

extension CommandDescriptor {
    static func test(
        number: UInt64,
        app: String = "player",
        first: UInt64? = nil,
        created: Int64 = 1_000_000_000,
        expires: Int64 = 1_000_060_000,
        digest: [UInt8]? = nil,
        size: Int = 100
    ) -> CommandDescriptor {
        var ids = Identifiers()
        var id = ids.next()
        for _ in 0..<min(number, 1_000) + UInt64(app.utf8.count) * 1_000 { id = ids.next() }
        return CommandDescriptor(
            id: id,
            lane: CommandLane(sender: .test(1), target: .test(2), appID: app),
            number: number,
            firstNumber: first,
            created: created,
            expires: expires,
            digest: Digest256(hashing: digest ?? [UInt8(truncatingIfNeeded: number)]),
            size: size
        )
    }
}
