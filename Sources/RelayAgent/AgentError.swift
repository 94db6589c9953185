// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
package import RelayProtocol
import RelayStorage

/// Why a command failed, as it is printed.
package struct AgentError: Error, Sendable, CustomStringConvertible {
    /// The stable name of the kind of failure, for scripts.
    package var code: String
    /// What happened and what to do about it, for people.
    package var message: String
    package var status: ExitStatus
    /// The command that failed, if the failure concerns one.
    package var command: CommandID?
    /// Who attests the outcome, if anyone does.
    package var attested: Attestation?
    /// The number of the signal that ended the command. The process then ends itself by that signal, so that the shell sees it.
    package var signal: Int32?

    package init(_ code: String, _ message: String, _ status: ExitStatus, command: CommandID? = nil) {
        self.code = code
        self.message = DisplayText.sanitized(message)
        self.status = status
        self.command = command
    }

    package var description: String { message }
}

extension AgentError {
    static let joiningUnfinished = AgentError(
        "notSignedIn",
        "joining was not finished: run `relay login`, or `relay join` with the same link or a new one",
        .notSignedIn
    )

    static let withoutAccount = AgentError(
        "notSignedIn",
        "this device has no account, only paired devices; run `relay login URL`, or `relay join` with a join link",
        .notSignedIn
    )

    /// Converts any error of the SDK.
    package init(_ error: any Error) {
        switch error {
        case let error as AgentError: self = error
        case let error as RemoteLaunchError: self.init(error)
        case let error as AppServiceError: self.init(error)
        case let error as DevicePairingError:
            self.init("\(error.code)", error.message, .of(error.code, in: ExitStatus.pairing))
        case let error as NearShareError: self.init("\(error.code)", error.message, .of(error.code, in: ExitStatus.sharing))
        case let error as AccountError where error.code == .accountNotConfirmed: self = .accountNotConfirmed
        case let error as AccountError: self.init("\(error.code)", error.message, .of(error.code, in: ExitStatus.accounts))
        case let error as ConnectionError: self.init(error)
        case let error as PublishError: self.init("\(error.code)", error.message, .of(error.code, in: ExitStatus.publishing))
        case let error as PlatformError: self.init("\(error.code)", error.message, .of(error.code, in: ExitStatus.platform))
        case let error as JoinLinkError: self.init("linkInvalid", "\(error)", .usage)
        case let error as StorageError: self.init("storageFailed", "\(error)", .failed)
        case is CancellationError: self.init("cancelled", "it was interrupted", .failed)
        default: self.init("unknown", "\(error)", .failed)
        }
    }

    private init(_ error: RemoteLaunchError) {
        // The connection problem is more precise than `relayUnavailable`.
        if error.code == .relayUnavailable, let problem = error.cause as? ConnectionError {
            self.init(problem)
        } else {
            self.init("\(error.code)", error.message, .of(error.code, in: ExitStatus.launching), command: error.commandID)
        }
    }

    private init(_ error: AppServiceError) {
        if error.code == .networkNotAvailable, let problem = error.cause as? ConnectionError {
            self.init(problem)
        } else {
            self.init("\(error.code)", error.message, .of(error.code, in: ExitStatus.calling))
        }
    }

    private static let accountNotConfirmed = AgentError(
        "accountNotConfirmed",
        "the account was not confirmed: its login was ended, and nothing of it is kept here",
        .declined
    )

    /// The same of a command with a join link, which works once.
    static let accountOfLinkNotConfirmed = AgentError(
        accountNotConfirmed.code,
        accountNotConfirmed.message + ". The link is used up: another try needs a new one",
        .declined
    )

    private init(_ problem: ConnectionError) {
        if problem.code == .accountNotConfirmed {
            self = .accountNotConfirmed
            return
        }
        // Some messages name a command of this command line instead of the SDK's remedy.
        let message =
            switch problem.code {
            case .endpointRevoked: "this device was revoked; run `relay leave`, then log in or join again"
            case .authenticationError where problem.tokenError?.code == .linkReused:
                "\(problem.message): run `relay join` with a new link, or `relay login`"
            case .authenticationError where problem.tokenError?.code == .signInRequired:
                "the login has ended: run `relay login`, or `relay join` with a new link"
            default: problem.message
            }
        self.init("\(problem.code)", message, .of(problem.code, in: ExitStatus.connections))
    }

    static func ambiguous(_ what: String, _ candidates: [String]) -> AgentError {
        AgentError("ambiguous", "\(what); give the id of one of them: \(candidates.joined(separator: "; "))", .usage)
    }
}

// Next steps that need to know where the command ran.
extension AgentError {
    private static let wayProblems = [
        "relayUnreachable", "relayNotTrusted", "notARelay", "connectionLost", "networkNotAvailable", "otherRelay",
    ]

    /// A failure on the way to the relay, with the relay's address; `nil` for any other.
    init?(_ error: any Error, at membership: Membership, isJoined: Bool) {
        self.init(error)
        guard membership.hasRelay, status == .unreachable, Self.wayProblems.contains(code) else { return nil }
        message += " (relay: \(DisplayText.sanitized(membership.relay)))"
        if isJoined { message += ". To find the cause, run: relay doctor" }
    }

    /// The refusal of another device that does not know this one yet; `nil` for any other failure. The reason of such a refusal names this
    /// device's endpoint.
    init?(_ error: any Error, new local: LocalDevice) {
        self.init(error)
        guard status == .declined, let own = local.platform.accounts.endpoint(of: local.account), message.contains("\(own)"),
            let words = try? local.platform.accounts.fingerprint(of: local.account)
        else { return nil }
        message =
            "this device is new there. Run on that device, or on another one that it knows: relay approve \(own). It shows the words \(words)"
    }
}
