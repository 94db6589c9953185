// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A command at its sender: one row of the sender's journal, and the state machine that changes it.
///
/// Every input returns actions, which the owner executes in order, in one queue for all commands of the endpoint. An
/// action after `.persist` may happen only once that write is committed; a crash loses the actions that are left, and
/// the owner starts again from the stored rows. A message is for the connection that was up when the input came; if that
/// is gone the message is dropped, since `connected()` makes up for it.
///
/// ```
/// prepared, queued ──▶ sent ──▶ accepted(progress) ──▶ final
///    │  ▲               │  └──────────────────────────▶ final
///    │  └───────────────┤ clockSkew: signed anew
///    ▼                  ▼
/// withdrawn          refused
/// ```
package struct SentCommand: Hashable, Sendable {
    package enum State: Hashable, Sendable {
        /// Stored, and never sent with these bytes; the relay has nothing of it.
        case prepared
        /// Stored as `sent`, so that its turn needs no write; but it has not left, and the relay has nothing of it. Only this process
        /// knows that: a crash makes it `sent`.
        case queued
        /// Perhaps at the relay.
        case sent
        /// Certainly at the relay.
        case accepted(CommandProgress)
        /// Cancelled before it was first sent.
        case withdrawn
        /// Never accepted.
        case refused(CommandRefusal)
        /// Ended; the row stays until the app does not want to see it any more.
        case final(CommandFinal)
    }

    package enum Action: Hashable, Sendable {
        /// Write the row; with it, when it is new or signed anew, its blob and the lane's highest number.
        case persist(SentCommand)
        /// Write the row soon. What follows need not wait, and a crash may lose it: the relay tells it again. A `persist` of the same
        /// command overtakes it, and mostly does.
        case note(SentCommand)
        /// Send the stored blob.
        case send(again: Bool)
        /// Send `command.cancel`.
        case cancel
        /// Send the acknowledgement of the final outcome.
        case acknowledge
        /// Sign a new blob under the same id, with the relay's time, and call `signedAnew`.
        case signAnew
        /// Call `connected()` again when the relay said to, or after a minute, if the connection lasts.
        case retryLater
        /// To the owner's `OutboxLanes`: the next command of the lane may be sent.
        case answered
        /// Tell the app; of a command that has ended, only its end, which it is told last.
        case report(Report)
        /// The relay said what it may not say. Log it.
        case reject
    }
    package enum Report: Hashable, Sendable {
        case status(CommandStatus)
        case withdrawn
        case refused(CommandRefusal)

        package var isEnd: Bool {
            switch self {
            case .status(let status): status.outcome != nil
            case .withdrawn, .refused: true
            }
        }
    }

    /// How often the relay may ask for a new signature before its refusal is passed on.
    package static let maximumSignings = 3

    package private(set) var command: CommandDescriptor
    package private(set) var state: State
    /// Sent behind every send until the outcome is there.
    package private(set) var cancelRequested: Bool
    package private(set) var signings: Int

    /// A row read from the store.
    package init(restoring command: CommandDescriptor, state: State, cancelRequested: Bool, signings: Int) {
        self.command = command
        self.state = state
        self.cancelRequested = cancelRequested
        self.signings = signings
    }

    /// A new command.
    /// - Parameter isConnected: Whether its turn comes on the present connection, which spares a write. Call `connected` when it does.
    package static func prepare(_ command: CommandDescriptor, isConnected: Bool) -> (SentCommand, [Action]) {
        let row = SentCommand(restoring: command, state: isConnected ? .queued : .prepared, cancelRequested: false, signings: 1)
        return (row, [.persist(row)])
    }

    /// The row as it is read again after a crash.
    package var stored: SentCommand {
        guard case .queued = state else { return self }
        var row = self
        row.state = .sent
        return row
    }

    /// What it is when the stored row is read on a new connection: other processes may have gone on with it, and what this one knows may
    /// be on its way to the store still.
    package func read(again stored: SentCommand) -> SentCommand {
        // The relay may forget it as soon as the end is stored, and tells it no more.
        if isEnded { return self }
        // What has not left is known here alone.
        if case .queued = state, self.stored == stored { return self }
        var row = stored
        row.cancelRequested = stored.cancelRequested || cancelRequested
        return row
    }

    /// Whether the outcome is there, so that nothing is to be sent.
    package var isEnded: Bool {
        switch state {
        case .prepared, .queued, .sent, .accepted: false
        case .withdrawn, .refused, .final: true
        }
    }

    /// Whether the relay is not known to have it.
    package var isUnanswered: Bool {
        switch state {
        case .prepared, .queued, .sent: true
        case .accepted, .withdrawn, .refused, .final: false
        }
    }

    /// It is the command's turn on a new connection (see `OutboxLanes`), or `retryLater` is due.
    package mutating func connected() -> [Action] {
        switch state {
        case .prepared:
            // Written first: whoever finds the row after a crash has to know that the relay may have it.
            state = .sent
            return [.persist(self), .send(again: false)]
        case .queued:
            state = .sent
            return [.send(again: false)]
        case .sent, .accepted:
            return cancelRequested ? [.send(again: true), .cancel] : [.send(again: true)]
        case .withdrawn, .refused, .final:
            return [.answered]
        }
    }

    /// The relay answered `ok` to the send that went over the present connection.
    package mutating func accepted() -> [Action] {
        guard case .sent = state else { return [.answered] }
        return advance(to: .accepted) + [.answered]
    }

    /// The relay told of the command's progress.
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

    /// The relay answered an error to the send that went over the present connection. (Answers that an earlier connection
    /// brought belong to no request any more and are dropped by the owner.)
    package mutating func refused(_ refusal: CommandRefusal) -> [Action] {
        switch (state, refusal.reason) {
        case (.sent, .clockSkew) where !refusal.mayHaveRun && signings < Self.maximumSignings:
            state = .prepared
            return [.persist(self), .signAnew]
        case (.sent, _) where !refusal.mayHaveRun:
            state = .refused(refusal)
            return [.persist(self), .answered, .report(.refused(refusal))]
        case (.sent, .expired), (.sent, .targetUnknown), (.sent, .idConflict),
            (.accepted, .expired), (.accepted, .targetUnknown), (.accepted, .idConflict):
            // It will not be accepted any more, but it may have been, and have run.
            return end(CommandFinal(attestedByRelay: .indeterminate(.targetLost)))
        case (.sent, _), (.accepted, _):
            return [.retryLater]
        case (.prepared, _), (.queued, _), (.withdrawn, _), (.refused, _), (.final, _):
            return []
        }
    }

    /// The owner signed the command anew: other bytes, the same id.
    /// - Parameter sending: Whether it can be sent at once, as `OutboxLanes.isCurrent` says.
    package mutating func signedAnew(_ command: CommandDescriptor, sending: Bool) -> [Action] {
        // If the old bytes were sent meanwhile, the relay's answer to them decides.
        guard case .prepared = state, command.id == self.command.id, command.lane == self.command.lane else { return [] }
        self.command = command
        signings += 1
        if sending { state = .sent }
        return sending ? [.persist(self), .send(again: false)] : [.persist(self)]
    }

    /// The app does not want it any more. The outcome tells whether that came in time.
    package mutating func cancel() -> [Action] {
        switch state {
        case .prepared, .queued:
            state = .withdrawn
            return [.persist(self), .answered, .report(.withdrawn)]
        case .sent where !cancelRequested, .accepted where !cancelRequested:
            cancelRequested = true
            return [.persist(self), .cancel]
        case .sent, .accepted, .withdrawn, .refused, .final:
            return []
        }
    }

    /// The relay told the final outcome.
    /// - Parameter receiptIsValid: The owner has checked that the receipt is the target's, about this blob's digest, and
    ///   says just this outcome and reply. Without meaning for what the relay attests.
    package mutating func ended(_ final: CommandFinal, receiptIsValid: Bool) -> [Action] {
        switch state {
        case .withdrawn, .refused, .final:
            // One outcome only; but the relay shall forget whatever it has.
            return [.acknowledge]
        case .prepared, .queued:
            return [.reject]
        case .sent, .accepted:
            guard final.isWithinAuthority, final.attestedBy == .relay || receiptIsValid else { return [.reject] }
            // A relay that has said "delivered" has offered it: it cannot know any more that it has not run.
            if final.attestedBy == .relay, state == .accepted(.delivered) {
                return end(CommandFinal(attestedByRelay: .indeterminate(.targetLost))) + [.acknowledge]
            }
            return end(final) + [.acknowledge]
        }
    }

    private mutating func end(_ final: CommandFinal) -> [Action] {
        state = .final(final)
        return [.persist(self), .answered, .report(.status(final.status))]
    }
}
