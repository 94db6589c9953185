// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Why a command was not sent, or did not succeed. The errors of launches and messages are derived from it.
enum CommandFailure: Error {
    case invalidURI(LaunchURIError)
    case target(TargetError)
    /// The platform has no such account, or has not started.
    case noAccount
    /// The relay has not listed the devices.
    case noDirectory(ConnectionState)
    /// The content cannot be sent: it is too large or not encodable.
    case content(any Error)
    case tooManyCommands(LimitExceeded)
    /// The key of the submission was used for another request.
    case keyReused
    /// As many keys of submissions are kept as there may be.
    case tooManyKeys(Int)
    case storage(any Error)
    case refused(CommandRejection)
    /// The command was cancelled before it was sent.
    case withdrawn
    /// The command ended without success.
    case outcome(CommandOutcome)
    /// The command has not ended within the caller's time limit.
    case pending
    /// The caller's task was cancelled; the command continues.
    case taskCancelled
    /// The platform was shut down; the command continues after the next start.
    case shutDown
}

extension CommandFailure {
    init(storing error: any Error) {
        switch error {
        case let exceeded as LimitExceeded where exceeded.limit == .mailboxCommands: self = .tooManyCommands(exceeded)
        case let error as CommandError:
            if case .limitExceeded(let exceeded) = error { self = .content(exceeded) } else { self = .content(error) }
        case let error as CommandFailure: self = error
        case is LimitExceeded, is ValueSetError: self = .content(error)
        default: self = .storage(error)
        }
    }
}
