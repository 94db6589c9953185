// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A command at the relay: one row of a mailbox, and the state machine that changes it. The row's key is the account and the command's
/// `key`.
///
/// Every input returns actions. The owner executes them in order, in one queue for all commands to one target. An action after `.persist`
/// happens only when that write is committed. A message belongs to the connection that was open at the time of the input. If that
/// connection has ended, the message is dropped, and the next connection of the sender or target makes up for it.
///
/// ```
/// stored ──▶ offered(received, cancelRequested) ──▶ final ──▶ (removed)
///    └───────────────────────────────────────────────▲
/// ```
package struct MailboxCommand: Hashable, Sendable {
    package enum State: Hashable, Sendable {
        /// Never offered, not even by an earlier process of the relay: it has not run. Only in this state may the relay attest `expired` or
        /// `cancelled`.
        case stored
        /// The target may have it, and only the target decides the outcome now. `received` need not be stored.
        case offered(received: Bool, cancelRequested: Bool)
        /// Waiting for the sender's acknowledgement.
        case final(CommandFinal, since: Int64)
    }

    package enum Action: Hashable, Sendable {
        /// Write the row, and its blob if the row is new.
        case persist(MailboxCommand)
        /// Keep the row in memory only. A crash may lose it; the target repeats the information at the next offer.
        case note(MailboxCommand)
        /// Delete row and blob.
        case remove
        /// To the sender: `ok` to its `command.send`.
        case accept
        /// To the sender: an error to its `command.send`.
        case refuse(CommandRejection)
        /// To the sender: its progress.
        case progress(CommandProgress)
        /// To the sender: its outcome.
        case final(CommandFinal)
        /// To the target: the blob and the sender's record, and whether the target has confirmed the command before.
        case offer(wasReceived: Bool)
        /// To the target: the sender has cancelled it.
        case requestCancel
        /// To the target: its result is stored.
        case settle
        /// To the owner's `CommandDelivery`: on this connection the command needs no offer and no answer any more.
        case answered
    }

    package let command: CommandDescriptor
    package private(set) var state: State

    /// A row read from the store.
    package init(restoring command: CommandDescriptor, state: State) {
        self.command = command
        self.state = state
    }

    /// A command that was admitted.
    /// - Parameters:
    ///   - inDoubt: The result of `CommandAdmission.check`.
    ///   - isReceived: Whether the target has told the sender that it has the bytes.
    package static func store(_ command: CommandDescriptor, inDoubt: Bool, isReceived: Bool = false) -> (MailboxCommand, [Action]) {
        let row = MailboxCommand(
            restoring: command,
            state: inDoubt ? .offered(received: isReceived, cancelRequested: false) : .stored
        )
        return (row, [.persist(row), .accept])
    }

    // MARK: The sender

    /// The sender sent a command with this key. The same bytes get the same answer.
    /// - Parameter rejection: Why the relay would not store these bytes as a new command, if so.
    package func sentAgain(_ sent: CommandDescriptor, refusedFor rejection: CommandRejection? = nil) -> [Action] {
        guard sent.digest == command.digest else {
            // The earlier bytes certainly have not run. So what counts is why there is no place for the new ones.
            if let rejection, sent.replaces(command) { return [.refuse(rejection)] }
            return [.refuse(CommandRejection(.idConflict, mayHaveRun: true))]
        }
        switch state {
        case .stored, .offered(received: false, _): return [.accept]
        case .offered(received: true, _): return [.accept, .progress(.delivered)]
        case .final(let final, _): return [.accept, .final(final)]
        }
    }

    /// Whether the relay itself has ended the command, and cannot have known how, because the target may have the bytes without it. Then the
    /// command is stored anew.
    package func isReopened(by sent: CommandDescriptor) -> Bool {
        guard case .final(let final, _) = state else { return false }
        return final.attestedBy == .relay && sent.digest == command.digest
    }

    /// The sender says that the target may have these bytes without the relay.
    /// - Parameter isReceived: Whether the target has told the sender that it has them.
    package mutating func offeredElsewhere(_ sent: CommandDescriptor, isReceived: Bool) -> [Action] {
        guard sent.digest == command.digest else { return [] }
        switch state {
        case .stored:
            state = .offered(received: isReceived, cancelRequested: false)
            return [.persist(self)]
        case .offered(received: false, let cancelRequested) where isReceived:
            state = .offered(received: true, cancelRequested: cancelRequested)
            return [.note(self)]
        case .offered, .final: return []
        }
    }

    /// The sender connected and may have missed the outcome. It sends commands without an outcome again itself.
    package func senderConnected() -> [Action] {
        guard case .final(let final, _) = state else { return [] }
        return [.final(final)]
    }

    /// The sender cancelled, or was removed from the account.
    package mutating func cancel(now: Int64) -> [Action] {
        switch state {
        case .stored:
            return end(CommandFinal(attestedByRelay: .cancelled), now: now)
        case .offered(let received, cancelRequested: false):
            state = .offered(received: received, cancelRequested: true)
            return [.persist(self), .requestCancel]
        case .offered(_, cancelRequested: true):
            return [.requestCancel]
        case .final(let final, _):
            return [.final(final)]
        }
    }

    /// The sender has stored the outcome.
    package func acknowledged() -> [Action] {
        guard case .final = state else { return [] }
        return [.remove]
    }

    // MARK: The target

    /// `CommandDelivery` chose the command: offer it on the target's connection.
    package mutating func offer(now: Int64) -> [Action] {
        switch state {
        case .stored:
            if now >= command.expires { return end(CommandFinal(attestedByRelay: .expired), now: now) }
            // Written before the offer: from here on the relay can attest neither `expired` nor `cancelled`.
            state = .offered(received: false, cancelRequested: false)
            return [.persist(self), .offer(wasReceived: false)]
        case .offered(let received, let cancelRequested):
            return cancelRequested ? [.offer(wasReceived: received), .requestCancel] : [.offer(wasReceived: received)]
        case .final:
            return [.answered]
        }
    }

    /// The target has stored it.
    package mutating func received() -> [Action] {
        switch state {
        case .offered(received: false, let cancelRequested):
            state = .offered(received: true, cancelRequested: cancelRequested)
            return [.answered, .note(self), .progress(.delivered)]
        case .stored, .offered(received: true, _), .final:
            // In state `stored` the target cannot have the command: the target is wrong, or its message refers to an earlier state of the
            // database.
            return [.answered]
        }
    }

    /// The target sent its result. The sender checks whether the receipt is valid.
    package mutating func ended(_ final: CommandFinal, digest: Digest256, now: Int64) -> [Action] {
        switch state {
        case .stored where digest == command.digest, .offered where digest == command.digest:
            return end(final, now: now) + [.settle]
        case .stored, .offered, .final:
            // The target may forget it: the outcome is already final, or the result is for other bytes.
            return [.answered, .settle]
        }
    }

    /// The target was removed from the account and never comes back.
    package mutating func targetRemoved(now: Int64) -> [Action] {
        switch state {
        case .stored: end(CommandFinal(attestedByRelay: .cancelled), now: now)
        case .offered: end(CommandFinal(attestedByRelay: .indeterminate(.targetLost)), now: now)
        case .final: []
        }
    }

    // MARK: Time

    /// When `handleDeadlines` has something to do, unless the state changes before that.
    package var nextDeadline: Int64 {
        switch state {
        case .stored: command.expires
        case .offered: command.expires.saturatingAdding(CommandPeriod.grace)
        case .final(_, let since): since.saturatingAdding(CommandPeriod.retention)
        }
    }

    /// Called at `nextDeadline` or later.
    package mutating func handleDeadlines(now: Int64) -> [Action] {
        guard now >= nextDeadline else { return [] }
        switch state {
        case .stored: return end(CommandFinal(attestedByRelay: .expired), now: now)
        case .offered: return end(CommandFinal(attestedByRelay: .indeterminate(.targetLost)), now: now)
        case .final: return [.remove]
        }
    }

    private mutating func end(_ final: CommandFinal, now: Int64) -> [Action] {
        state = .final(final, since: now)
        return [.answered, .persist(self), .final(final)]
    }
}
