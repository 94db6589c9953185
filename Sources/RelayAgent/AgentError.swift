// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
package import RelayProtocol

/// Why a command did not do what it was asked for, as it is printed.
package struct AgentError: Error, Sendable, CustomStringConvertible {
    /// For scripts: the name of the kind of failure.
    package var code: String
    /// For people: what happened and what to do.
    package var message: String
    package var status: ExitStatus
    /// The command that it is about, if there is one.
    package var command: CommandID?
    /// Who says how that ended, if anybody does.
    package var attested: Attestation?
    /// A signal ended it: the process ends by that signal when all is said, so that a shell knows.
    package var isInterruption = false

    package init(_ code: String, _ message: String, _ status: ExitStatus, command: CommandID? = nil) {
        self.code = code
        self.message = DisplayText.sanitized(message)
        self.status = status
        self.command = command
    }

    package var description: String { message }
}

extension AgentError {
    /// What any part of the SDK threw.
    package init(_ error: any Error) {
        switch error {
        case let error as AgentError: self = error
        case let error as RemoteLaunchError: self.init(error)
        case let error as AppServiceError: self.init(error)
        case let error as AccountError: self.init("\(error.code)", error.message, .of(error.code, in: ExitStatus.accounts))
        case let error as ConnectionProblem: self.init(error)
        case let error as PublishError: self.init("\(error.code)", error.message, .of(error.code, in: ExitStatus.publishing))
        case let error as PlatformError: self.init("\(error.code)", error.message, .of(error.code, in: ExitStatus.platform))
        case let error as JoinLinkError: self.init("linkInvalid", "\(error)", .usage)
        case let error as StorageError: self.init("storageFailed", "\(error)", .failed)
        case is CancellationError: self.init("cancelled", "it was interrupted", .failed)
        default: self.init("unknown", "\(error)", .failed)
        }
    }

    private init(_ error: RemoteLaunchError) {
        // Why there is no relay says more than that there is none.
        if error.code == .relayUnavailable, let problem = error.cause as? ConnectionProblem {
            self.init(problem)
        } else {
            self.init("\(error.code)", error.message, .of(error.code, in: ExitStatus.launching), command: error.commandID)
        }
    }

    private init(_ error: AppServiceError) {
        if error.code == .networkNotAvailable, let problem = error.cause as? ConnectionProblem {
            self.init(problem)
        } else {
            self.init("\(error.code)", error.message, .of(error.code, in: ExitStatus.calling))
        }
    }

    private init(_ problem: ConnectionProblem) {
        // In the words of this command line, where there is one for it.
        let message =
            switch problem.code {
            case .endpointRevoked: "this device was revoked; run `relay leave`, then join again with a new link"
            default: problem.message
            }
        self.init("\(problem.code)", message, .of(problem.code, in: ExitStatus.connections))
    }

    static func ambiguous(_ what: String, _ candidates: [String]) -> AgentError {
        AgentError("ambiguous", "\(what); say which by its id: \(candidates.joined(separator: ", "))", .usage)
    }
}
