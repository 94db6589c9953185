// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why the relay did not store a command.
package struct CommandRejection: Error, Hashable, Sendable {
    package enum Reason: Hashable, Sendable {
        /// Another blob is stored under this id.
        case idConflict
        /// The creation time is more than 5 min off. The sender signs the command again with the relay's time.
        case clockSkew
        /// The lane has a command with this number or a higher one. The sender signs the command again, with a higher number.
        case numberPassed
        /// It had expired when the relay received it.
        case expired
        /// It would live longer than 28 days.
        case livesTooLong
        /// The account has no such endpoint, or no longer has it.
        case targetUnknown
        /// A limit would be exceeded.
        case limit(LimitExceeded)
        /// A general code of the control channel, for example of a rate limit.
        case other(code: String)

        /// Whether the relay refuses the same bytes at any later time, too.
        package var isLasting: Bool {
            switch self {
            case .idConflict, .numberPassed, .expired, .livesTooLong, .targetUnknown: true
            case .clockSkew, .limit, .other: false
            }
        }
    }

    package let reason: Reason
    /// Whether the relay may have accepted the same blob in the past. If false, the command was certainly never stored: it has not run and
    /// will not.
    package let mayHaveRun: Bool
    /// The lane's highest number at the relay, with `numberPassed`.
    package let highest: UInt64?

    package init(_ reason: Reason, mayHaveRun: Bool, highest: UInt64? = nil) {
        self.reason = reason
        self.mayHaveRun = mayHaveRun
        self.highest = highest
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

/// How much a mailbox holds.
package struct MailboxUse: Hashable, Sendable {
    package var commands: Int
    package var bytes: Int

    package init(commands: Int = 0, bytes: Int = 0) {
        self.commands = commands
        self.bytes = bytes
    }

    /// Throws if one more command of this size would exceed the limits.
    func checkRoom(for size: Int, limits: Limits) throws(LimitExceeded) {
        try limits.check(.mailboxCommands, commands &+ 1)
        let (sum, overflow) = bytes.addingReportingOverflow(size)
        try limits.check(.mailboxBytes, overflow ? .max : sum)
    }

    /// The same check for one sender's share of a mailbox. One command always fits, however small the share is.
    func checkShare(for size: Int, limits: Limits) throws(LimitExceeded) {
        guard commands > 0 else { return }
        try limits.check(.mailboxCommandsPerSender, commands &+ 1)
        let (sum, overflow) = bytes.addingReportingOverflow(size)
        try limits.check(.mailboxBytesPerSender, overflow ? .max : sum)
    }

    fileprivate var half: MailboxUse { MailboxUse(commands: commands / 2, bytes: bytes / 2) }
}

/// Decides whether the relay stores a command that it does not know. `MailboxCommand.sentAgain` answers a command that it knows before this
/// check.
package struct CommandAdmission: Sendable {
    package var limits: Limits
    /// The time since which the database is complete: when it was created, or restored from a backup.
    package let databaseBegan: Int64

    package init(limits: Limits = Limits(), databaseBegan: Int64) {
        self.limits = limits
        self.databaseBegan = databaseBegan
    }

    /// Throws if the relay refuses the command. Else it returns whether the command may have been offered to its target in the past.
    /// - Parameters:
    ///   - again: The sender may have sent these bytes before. Then the creation time may be older than a first send allows.
    ///   - offered: The target may have them without this relay.
    ///   - targetIsKnown: Whether the target is an endpoint of the account.
    ///   - targetIsRevoked: Whether the account has revoked it.
    ///   - highestNumber: The highest number of the commands stored in the lane; `nil` if there are none.
    ///   - mailbox: What the target's mailbox holds.
    ///   - share: What this sender has in the mailbox. All senders that are not established have one share together.
    ///   - repliesWaiting: Final outcomes that the sender has not acknowledged. Without this bound, a sender that never acknowledges would
    ///     fill the relay's store.
    package func check(
        _ command: CommandDescriptor,
        again: Bool,
        offered: Bool = false,
        now: Int64,
        targetIsKnown: Bool,
        targetIsRevoked: Bool,
        highestNumber: UInt64?,
        mailbox: MailboxUse,
        share: MailboxUse = MailboxUse(),
        repliesWaiting: MailboxUse
    ) throws(CommandRejection) -> Bool {
        let wasAccepted = again && mayHaveBeenAccepted(command, now: now)
        let doubt = wasAccepted || again && offered
        func refuse(_ reason: CommandRejection.Reason) -> CommandRejection { CommandRejection(reason, mayHaveRun: doubt) }

        guard command.expires <= command.created.saturatingAdding(CommandPeriod.maximumLife) else { throw refuse(.livesTooLong) }
        guard targetIsKnown else {
            // After the loss of a database the target may connect later than the sender.
            let mayConnect = again && mayHaveBeenLost(command) && !targetIsRevoked && now < command.expires
            throw refuse(mayConnect ? .other(code: ControlErrorCode.unavailable.rawValue) : .targetUnknown)
        }
        guard command.created <= now.saturatingAdding(CommandPeriod.creationTolerance),
            again || command.created >= now.saturatingAdding(-CommandPeriod.creationTolerance)
        else { throw refuse(.clockSkew) }
        // The target says how a command has ended that it may have got before it expired.
        guard now < (offered ? command.expires.saturatingAdding(CommandPeriod.grace) : command.expires) else { throw refuse(.expired) }
        // If in doubt, the highest number may be this command's own, from its first acceptance. The target recognizes a repeated command.
        if !doubt, let highestNumber, command.number <= highestNumber {
            throw CommandRejection(.numberPassed, mayHaveRun: doubt, highest: highestNumber)
        }
        do throws(LimitExceeded) {
            try limits.check(.commandBytes, command.size)
            // A lost database may have accepted the command, and newer commands use the mailbox now. A rejection would break the order of the
            // lane, so such a command gets twice the room.
            try (wasAccepted ? mailbox.half : mailbox).checkRoom(for: command.size, limits: limits)
            try (wasAccepted ? share.half : share).checkShare(for: command.size, limits: limits)
            try repliesWaiting.checkRoom(for: 0, limits: limits)
        } catch {
            throw refuse(.limit(error))
        }
        return doubt
    }

    /// A command is created at most 5 min after it is accepted. So if the relay does not know a command that was created late enough, the
    /// command was not in a lost database, and was not removed after its retention.
    private func mayHaveBeenAccepted(_ command: CommandDescriptor, now: Int64) -> Bool {
        mayHaveBeenLost(command) || Self.acceptedAtTheEarliest(command).saturatingAdding(CommandPeriod.retention) <= now
    }

    private func mayHaveBeenLost(_ command: CommandDescriptor) -> Bool { Self.acceptedAtTheEarliest(command) <= databaseBegan }

    private static func acceptedAtTheEarliest(_ command: CommandDescriptor) -> Int64 {
        command.created.saturatingAdding(-CommandPeriod.creationTolerance)
    }

    /// Whether the relay answers a result for an unknown command with `command.settled`. While the database is young, the target keeps the
    /// result: the sender may still send the command again, and then needs the true outcome.
    package func settlesUnknownResult(now: Int64) -> Bool {
        now >= databaseBegan.saturatingAdding(CommandPeriod.retention)
    }
}
