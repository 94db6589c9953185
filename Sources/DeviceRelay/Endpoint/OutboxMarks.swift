// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The work of the outbox that follows all actions before its mark.
struct OutboxMarks {
    typealias Waiter<Value> = CheckedContinuation<Result<Value, any Error>, Never>

    enum Work {
        /// The relay has reported the status of a command.
        case status(RelayMessage.CommandStatus)
        /// A target has sent the result of a command.
        case result(CommandID, JournalTransaction.Result, from: EndpointID)
        /// A caller waits until all earlier changes are stored.
        case stored(Waiter<Void>)
        /// A caller requests all stored commands. At the mark no command can end between reading its state and observing it.
        case list(Waiter<[(SentCommand, Outbox.State)]>)
    }

    private var work: [Int: Work] = [:]
    private var last = 0

    /// - Returns: The mark.
    mutating func add(_ work: Work) -> Int {
        last += 1
        self.work[last] = work
        return last
    }

    mutating func take(_ mark: Int) -> Work? { work.removeValue(forKey: mark) }

    /// Resumes all waiting callers with an error.
    mutating func fail(_ error: any Error) {
        let failed = work
        work = [:]
        for work in failed.values {
            switch work {
            case .status, .result: break
            case .stored(let waiter): waiter.resume(returning: .failure(error))
            case .list(let waiter): waiter.resume(returning: .failure(error))
            }
        }
    }
}
