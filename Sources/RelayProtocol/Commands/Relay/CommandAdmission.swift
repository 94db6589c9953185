// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The relay did not store a command.
package struct CommandRefusal: Error, Hashable, Sendable {
    package enum Reason: Hashable, Sendable {
        /// Another blob is stored under the id.
        case idConflict
        /// The creation time is more than 5 min off: the sender signs anew, with the relay's time.
        case clockSkew
        /// The lane has a command with this number or a higher one: the command ends as refused.
        case numberPassed
        /// Its time was over when it came.
        case expired
        /// It would live for longer than 28 days.
        case livesTooLong
        /// There is no such endpoint in the account, or not any more.
        case targetUnknown
        /// A limit would be exceeded.
        case limit(LimitExceeded)
        /// A code of the control channel that says nothing about commands in particular, as of its rate limits.
        case other(code: String)
    }

    package let reason: Reason
    /// The relay cannot rule out that it accepted the same blob in the past. If false, it is certain that the command has
    /// never been stored, so that it has not run and will not.
    package let mayHaveRun: Bool

    package init(_ reason: Reason, mayHaveRun: Bool) {
        self.reason = reason
        self.mayHaveRun = mayHaveRun
    }

    /// The code in the relay's `error` message.
    package var code: String {
        switch reason {
        case .idConflict: "idConflict"
        case .clockSkew: "clockSkew"
        case .numberPassed: "numberPassed"
        case .expired: "expired"
        case .livesTooLong: "livesTooLong"
        case .targetUnknown: "targetUnknown"
        case .limit(let exceeded):
            switch exceeded.limit {
            case .commandBytes: "commandTooLarge"
            default: "mailboxFull"
            }
        case .other(let code): code
        }
    }
}

/// What waits in a mailbox.
package struct MailboxUse: Hashable, Sendable {
    package var commands: Int
    package var bytes: Int

    package init(commands: Int = 0, bytes: Int = 0) {
        self.commands = commands
        self.bytes = bytes
    }

    /// Throws if one more of this size would exceed the limits.
    func checkRoom(for size: Int, limits: Limits) throws(LimitExceeded) {
        try limits.check(.mailboxCommands, commands &+ 1)
        let (sum, overflow) = bytes.addingReportingOverflow(size)
        try limits.check(.mailboxBytes, overflow ? .max : sum)
    }

    /// The same for what one sender has of a mailbox. One command always fits, however small the share is.
    func checkShare(for size: Int, limits: Limits) throws(LimitExceeded) {
        guard commands > 0 else { return }
        try limits.check(.mailboxCommandsPerSender, commands &+ 1)
        let (sum, overflow) = bytes.addingReportingOverflow(size)
        try limits.check(.mailboxBytesPerSender, overflow ? .max : sum)
    }

    fileprivate var half: MailboxUse { MailboxUse(commands: commands / 2, bytes: bytes / 2) }
}

/// Whether the relay takes a command that it does not know. (One it knows by its key is answered by
/// `MailboxCommand.sentAgain` before any of this.)
package struct CommandAdmission: Sendable {
    package var limits: Limits
    /// Since when the relay's database has missed nothing: when it was begun, or restored from a copy.
    package let databaseBegan: Int64

    package init(limits: Limits = Limits(), databaseBegan: Int64) {
        self.limits = limits
        self.databaseBegan = databaseBegan
    }

    /// Throws why not; else says whether the command may have been offered to its target in the past all the same.
    /// - Parameters:
    ///   - again: The sender says that these bytes may have been sent before. They are then older than a first send's.
    ///   - highestNumber: Of the commands stored in the lane; `nil` if there are none.
    ///   - mailbox: The target's.
    ///   - share: What of it is the sender's; all senders that are not established are taken together.
    ///   - repliesWaiting: Final outcomes which the sender has not acknowledged. Without a bound on them a sender that
    ///     never acknowledges would fill the relay.
    package func check(
        _ command: CommandDescriptor,
        again: Bool,
        now: Int64,
        targetIsKnown: Bool,
        highestNumber: UInt64?,
        mailbox: MailboxUse,
        share: MailboxUse = MailboxUse(),
        repliesWaiting: MailboxUse
    ) throws(CommandRefusal) -> Bool {
        let doubt = again && mayHaveBeenAccepted(command, now: now)
        func refuse(_ reason: CommandRefusal.Reason) -> CommandRefusal { CommandRefusal(reason, mayHaveRun: doubt) }

        guard targetIsKnown else { throw refuse(.targetUnknown) }
        guard command.expires <= command.created.saturatingAdding(CommandPeriod.maximumLife) else { throw refuse(.livesTooLong) }
        guard command.created <= now.saturatingAdding(CommandPeriod.creationTolerance),
            again || command.created >= now.saturatingAdding(-CommandPeriod.creationTolerance)
        else { throw refuse(.clockSkew) }
        guard now < command.expires else { throw refuse(.expired) }
        // In doubt the number may be the command's own of then; the target knows better.
        if !doubt, let highestNumber, command.number <= highestNumber { throw refuse(.numberPassed) }
        do throws(LimitExceeded) {
            try limits.check(.commandBytes, command.size)
            // What a lost database had accepted has to find room beside what came since, or its lane's order is lost.
            try (doubt ? mailbox.half : mailbox).checkRoom(for: command.size, limits: limits)
            try (doubt ? share.half : share).checkShare(for: command.size, limits: limits)
            try repliesWaiting.checkRoom(for: 0, limits: limits)
        } catch {
            throw refuse(.limit(error))
        }
        return doubt
    }

    /// A command was created at most 5 min after it was accepted. So what is unknown, but was created late enough, can
    /// neither have been in a lost database nor have been removed after its retention.
    private func mayHaveBeenAccepted(_ command: CommandDescriptor, now: Int64) -> Bool {
        let acceptedAtTheEarliest = command.created.saturatingAdding(-CommandPeriod.creationTolerance)
        return acceptedAtTheEarliest <= databaseBegan || acceptedAtTheEarliest.saturatingAdding(CommandPeriod.retention) <= now
    }

    /// Whether a result for a command that the relay does not know is answered with `command.settled`. A young database
    /// lets the target keep it: the sender may yet send the command again, and the true outcome would be lost.
    package func settlesUnknownResult(now: Int64) -> Bool {
        now >= databaseBegan.saturatingAdding(CommandPeriod.retention)
    }
}
