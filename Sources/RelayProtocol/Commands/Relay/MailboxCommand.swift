// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A command at the relay: one row of a mailbox, and the state machine that changes it. The row's key is the account and
/// the command's `key`.
///
/// Every input returns actions, which the owner executes in order, in one queue for all commands towards one target. An
/// action after `.persist` may happen only once that write is committed. A message is for the connection that was up when
/// the input came; if that is gone it is dropped, since the sender's and the target's next connection make up for it.
///
/// ```
/// stored ──▶ offered(received, cancelRequested) ──▶ final ──▶ (removed)
///    └───────────────────────────────────────────────▲
/// ```
package struct MailboxCommand: Hashable, Sendable {
    package enum State: Hashable, Sendable {
        /// Never offered, in this or an earlier life of the relay: it has not run. Only here may the relay say `expired` or
        /// `cancelled`.
        case stored
        /// Perhaps at the target, which alone decides now. That the target has it (`received`) need not be stored.
        case offered(received: Bool, cancelRequested: Bool)
        /// Waiting for the sender's acknowledgement.
        case final(CommandFinal, since: Int64)
    }

    package enum Action: Hashable, Sendable {
        /// Write the row; with it its blob, when it is new.
        case persist(MailboxCommand)
        /// Remember the row, unwritten: a crash may lose it, and the target tells it again when it is offered again.
        case note(MailboxCommand)
        /// Delete row and blob.
        case remove
        /// To the sender: `ok` to its `command.send`.
        case accept
        /// To the sender: an error to its `command.send`.
        case refuse(CommandRefusal)
        /// To the sender: how far it is.
        case progress(CommandProgress)
        /// To the sender: how it ended.
        case final(CommandFinal)
        /// To the target: the blob and the sender's record.
        case offer
        /// To the target: the sender has cancelled it.
        case requestCancel
        /// To the target: its result is stored.
        case settle
        /// To the owner's `CommandDelivery`: nothing more is expected, or to be offered, on this connection.
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
    /// - Parameter inDoubt: As `CommandAdmission.check` said.
    package static func store(_ command: CommandDescriptor, inDoubt: Bool) -> (MailboxCommand, [Action]) {
        let row = MailboxCommand(
            restoring: command,
            state: inDoubt ? .offered(received: false, cancelRequested: false) : .stored
        )
        return (row, [.persist(row), .accept])
    }

    // MARK: The sender

    /// The sender sent something under the key: the same bytes get the same answer.
    package func sentAgain(digest: Digest256) -> [Action] {
        guard digest == command.digest else { return [.refuse(CommandRefusal(.idConflict, mayHaveRun: true))] }
        switch state {
        case .stored, .offered(received: false, _): return [.accept]
        case .offered(received: true, _): return [.accept, .progress(.delivered)]
        case .final(let final, _): return [.accept, .final(final)]
        }
    }

    /// The sender connected: it may have missed the outcome. (What has none, it sends again.)
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
            // Written first: from here on the relay can say neither `expired` nor `cancelled`.
            state = .offered(received: false, cancelRequested: false)
            return [.persist(self), .offer]
        case .offered(_, let cancelRequested):
            return cancelRequested ? [.offer, .requestCancel] : [.offer]
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
            // `stored` and yet at the target: the target is wrong, or its word is of another life.
            return [.answered]
        }
    }

    /// The target told its result. Whether its receipt holds is for the sender to check.
    package mutating func ended(_ final: CommandFinal, digest: Digest256, now: Int64) -> [Action] {
        switch state {
        case .stored where digest == command.digest, .offered where digest == command.digest:
            return end(final, now: now) + [.settle]
        case .stored, .offered, .final:
            // The target shall forget it: the outcome stands already, or nobody waits for one about those bytes.
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

    /// When `timePassed` has something to do, unless the state changes before.
    package var nextDeadline: Int64 {
        switch state {
        case .stored: command.expires
        case .offered: command.expires.saturatingAdding(CommandPeriod.grace)
        case .final(_, let since): since.saturatingAdding(CommandPeriod.retention)
        }
    }

    /// Called at `nextDeadline` or later.
    package mutating func timePassed(now: Int64) -> [Action] {
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
