// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A command at its sender: one row of the sender's journal, and the state machine that changes it.
///
/// Every input returns actions. The owner executes them in order, in one queue for all commands of the endpoint. An action after `.persist`
/// happens only when that write is committed. A crash loses the remaining actions, and the owner starts again from the stored rows. A
/// message belongs to the connection that was open at the time of the input. If that connection has ended, the message is dropped, because
/// `connected()` makes up for it.
///
/// ```
/// prepared, queued ──▶ sent ──▶ accepted(progress) ──▶ final
///    │  ▲               │  └──────────────────────────▶ final
///    │  └───────────────┤ clockSkew, or its number has passed: signed again
///    ▼                  ▼
/// withdrawn          refused
/// ```
///
/// Once a command is *direct*, its target may have got it without the relay. Then the relay cannot know how it ended: it is not withdrawn,
/// refused or signed again, and only a receipt ends it, or the time by which the target would have answered.
package struct SentCommand: Hashable, Sendable {
    package enum State: Hashable, Sendable {
        /// Stored, and never sent with these bytes. The relay does not have it.
        case prepared
        /// Stored as `sent`, so that sending it needs no further write. It is not sent yet, and the relay does not have it. Only this
        /// process knows that: after a crash the state is `sent`.
        case queued
        /// The relay may have it.
        case sent
        /// The relay has it.
        case accepted(CommandProgress)
        /// Cancelled before it was first sent.
        case withdrawn
        /// The relay never accepted it.
        case refused(CommandRejection)
        /// Ended. The row stays until the app no longer needs it.
        case final(CommandFinal)
    }

    package enum Action: Hashable, Sendable {
        /// Write the row. If the command is new or signed again, also write its blob and the lane's highest number.
        case persist(SentCommand)
        /// Write the row soon. The following actions do not wait for it, and a crash may lose it, because the relay repeats it. In most
        /// cases a `persist` of the same command replaces it.
        case note(SentCommand)
        /// Send the stored blob.
        case send(again: Bool)
        /// Send `command.cancel`.
        case cancel
        /// Send the acknowledgement of the final outcome to the relay.
        case acknowledge
        /// Offer the stored blob on the direct session with the target, with the cancellation if the command is cancelled.
        case offer
        /// Tell the target on the direct session that the final outcome is stored.
        case settle
        /// Sign a new blob under the same id, with the relay's time, and call `signedAnew`. With a number, the lane is behind: the command
        /// gets a higher one.
        case signAnew(above: UInt64?)
        /// Call `retry` after this time in milliseconds, if the connection lasts until then.
        case retryLater(Request, after: Int64)
        /// To the owner's `OutboxLanes`: the next command of the lane may be sent to the relay.
        case answered
        /// The same for the direct session with the target.
        case answeredDirectly
        /// Report to the app. If the command has ended, report only the end, as the last report.
        case report(Report)
        /// The relay or the target sent a statement that it has no authority for. Log it.
        case reject

        var isWrite: Bool {
            switch self {
            case .persist, .note: true
            default: false
            }
        }
    }

    /// A request that the relay may refuse for the moment.
    package enum Request: Hashable, Sendable {
        case send
        case cancel
    }

    package enum Report: Hashable, Sendable {
        case status(CommandStatus)
        case withdrawn
        case refused(CommandRejection)

        package var isEnd: Bool {
            switch self {
            case .status(let status): status.outcome != nil
            case .withdrawn, .refused: true
            }
        }
    }

    /// The maximum number of signatures of one command, including the first. Then the relay's rejection is final.
    package static let maximumSignings = 3
    /// The delay before a refused send is repeated if the relay names none, in milliseconds.
    package static let retryDelay: Int64 = 60_000
    /// The same for a direct command that the relay did not know as one.
    package static let shortRetryDelay: Int64 = 5_000

    package private(set) var command: CommandDescriptor
    package private(set) var state: State
    /// Whether the app has cancelled the command. `command.cancel` then follows every send until the outcome is known.
    package private(set) var cancelRequested: Bool
    /// The number of signatures, with the one that is about to be made.
    package private(set) var signings: Int
    /// Whether the target may have got the command without the relay.
    package private(set) var isDirect: Bool
    /// Whether another process than the one that has stored it may have sent it, too. What the relay refuses one of them for the moment, it
    /// may take from the other.
    package private(set) var isShared: Bool
    /// Whether this process has made the last signature. It is not stored.
    private var isSignedHere = false
    /// Whether this process has stored the command first. It is not stored.
    private var isOwn = false

    /// A row read from the store.
    package init(
        restoring command: CommandDescriptor,
        state: State,
        cancelRequested: Bool,
        signings: Int,
        isDirect: Bool = false,
        isShared: Bool = false
    ) {
        self.command = command
        self.state = state
        self.cancelRequested = cancelRequested
        self.signings = signings
        self.isDirect = isDirect
        self.isShared = isShared
    }

    /// A new command.
    /// - Parameter isConnected: Whether the command will be sent on the current connection. This saves a write. Call `connected` when its
    ///   lane reaches it.
    package static func prepare(_ command: CommandDescriptor, isConnected: Bool) -> (SentCommand, [Action]) {
        var row = SentCommand(restoring: command, state: isConnected ? .queued : .prepared, cancelRequested: false, signings: 1)
        row.isOwn = true
        return (row, [.persist(row)])
    }

    /// The row as it is read after a crash.
    package var stored: SentCommand {
        var row = self
        (row.isSignedHere, row.isOwn) = (false, false)
        if case .queued = state { row.state = .sent }
        return row
    }

    /// The row as it is written before the command is offered directly; `nil` if it has ended.
    package var markedDirect: SentCommand? {
        guard !isEnded else { return nil }
        var row = self
        row.isDirect = true
        switch state {
        case .prepared, .queued: row.state = .sent
        case .sent, .accepted, .withdrawn, .refused, .final: break
        }
        return row
    }

    /// The row with the mark of the stored one, which is never taken away.
    package func markedShared(like stored: SentCommand) -> SentCommand {
        var row = self
        row.isShared = isShared || stored.isShared
        return row
    }

    /// What the stored row of the command must be, so that this one may be written in its place: other processes may have changed it since
    /// this process read it.
    package enum Precondition: Hashable, Sendable {
        /// Not ended.
        case open
        /// Not ended, and not direct: this was decided in the belief that the target does not have the command.
        case onlyAtRelay
        /// The same, and neither accepted by the relay nor sent by another process.
        case onlyRefused
        /// Never sent by any process.
        case neverSent
    }

    package var precondition: Precondition {
        switch state {
        case .withdrawn: .neverSent
        case _ where isDirect: .open
        case .queued, .sent, .accepted: .open
        case .refused(let rejection): rejection.reason.isLasting ? .onlyAtRelay : .onlyRefused
        case .prepared: .onlyAtRelay
        case .final(let final): final.attestedBy == .relay ? .onlyAtRelay : .open
        }
    }

    /// Whether this row may be written in place of the stored one with the same bytes.
    package func mayReplace(_ stored: SentCommand) -> Bool {
        switch precondition {
        case .open: !stored.isEnded
        case .onlyAtRelay: !stored.isEnded && !stored.isDirect
        case .onlyRefused: stored.isUnanswered && !stored.isDirect && !stored.isShared
        case .neverSent: stored.state == .prepared && stored.signings == 1
        }
    }

    /// The state of the command when the stored row is read on a new connection. Other processes may have changed the stored row, and a
    /// write of this process may be pending.
    package func read(again stored: SentCommand) -> SentCommand {
        // The relay may delete the command as soon as the end is stored, and then never sends the end again.
        if isEnded { return self }
        // Only this process knows that the command was not sent.
        if case .queued = state, self.stored == stored { return self }
        // The write of a new signature is pending. The stored bytes would otherwise be sent, and stored in its place.
        let isSigned =
            signings > stored.signings
            || signings == stored.signings && isSignedHere && stored.state == .prepared && command.digest != stored.command.digest
        var row = isSigned && !stored.isEnded && !stored.isDirect ? self : stored
        row.cancelRequested = stored.cancelRequested || cancelRequested
        row.isShared = stored.isShared || isShared
        row.isOwn = isOwn
        return row
    }

    /// Whether the app wants the command to end, if it still can.
    package var isCancelled: Bool { cancelRequested || state == .withdrawn }

    /// Whether the relay may have these bytes. If it does not, only `connected` or `signedAnew` sends them.
    package var isSent: Bool {
        switch state {
        case .sent, .accepted: true
        case .prepared, .queued, .withdrawn, .refused, .final: false
        }
    }

    /// Whether the command has ended, so that nothing is left to send.
    package var isEnded: Bool {
        switch state {
        case .prepared, .queued, .sent, .accepted: false
        case .withdrawn, .refused, .final: true
        }
    }

    /// Whether the relay has not yet confirmed that it has the command.
    package var isUnanswered: Bool {
        switch state {
        case .prepared, .queued, .sent: true
        case .accepted, .withdrawn, .refused, .final: false
        }
    }

    /// The lane reaches the command on a new connection (see `OutboxLanes`).
    package mutating func connected() -> [Action] {
        switch state {
        case .prepared where mustBeShared, .sent where mustBeShared:
            // Written first, so that the process that has stored it takes no refusal for the end.
            let wasSent = state == .sent
            (state, isShared) = (.sent, true)
            return [.persist(self)] + sending(again: wasSent)
        case .prepared:
            // Written first, so that a process that reads the row after a crash knows that the relay may have the command.
            state = .sent
            return [.persist(self)] + sending(again: false)
        case .queued:
            state = .sent
            return sending(again: false)
        case .sent, .accepted:
            return sending(again: true)
        case .withdrawn, .refused, .final:
            return [.answered]
        }
    }

    /// Whether the store must say that two processes may send it.
    private var mustBeShared: Bool { !isOwn && !isShared && !isDirect }

    /// The lane reaches the command on a direct session. The row is stored as direct.
    package func connectedDirectly() -> [Action] { isSent ? [.offer] : [.answeredDirectly] }

    /// Whether the target has said that it has the bytes, which it may have got without the relay.
    package var isReceivedDirectly: Bool { isDirect && state == .accepted(.delivered) }

    /// The target has stored the command that was offered directly.
    package mutating func receivedDirectly() -> [Action] { progressed(.delivered) + [.answeredDirectly] }

    private func sending(again: Bool) -> [Action] { cancelRequested ? [.send(again: again), .cancel] : [.send(again: again)] }

    /// The relay answered `ok` to the send on the current connection.
    package mutating func accepted() -> [Action] {
        guard case .sent = state else { return [.answered] }
        return advance(to: .accepted) + [.answered]
    }

    /// The relay reported the command's progress.
    package mutating func progressed(_ progress: CommandProgress) -> [Action] {
        switch state {
        case .sent: return advance(to: progress)
        case .accepted(let current) where current < progress: return advance(to: progress)
        case .accepted, .prepared, .queued, .withdrawn, .refused, .final: return []
        }
    }

    private mutating func advance(to progress: CommandProgress) -> [Action] {
        state = .accepted(progress)
        return [.note(self), .report(.status(progress.status))]
    }

    /// The relay answered an error to the send on the current connection. The owner drops answers from an earlier connection, because they
    /// belong to no open request.
    /// - Parameters:
    ///   - now: The relay's time.
    ///   - delay: The time that the relay named, in milliseconds.
    package mutating func refused(_ rejection: CommandRejection, now: Int64, retryAfter delay: Int64? = nil) -> [Action] {
        switch (state, rejection.reason) {
        case (.sent, _) where isDirect, (.accepted, _) where isDirect:
            return refusedDirect(rejection, retryAfter: delay)
        case (.sent, .clockSkew) where !rejection.mayHaveRun && signings < Self.maximumSignings:
            return signAnew(above: nil)
        case (.sent, .numberPassed) where signsAbove(rejection), (.accepted, .numberPassed) where signsAbove(rejection):
            // If it was accepted before, the stored state has gone back: it has ended since, and the target says that it does not know how.
            return signAnew(above: rejection.highest)
        case (.sent, _) where !rejection.mayHaveRun && (rejection.reason.isLasting || !isShared):
            state = .refused(rejection)
            return [.persist(self), .answered, .report(.refused(rejection))]
        case (.sent, .expired), (.sent, .targetUnknown), (.sent, .idConflict),
            (.accepted, .expired), (.accepted, .targetUnknown), (.accepted, .idConflict):
            // The relay will not accept it any more, but it may have accepted it before, and it may have run.
            return end(CommandFinal(attestedByRelay: .indeterminate(.targetLost)))
        case (.sent, _), (.accepted, _):
            // The relay may reject it each time before it looks for it. When it has forgotten all outcomes of this age, no answer can say
            // more.
            guard now <= forgotten else { return end(CommandFinal(attestedByRelay: .indeterminate(.targetLost))) }
            return [.retryLater(.send, after: delay.map { max(100, $0) } ?? Self.retryDelay)]
        case (.prepared, _), (.queued, _), (.withdrawn, _), (.refused, _), (.final, _):
            return []
        }
    }

    /// The relay cannot take a cancellation now.
    /// - Parameter delay: In milliseconds.
    package func cancelRefused(retryAfter delay: Int64) -> [Action] {
        isSent && cancelRequested ? [.retryLater(.cancel, after: delay)] : []
    }

    /// The delay of `retryLater` is over.
    package mutating func retry(_ request: Request) -> [Action] {
        switch request {
        case .send: connected()
        case .cancel: isSent && cancelRequested ? [.cancel] : []
        }
    }

    private func refusedDirect(_ rejection: CommandRejection, retryAfter delay: Int64?) -> [Action] {
        // It was sent before the relay was told that the target may have it.
        guard rejection.mayHaveRun else { return [.retryLater(.send, after: delay.map { max(100, $0) } ?? Self.shortRetryDelay)] }
        return switch rejection.reason {
        // The relay will not have it. The target may.
        case .expired, .targetUnknown, .idConflict: [.answered]
        default: [.retryLater(.send, after: delay.map { max(100, $0) } ?? Self.retryDelay)]
        }
    }

    private mutating func signAnew(above number: UInt64?) -> [Action] {
        state = .prepared
        signings += 1
        return [.persist(self), .signAnew(above: number)]
    }

    private func signsAbove(_ rejection: CommandRejection) -> Bool {
        !rejection.mayHaveRun && signings < Self.maximumSignings && rejection.highest != nil
    }

    /// When every relay has forgotten the command's outcome.
    private var forgotten: Int64 {
        command.expires.saturatingAdding(CommandPeriod.grace).saturatingAdding(CommandPeriod.retention)
    }

    /// The owner signed the command again: other bytes, the same id.
    /// - Parameter sending: Whether to send it at once: the result of `OutboxLanes.isCurrent`.
    package mutating func signedAnew(_ command: CommandDescriptor, sending: Bool) -> [Action] {
        // If the old bytes were sent in the meantime, the relay's answer to them decides.
        guard case .prepared = state, command.id == self.command.id, command.lane == self.command.lane else { return [] }
        self.command = command
        isSignedHere = true
        if sending { state = .sent }
        return [.persist(self)] + (sending ? self.sending(again: false) : [])
    }

    /// The app cancels the command. The outcome shows whether the cancellation was in time.
    package mutating func cancel() -> [Action] {
        switch state {
        case .prepared where signings == 1:
            state = .withdrawn
            return [.persist(self), .answered, .report(.withdrawn)]
        case .prepared where !cancelRequested, .queued where !cancelRequested:
            // Another process may have read the row, which is or was stored as sent, and sent it.
            cancelRequested = true
            return [.persist(self)]
        case .sent where !cancelRequested, .accepted where !cancelRequested:
            cancelRequested = true
            return [.persist(self), .cancel] + (isDirect ? [.offer] : [])
        case .prepared, .queued, .sent, .accepted, .withdrawn, .refused, .final:
            return []
        }
    }

    /// The relay or the target sent the final outcome.
    /// - Parameters:
    ///   - receiptIsValid: Whether the receipt is the target's, names this blob's digest, and contains exactly this outcome and reply. It is
    ///     ignored if the relay attests the outcome.
    ///   - isDirect: Whether the target has sent it itself.
    ///   - targetIsRevoked: Whether a signed revocation says that the target never comes back.
    package mutating func ended(
        _ final: CommandFinal,
        receiptIsValid: Bool,
        directly isDirect: Bool = false,
        targetIsRevoked: Bool = false
    ) -> [Action] {
        let acknowledge: Action = isDirect ? .settle : .acknowledge
        switch state {
        case .withdrawn, .refused, .final:
            // The first outcome stands. The acknowledgement lets the relay, or the target, delete its row.
            return [acknowledge]
        case .prepared, .queued:
            return [.reject]
        case .sent, .accepted:
            guard final.isWithinAuthority, final.attestedBy == .relay || receiptIsValid else { return [.reject] }
            if self.isDirect, final.attestedBy == .relay {
                // The relay keeps its row until the end is known.
                return targetIsRevoked ? end(CommandFinal(attestedByRelay: .indeterminate(.targetLost))) + [acknowledge] : []
            }
            if let number = final.passedNumber, signings < Self.maximumSignings, !cancelRequested, !self.isDirect {
                // The relay deletes its row when it gets the new bytes.
                return signAnew(above: number)
            }
            // A relay that has reported `delivered` has offered the command. It cannot know any more that the command has not run.
            if final.attestedBy == .relay, state == .accepted(.delivered) {
                return end(CommandFinal(attestedByRelay: .indeterminate(.targetLost))) + [acknowledge]
            }
            return end(final) + [acknowledge]
        }
    }

    /// When `handleDeadline` has something to do, unless the command ends before: the target of a direct command no longer answers then. One
    /// that was never offered expires, if there is no relay that says so.
    package func deadline(hasRelay: Bool) -> Int64? {
        if isDirect { return isSent ? command.expires.saturatingAdding(CommandPeriod.grace) : nil }
        return isEnded || hasRelay ? nil : command.expires
    }

    package mutating func handleDeadline(now: Int64, hasRelay: Bool) -> [Action] {
        guard let deadline = deadline(hasRelay: hasRelay), now >= deadline else { return [] }
        if isDirect { return end(CommandFinal(attestedByRelay: .indeterminate(.targetLost))) }
        let rejection = CommandRejection(.expired, mayHaveRun: false)
        state = .refused(rejection)
        return [.persist(self), .answered, .report(.refused(rejection))]
    }

    private mutating func end(_ final: CommandFinal) -> [Action] {
        state = .final(final)
        return [.persist(self), .answered] + (isDirect ? [.answeredDirectly] : []) + [.report(.status(final.status))]
    }
}
