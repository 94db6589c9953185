// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

@Suite struct MailboxCommandTests {
    private let command = CommandDescriptor.test(number: 1)
    private let done = CommandFinal(outcome: .succeeded, receipt: [1], reply: [2])
    private let early: Int64 = 1_000_000_001
    private let late: Int64 = 1_000_060_000

    private func stored(inDoubt: Bool = false) -> MailboxCommand {
        MailboxCommand.store(command, inDoubt: inDoubt).0
    }

    private func offered() -> MailboxCommand {
        var row = stored()
        _ = row.offer(now: early)
        return row
    }

    private func final(_ outcome: CommandOutcome) -> MailboxCommand.State {
        .final(CommandFinal(attestedByRelay: outcome), since: late)
    }

    @Test func commandIsAcceptedAfterTheCommit() {
        let (row, actions) = MailboxCommand.store(command, inDoubt: false)
        #expect(actions == [.persist(row), .accept])
    }

    @Test func offerIsStoredBeforeItIsSent() {
        var row = stored()
        #expect(row.offer(now: early) == [.persist(row), .offer(wasReceived: false)])
        #expect(row.offer(now: early) == [.offer(wasReceived: false)])
    }

    /// The target may have these bytes without the relay, which can no longer know that they have not run.
    @Test func commandThatIsOfferedElsewhereCountsAsOffered() {
        var (row, _) = MailboxCommand.store(command, inDoubt: false)
        var actions = row.offeredElsewhere(.test(number: 1, digest: [9]), isReceived: false)
        #expect(actions.isEmpty && row.state == .stored)
        actions = row.offeredElsewhere(command, isReceived: false)
        #expect(actions == [.persist(row)] && row.state == .offered(received: false, cancelRequested: false))
        actions = row.offeredElsewhere(command, isReceived: false)
        #expect(actions.isEmpty && !row.isReopened(by: command))
        // A target whose stored state has gone back must not run it again.
        actions = row.offeredElsewhere(command, isReceived: true)
        #expect(actions == [.note(row)] && row.offer(now: early) == [.offer(wasReceived: true)])
        (row, actions) = MailboxCommand.store(command, inDoubt: true, isReceived: true)
        #expect(row.offer(now: early) == [.offer(wasReceived: true)])
        // An end of its own is taken back, that of the target is not.
        for (final, isReopened) in [(CommandFinal(attestedByRelay: .cancelled), true), (done, false)] {
            let ended = MailboxCommand(restoring: command, state: .final(final, since: 0))
            #expect(ended.isReopened(by: command) == isReopened && !ended.isReopened(by: .test(number: 1, digest: [9])))
        }
    }

    @Test func sameBytesGetTheSameAnswer() {
        var row = offered()
        #expect(row.sentAgain(command) == [.accept])
        #expect(row.sentAgain(other(number: command.number)) == [.refuse(CommandRejection(.idConflict, mayHaveRun: true))])
        _ = row.received()
        #expect(row.sentAgain(command) == [.accept, .progress(.delivered)])
        _ = row.ended(done, digest: command.digest, now: early)
        #expect(row.sentAgain(command) == [.accept, .final(done)])
        #expect(row.senderConnected() == [.final(done)])
    }

    /// A command that was signed again with a higher number, for which there is no room: it certainly has not run.
    @Test func refusedReplacementGetsTheReasonOfItsRefusal() {
        let row = offered()
        let replacement = other(number: command.number + 1, first: command.number)
        let full = CommandRejection(.targetUnknown, mayHaveRun: false)
        #expect(row.sentAgain(replacement, refusedFor: full) == [.refuse(full)])
        let conflict = CommandRejection(.idConflict, mayHaveRun: true)
        #expect(row.sentAgain(replacement) == [.refuse(conflict)])
        #expect(row.sentAgain(other(number: command.number + 1), refusedFor: full) == [.refuse(conflict)])
        #expect(row.sentAgain(command, refusedFor: full) == [.accept])
    }

    /// Other bytes under the same id.
    private func other(number: UInt64, first: UInt64? = nil) -> CommandDescriptor {
        CommandDescriptor(
            id: command.id,
            lane: command.lane,
            number: number,
            firstNumber: first,
            created: command.created,
            expires: command.expires,
            digest: Digest256(hashing: [7, 7]),
            size: command.size
        )
    }

    @Test func resultIsSettledAfterTheCommit() {
        var row = offered()
        #expect(row.ended(done, digest: command.digest, now: early) == [.answered, .persist(row), .final(done), .settle])
        let other = CommandFinal(outcome: .declined, receipt: [3], reply: nil)
        #expect(row.ended(other, digest: command.digest, now: early) == [.answered, .settle])
        #expect(row.state == .final(done, since: early))
    }

    @Test func resultAboutOtherBytesChangesNothing() {
        var row = offered()
        #expect(row.ended(done, digest: Digest256(hashing: [7, 7]), now: early) == [.answered, .settle])
        #expect(row == offered())
    }

    @Test func receivedIsIdempotent() {
        var row = offered()
        #expect(row.received() == [.answered, .note(row), .progress(.delivered)])
        #expect(row.received() == [.answered])
    }

    @Test func onlyUnofferedCommandsExpireAtTheRelay() {
        var never = stored()
        #expect(never.handleDeadlines(now: late - 1) == [])
        _ = never.handleDeadlines(now: late)
        #expect(never.state == final(.expired))
        var row = offered()
        #expect(row.handleDeadlines(now: late + CommandPeriod.grace - 1) == [])
        _ = row.handleDeadlines(now: late + CommandPeriod.grace)
        #expect(row.state == .final(CommandFinal(attestedByRelay: .indeterminate(.targetLost)), since: late + CommandPeriod.grace))
    }

    @Test func expiredCommandIsNotOffered() {
        var row = stored()
        #expect(row.offer(now: late) == [.answered, .persist(row), .final(CommandFinal(attestedByRelay: .expired))])
    }

    @Test func commandInDoubtIsDecidedByTheTarget() {
        var row = stored(inDoubt: true)
        #expect(row.handleDeadlines(now: late) == [])
        #expect(row.cancel(now: late) == [.persist(row), .requestCancel])
        #expect(row.offer(now: late) == [.offer(wasReceived: false), .requestCancel])
    }

    @Test func cancelEndsOnlyUnofferedCommands() {
        var never = stored()
        _ = never.cancel(now: late)
        #expect(never.state == final(.cancelled))
        var row = offered()
        #expect(row.cancel(now: early) == [.persist(row), .requestCancel])
        #expect(row.cancel(now: early) == [.requestCancel])
        _ = row.received()
        #expect(row.offer(now: early) == [.offer(wasReceived: true), .requestCancel])
    }

    @Test func removedTargetCancelsOnlyUnofferedCommands() {
        var never = stored()
        _ = never.targetRemoved(now: late)
        #expect(never.state == final(.cancelled))
        var row = offered()
        _ = row.targetRemoved(now: late)
        #expect(row.state == final(.indeterminate(.targetLost)))
        #expect(row.targetRemoved(now: late) == [])
    }

    @Test func outcomeIsKeptUntilAcknowledgedOrForAWeek() {
        var row = offered()
        #expect(row.acknowledged() == [])
        _ = row.ended(done, digest: command.digest, now: late)
        #expect(row.acknowledged() == [.remove])
        #expect(row.handleDeadlines(now: late + CommandPeriod.retention - 1) == [])
        #expect(row.handleDeadlines(now: late + CommandPeriod.retention) == [.remove])
    }

    @Test func extremeTimesDoNotTrap() {
        let (row, _) = MailboxCommand.store(.test(number: 1, created: .max, expires: .max), inDoubt: true)
        #expect(row.nextDeadline == .max)
        var ended = MailboxCommand(restoring: command, state: .final(done, since: .max))
        #expect(ended.handleDeadlines(now: 0) == [])
    }
}

@Suite struct CommandAdmissionTests {
    private let now: Int64 = 1_000_000_000_000
    private let minute: Int64 = 60_000

    private func check(
        created: Int64 = 0,
        life: Int64 = 3_600_000,
        size: Int = 100,
        number: UInt64 = 5,
        again: Bool = false,
        known: Bool = true,
        revoked: Bool = false,
        highest: UInt64? = nil,
        began: Int64 = 0,
        mailbox: MailboxUse = MailboxUse(),
        replies: MailboxUse = MailboxUse()
    ) -> Result<Bool, CommandRejection> {
        let command = CommandDescriptor.test(number: number, created: now + created, expires: now + created + life, size: size)
        let admission = CommandAdmission(databaseBegan: began)
        return Result { () throws(CommandRejection) in
            try admission.check(
                command,
                again: again,
                now: now,
                targetIsKnown: known,
                targetIsRevoked: revoked,
                highestNumber: highest,
                mailbox: mailbox,
                repliesWaiting: replies
            )
        }
    }

    private func refused(_ reason: CommandRejection.Reason, mayHaveRun: Bool = false) -> Result<Bool, CommandRejection> {
        .failure(CommandRejection(reason, mayHaveRun: mayHaveRun))
    }

    @Test func validCommandIsAdmitted() {
        #expect(check() == .success(false))
        #expect(check(highest: 4) == .success(false))
    }

    @Test func creationTimeIsWithinFiveMinutes() {
        #expect(check(created: 5 * minute) == .success(false))
        #expect(check(created: -5 * minute) == .success(false))
        #expect(check(created: 5 * minute + 1) == refused(.clockSkew))
        #expect(check(created: -5 * minute - 1) == refused(.clockSkew))
        #expect(check(created: 5 * minute + 1, again: true) == refused(.clockSkew))
        #expect(check(created: -30 * minute, again: true) == .success(false))
    }

    @Test func lifetimeIsAtMostFourWeeks() {
        #expect(check(life: CommandPeriod.maximumLife) == .success(false))
        #expect(check(life: CommandPeriod.maximumLife + 1) == refused(.livesTooLong))
        #expect(check(created: -2 * minute, life: 2 * minute) == refused(.expired))
    }

    @Test func rejectionNamesTheLimit() {
        let size = Limits()[.commandBytes]
        #expect(check(size: size) == .success(false))
        #expect(
            check(size: size + 1) == refused(.limit(LimitExceeded(limit: .commandBytes, allowed: size, requested: size + 1)))
        )
        #expect(check(mailbox: MailboxUse(commands: 999)) == .success(false))
        #expect(
            check(mailbox: MailboxUse(commands: 1_000))
                == refused(.limit(LimitExceeded(limit: .mailboxCommands, allowed: 1_000, requested: 1_001)))
        )
        #expect(
            check(mailbox: MailboxUse(bytes: 64 << 20))
                == refused(.limit(LimitExceeded(limit: .mailboxBytes, allowed: 64 << 20, requested: 64 << 20 + 100)))
        )
        #expect(
            check(replies: MailboxUse(commands: 1_000))
                == refused(.limit(LimitExceeded(limit: .mailboxCommands, allowed: 1_000, requested: 1_001)))
        )
    }

    @Test func passedNumbersAreRejected() {
        #expect(check(highest: 5) == .failure(CommandRejection(.numberPassed, mayHaveRun: false, highest: 5)))
        #expect(check(again: true, highest: 5) == .failure(CommandRejection(.numberPassed, mayHaveRun: false, highest: 5)))
    }

    @Test func youngDatabaseIsInDoubt() {
        #expect(check(created: -30 * minute, again: true, began: now - 35 * minute) == .success(true))
        #expect(check(created: -30 * minute, again: true, began: now - 35 * minute - 1) == .success(false))
        #expect(check(created: -minute, again: false, began: now) == .success(false))
        #expect(check(again: true, known: false, revoked: true, began: now) == refused(.targetUnknown, mayHaveRun: true))
        #expect(check(again: true, highest: 9, began: now) == .success(true))
        // A command that was lost with the database is accepted even if the mailbox has filled since.
        #expect(check(again: true, began: now, mailbox: MailboxUse(commands: 1_500)) == .success(true))
    }

    /// Sender and target connect in any order after the relay has lost its database.
    @Test func commandInDoubtWaitsForItsTarget() {
        #expect(check(again: true, known: false, began: now) == refused(.other(code: "unavailable"), mayHaveRun: true))
        #expect(check(again: false, known: false, began: now) == refused(.targetUnknown))
        #expect(check(created: -minute, life: minute, again: true, known: false, began: now) == refused(.targetUnknown, mayHaveRun: true))
        // Its outcome was removed, and the database is older: the target is gone.
        let week = CommandPeriod.retention
        let life = CommandPeriod.maximumLife
        #expect(check(created: -week, life: life, again: true, known: false) == refused(.targetUnknown, mayHaveRun: true))
    }

    @Test func removedOutcomeIsInDoubt() {
        let week = CommandPeriod.retention
        let life = CommandPeriod.maximumLife
        #expect(check(created: -week + 5 * minute, life: life, again: true) == .success(true))
        #expect(check(created: -week + 5 * minute + 1, life: life, again: true) == .success(false))
    }

    @Test func youngDatabaseLetsTargetsKeepUnknownResults() {
        let admission = CommandAdmission(databaseBegan: now)
        #expect(!admission.settlesUnknownResult(now: now + CommandPeriod.retention - 1))
        #expect(admission.settlesUnknownResult(now: now + CommandPeriod.retention))
    }

    /// It may have run, so it is admitted as in doubt, but gets no more room than others, and may have expired.
    @Test func offeredCommandIsInDoubt() throws {
        let command = CommandDescriptor.test(number: 1)
        func check(again: Bool = true, offered: Bool = true, now: Int64? = nil, used: Int = 0) throws(CommandRejection) -> Bool {
            var limits = Limits()
            limits[.mailboxCommands] = 2
            return try CommandAdmission(limits: limits, databaseBegan: 0).check(
                command,
                again: again,
                offered: offered,
                now: now ?? command.created,
                targetIsKnown: true,
                targetIsRevoked: false,
                highestNumber: command.number,
                mailbox: MailboxUse(commands: used, bytes: 0),
                repliesWaiting: MailboxUse()
            )
        }
        #expect(try check())
        #expect(throws: CommandRejection(.numberPassed, mayHaveRun: false, highest: command.number)) { try check(offered: false) }
        #expect(throws: CommandRejection.self) { try check(used: 2) }
        #expect(try check(now: command.expires + CommandPeriod.grace - 1))
        #expect(throws: CommandRejection(.expired, mayHaveRun: true)) { try check(now: command.expires + CommandPeriod.grace) }
    }
}
