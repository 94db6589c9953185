// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Why a command was not sent, or did not succeed: what the errors of launches and of messages are made from.
enum CommandTrouble: Error {
    case invalidURI(LaunchURIError)
    case target(TargetError)
    /// The platform has no such account, or was not started.
    case noAccount
    /// The relay has not told what devices there are.
    case noDirectory(ConnectionState)
    /// The content cannot be sent: too large, or not encodable.
    case content(any Error)
    case tooManyCommands(LimitExceeded)
    case storage(any Error)
    case refused(CommandRefusal)
    /// Cancelled before it was sent.
    case withdrawn
    /// It ended, and did not succeed.
    case outcome(CommandOutcome)
    /// It has not ended in the time that the caller waits.
    case pending
    /// The caller's task was cancelled; the command goes on.
    case taskCancelled
    /// The platform was shut down; the command goes on when it is started again.
    case shutDown
}
