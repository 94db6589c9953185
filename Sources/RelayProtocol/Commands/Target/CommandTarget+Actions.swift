// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension CommandTarget {
    /// How far a lane has come. Ids grow with the time at which they were made, so an id that is later than that of every accepted command
    /// belongs to a command that was not accepted.
    package struct LanePosition: Hashable, Sendable {
        /// The highest accepted number.
        package var number: UInt64
        /// The latest accepted id.
        package var latest: CommandID

        package init(number: UInt64, latest: CommandID) {
            self.number = number
            self.latest = latest
        }
    }

    package enum State: Hashable, Sendable {
        /// It waits in its lane.
        case received
        /// The handler has the command, or had it before a crash; the reader cannot tell which.
        case handling
        /// It has ended. The result is kept until the relay or the sender has settled it.
        case answered(CommandOutcome)
        /// The relay or the sender has the result. It is kept for late offers on the other path.
        case settled(CommandOutcome)
    }

    /// The stored state of a command, until it is forgotten.
    package struct Row: Hashable, Sendable {
        package let command: CommandDescriptor
        package var state: State
        /// The paths on which it was offered. Only the first one is stored: on the others it is offered again.
        package var paths: Set<CommandPath>
        /// The size of the reply of a stored or settled row, in bytes.
        package var replyBytes: Int

        package init(restoring command: CommandDescriptor, state: State, paths: Set<CommandPath> = [.relay], replyBytes: Int = 0) {
            self.command = command
            self.state = state
            self.paths = paths
            self.replyBytes = replyBytes
        }

        /// How it has ended, if it has.
        package var outcome: CommandOutcome? {
            switch state {
            case .received, .handling: nil
            case .answered(let outcome), .settled(let outcome): outcome
            }
        }

        package var isSettled: Bool { if case .settled = state { true } else { false } }
    }

    package enum Action: Hashable, Sendable {
        /// Insert or replace the row and, in the same commit, the lane's highest number if it is given, with the latest of its ids. An answered row is written with its
        /// reply and with the receipt, which the owner signs over both. A received row is written with the command itself, which is not
        /// read again once the command is in handling.
        case persist(Row, highest: UInt64?, reply: [UInt8]?)
        /// Write the answered row of a handled command, with its reply and the receipt, unless the row is removed before. Write it soon, or
        /// at once if there is no connection for the result or the connection ends. A crash before the write counts as a crash during
        /// handling.
        case note(Row, reply: [UInt8]?)
        /// Delete the row and its data, with the next commit or soon. If a crash prevents this, the relay settles the row once more.
        case remove(CommandKey)
        /// Write the settled row soon, with its result if that is not written yet. If a crash prevents this, it is settled once more.
        case keepSettled(Row)
        /// Delete the lane's highest number.
        case removeLane(CommandLane)
        /// Say that the command is stored.
        case sendReceived(CommandKey, on: CommandPath = .relay)
        /// Send the result with the stored or noted receipt and reply, or with those of the `.note` that follows this action.
        case sendResult(CommandKey, on: CommandPath = .relay)
        /// Send a result for a command that is not stored. The owner signs a receipt for it, with the lane's highest number if the
        /// command's number has passed.
        case sendUnstoredResult(CommandDescriptor, CommandOutcome, highest: UInt64?, on: CommandPath = .relay)
        /// Answer that a command that was offered directly cannot be taken now.
        case postpone(CommandKey)
        /// Pass the command to its app and call `handlerEnded`. After 30 s call `handlerTimedOut`.
        case handle(CommandDescriptor)
        /// Extend the handler's time to 5 min from its start.
        case extendTime(CommandKey)
        /// Tell the handler that the sender has cancelled. Its answer still counts.
        case tellCancelled(CommandKey)
        /// Cancel the handler's task and ignore its answer.
        case stopHandler(CommandKey)
        /// Close the connection, because the relay offers more commands than there is room for. On the next connection it offers all of
        /// them again.
        case disconnect(LimitExceeded)
    }
}
