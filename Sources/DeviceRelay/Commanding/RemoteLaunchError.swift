// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// Why a launch did not succeed. The codes are those of the original's `RemoteLaunchUriStatus`, plus precise ones where
/// the original reported `Unknown`.
public struct RemoteLaunchError: DeviceRelayError {
    /// The kind of failure.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case unknown, appUnavailable, protocolUnavailable, remoteSystemUnavailable, valueSetTooLarge
            case deniedByRemoteSystem, invalidURI, ambiguous, notConfirmed, failed, expired, cancelled, indeterminate, pending
            case notAccepted, relayUnavailable, notSignedIn, storageFailed, submissionKeyReused
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// Any other failure.
        public static let unknown = Code(.unknown)
        /// The named app is not published.
        public static let appUnavailable = Code(.appUnavailable)
        /// No app on the device accepts the URI, or the app that received it does not support it.
        public static let protocolUnavailable = Code(.protocolUnavailable)
        /// The device is unknown.
        public static let remoteSystemUnavailable = Code(.remoteSystemUnavailable)
        /// The command is larger than the limit.
        public static let valueSetTooLarge = Code(.valueSetTooLarge)
        /// The other device, its user or its policy declined the launch.
        public static let deniedByRemoteSystem = Code(.deniedByRemoteSystem)
        /// The text is not a URI that can be launched.
        public static let invalidURI = Code(.invalidURI)
        /// Several apps on the device accept the URI, and none is preferred. Name a preferred app.
        public static let ambiguous = Code(.ambiguous)
        /// Only an unconfirmed endpoint of the device could accept the launch.
        public static let notConfirmed = Code(.notConfirmed)
        /// The app on the device failed to open the URI.
        public static let failed = Code(.failed)
        /// The launch expired. It did not run and will not run.
        public static let expired = Code(.expired)
        /// The launch was cancelled. It did not run and will not run.
        public static let cancelled = Code(.cancelled)
        /// The launch may have run. It will not run again.
        public static let indeterminate = Code(.indeterminate)
        /// The launch has not ended. It continues under `commandID`.
        public static let pending = Code(.pending)
        /// The relay rejected the launch. It did not run and will not run.
        public static let notAccepted = Code(.notAccepted)
        /// There is no connection to the relay, and the devices are not known.
        public static let relayUnavailable = Code(.relayUnavailable)
        /// The platform has no such account, or has not started.
        public static let notSignedIn = Code(.notSignedIn)
        /// The launch could not be stored, so it was not sent.
        public static let storageFailed = Code(.storageFailed)
        /// The submission's key was used for another request. Nothing was sent.
        public static let submissionKeyReused = Code(.submissionKeyReused)

        /// The code's name.
        public var description: String { kind.rawValue }
    }

    /// The kind of failure.
    public let code: Code
    /// What happened and what to do about it. It contains no URI.
    public let message: String
    /// The command, if it was created.
    public let commandID: CommandID?
    /// Who attests the outcome; `nil` if there is none, or the command ended on this device before the relay accepted it.
    public let attestation: OutcomeAttestation?
    /// The underlying error, if it says more.
    public let cause: (any Error)?

    init(
        _ code: Code,
        _ message: String,
        commandID: CommandID? = nil,
        attestation: OutcomeAttestation? = nil,
        cause: (any Error)? = nil
    ) {
        self.code = code
        self.message = message
        self.commandID = commandID
        self.attestation = attestation
        self.cause = cause
    }
}

extension RemoteLaunchError {
    init(_ failure: CommandFailure, commandID: CommandID? = nil, _ attestation: OutcomeAttestation? = nil) {
        let (code, message) = Self.describe(failure)
        let cause: (any Error)? =
            switch failure {
            case .storage(let error), .content(let error): error
            case .invalidURI(let error): error
            case .noDirectory(let state): state.problem
            case .tooManyCommands(let exceeded): exceeded
            default: nil
            }
        self.init(code, message, commandID: commandID, attestation: attestation, cause: cause)
    }

    private static func describe(_ failure: CommandFailure) -> (Code, String) {
        switch failure {
        case .invalidURI(let error): return (.invalidURI, error.description)
        case .target(let error): return (code(error), error.description)
        case .noAccount: return (.notSignedIn, "the platform has no such account, or was not started")
        case .noDirectory(let state): return (.relayUnavailable, "the relay has not sent the list of devices; \(state)")
        case .content(let error):
            guard let exceeded = error as? LimitExceeded else { return (.unknown, "the command cannot be encoded") }
            return (.valueSetTooLarge, exceeded.description)
        case .tooManyCommands(let exceeded): return (.notAccepted, "too many commands have not ended yet: \(exceeded)")
        case .keyReused: return (.submissionKeyReused, "the key was used for another request; nothing was sent")
        case .tooManyKeys(let limit): return (.notAccepted, CommandFailure.keysMessage(limit))
        case .storage: return (.storageFailed, "the command cannot be stored, so it was not sent; check the storage directory")
        case .refused(let rejection): return rejection.launchError
        case .withdrawn: return (.cancelled, "it was cancelled before it was sent")
        case .outcome(let outcome): return outcome.launchError
        case .pending: return (.pending, "it has not ended yet; it continues by itself, and can be awaited again")
        case .taskCancelled: return (.pending, "the wait was cancelled; the launch continues by itself, and can be awaited again")
        case .shutDown: return (.pending, "the platform was shut down; the command continues when it is started again")
        }
    }

    private static func code(_ error: TargetError) -> Code {
        switch error {
        case .remoteSystemUnavailable: .remoteSystemUnavailable
        case .appUnavailable, .appNotInstalled, .appServiceUnavailable: .appUnavailable
        case .protocolUnavailable: .protocolUnavailable
        case .ambiguous: .ambiguous
        case .notConfirmed: .notConfirmed
        }
    }
}

extension CommandRejection {
    fileprivate var launchError: (RemoteLaunchError.Code, String) {
        switch reason {
        case .targetUnknown: (.remoteSystemUnavailable, "the device is not in the account any more")
        case .expired: (.expired, "it expired before the relay received it; it has not run and will not")
        case .limit(let exceeded) where exceeded.limit == .commandBytes: (.valueSetTooLarge, exceeded.description)
        case .limit(let exceeded): (.notAccepted, "the device's mailbox is full (\(exceeded)); try again after the device has connected")
        case .numberPassed: (.notAccepted, "this device's data was restored from a copy, and its commands are behind; try again")
        case .clockSkew: (.notAccepted, "this device's clock differs from the relay's; correct the clock and try again")
        case .idConflict, .livesTooLong: (.notAccepted, "the relay did not accept it (\(code))")
        case .other(let code) where code == ControlErrorCode.tooManyRequests.rawValue:
            (.notAccepted, "too many commands at once; try again in a moment")
        case .other(let code): (.notAccepted, "the relay did not accept it (\(DisplayText.sanitized(code))); it has not run and will not")
        }
    }
}

extension CommandOutcome {
    /// The launch error of an outcome without success. The outcome table of the documentation is the same.
    var launchError: (RemoteLaunchError.Code, String) {
        switch self {
        case .succeeded: (.unknown, "it succeeded")
        case .declined(let reason):
            (.deniedByRemoteSystem, "the other device declined" + (reason.isEmpty ? "" : ": \(DisplayText.sanitized(reason))"))
        case .unsupported: (.protocolUnavailable, "the app there does not support it")
        case .failed(let reason): (.failed, "the app there reports: \(DisplayText.sanitized(reason))")
        case .expired: (.expired, "it expired before the other device could accept it; it has not run and will not")
        case .cancelled: (.cancelled, "it was cancelled; it has not run and will not")
        case .indeterminate(.interrupted):
            (.indeterminate, "the other device stopped while it handled the launch; it may have run, and is not run again")
        case .indeterminate(.timedOut): (.indeterminate, "the app there did not answer in time; it may have run, and is not run again")
        case .indeterminate(.forgotten):
            (
                .indeterminate,
                "the other device no longer knows whether it handled the launch, because data of one of the devices or of the relay was "
                    + "restored from a copy; it may have run, and is not run again"
            )
        case .indeterminate(.targetLost):
            (
                .indeterminate,
                "the other device does not exist any more, or its receipt is not valid; the launch may have run, and is not run again"
            )
        }
    }
}
