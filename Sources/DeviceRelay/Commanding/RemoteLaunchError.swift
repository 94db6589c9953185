// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// Why a launch did not succeed. The codes take up the original's `RemoteLaunchUriStatus`, and go on where that said `Unknown`.
public struct RemoteLaunchError: Error, Sendable, CustomStringConvertible {
    /// The kind of failure.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case unknown, appUnavailable, protocolUnavailable, remoteSystemUnavailable, valueSetTooLarge, deniedByLocalSystem
            case deniedByRemoteSystem, invalidURI, ambiguous, notConfirmed, failed, expired, cancelled, indeterminate, pending
            case notAccepted, relayUnavailable, notSignedIn, storageFailed
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// Something else.
        public static let unknown = Code(.unknown)
        /// The app that was named is not there.
        public static let appUnavailable = Code(.appUnavailable)
        /// No app there takes such a URI, or the one that got it does not support it.
        public static let protocolUnavailable = Code(.protocolUnavailable)
        /// There is no such device.
        public static let remoteSystemUnavailable = Code(.remoteSystemUnavailable)
        /// The command is larger than the limit.
        public static let valueSetTooLarge = Code(.valueSetTooLarge)
        /// This device's system does not allow it.
        public static let deniedByLocalSystem = Code(.deniedByLocalSystem)
        /// The other device, its person or its policy declined.
        public static let deniedByRemoteSystem = Code(.deniedByRemoteSystem)
        /// The text is no URI that can be launched.
        public static let invalidURI = Code(.invalidURI)
        /// Several apps there take such a URI, and nothing says which: prefer one.
        public static let ambiguous = Code(.ambiguous)
        /// Only an endpoint that nobody has confirmed could take it.
        public static let notConfirmed = Code(.notConfirmed)
        /// The app there tried, and failed.
        public static let failed = Code(.failed)
        /// It has not run and will not: its time was over.
        public static let expired = Code(.expired)
        /// It has not run and will not: it was cancelled.
        public static let cancelled = Code(.cancelled)
        /// It may have run, and is never run again.
        public static let indeterminate = Code(.indeterminate)
        /// It has not ended yet; it goes on, and `commandID` names it.
        public static let pending = Code(.pending)
        /// The relay did not take it, so it has not run and will not.
        public static let notAccepted = Code(.notAccepted)
        /// There is no connection to the relay that could tell which devices there are.
        public static let relayUnavailable = Code(.relayUnavailable)
        /// The platform has no such account, or was not started.
        public static let notSignedIn = Code(.notSignedIn)
        /// The command cannot be stored, so it was not sent.
        public static let storageFailed = Code(.storageFailed)

        /// The code's name.
        public var description: String { kind.rawValue }
    }

    /// The kind of failure.
    public let code: Code
    /// What happened and what to do. Holds no URI.
    public let message: String
    /// The command, if there is one by now.
    public let commandID: CommandID?
    /// What led to it, if there is more to say.
    public let cause: (any Error)?

    init(_ code: Code, _ message: String, commandID: CommandID? = nil, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.commandID = commandID
        self.cause = cause
    }

    /// Code and message.
    public var description: String { "\(code): \(message)" }
}

extension RemoteLaunchError {
    init(_ trouble: CommandTrouble, commandID: CommandID? = nil) {
        let (code, message) = Self.describe(trouble)
        let cause: (any Error)? =
            switch trouble {
            case .storage(let error), .content(let error): error
            case .invalidURI(let error): error
            case .noDirectory(let state): state.problem
            case .tooManyCommands(let exceeded): exceeded
            default: nil
            }
        self.init(code, message, commandID: commandID, cause: cause)
    }

    private static func describe(_ trouble: CommandTrouble) -> (Code, String) {
        switch trouble {
        case .invalidURI(let error): return (.invalidURI, error.description)
        case .target(let error): return (code(error), error.description)
        case .noAccount: return (.notSignedIn, "the platform has no such account, or was not started")
        case .noDirectory(let state): return (.relayUnavailable, "the relay has not told which devices there are; \(state)")
        case .content(let error):
            guard let exceeded = error as? LimitExceeded else { return (.unknown, "the command cannot be encoded") }
            return (.valueSetTooLarge, exceeded.description)
        case .tooManyCommands(let exceeded): return (.notAccepted, "too many commands wait for their end: \(exceeded)")
        case .storage: return (.storageFailed, "the command cannot be stored, so it was not sent; check the storage directory")
        case .refused(let refusal): return refusal.launchError
        case .withdrawn: return (.cancelled, "it was cancelled before it was sent")
        case .outcome(let outcome): return outcome.launchError
        case .pending: return (.pending, "it has not ended yet; it goes on by itself, and can be waited for again")
        case .taskCancelled: return (.pending, "nobody waits for it any more; it goes on by itself, and can be waited for again")
        case .shutDown: return (.pending, "the platform was shut down; the command goes on when it is started again")
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

extension CommandRefusal {
    fileprivate var launchError: (RemoteLaunchError.Code, String) {
        switch reason {
        case .targetUnknown: (.remoteSystemUnavailable, "the device is not in the account any more")
        case .expired: (.expired, "its time was over before the relay got it; it has not run and will not")
        case .limit(let exceeded) where exceeded.limit == .commandBytes: (.valueSetTooLarge, exceeded.description)
        case .limit(let exceeded): (.notAccepted, "the device's mailbox is full (\(exceeded)); try again when it has been there")
        case .numberPassed: (.notAccepted, "another process sent to the same app at the same moment; try again")
        case .clockSkew: (.notAccepted, "this device's clock and the relay's do not agree; set the clock and try again")
        case .idConflict, .livesTooLong: (.notAccepted, "the relay did not take it (\(code))")
        case .other(let code) where code == ControlErrorCode.tooManyRequests.rawValue:
            (.notAccepted, "too many commands at once; try again in a moment")
        case .other(let code): (.notAccepted, "the relay did not take it (\(DisplayText.sanitized(code))); it has not run and will not")
        }
    }
}

extension CommandOutcome {
    /// What a launch's caller is told of an outcome that is no success. The documentation's outcome table says the same.
    var launchError: (RemoteLaunchError.Code, String) {
        switch self {
        case .succeeded: (.unknown, "it succeeded")
        case .declined(let reason):
            (.deniedByRemoteSystem, "the other device declined" + (reason.isEmpty ? "" : ": \(DisplayText.sanitized(reason))"))
        case .unsupported: (.protocolUnavailable, "the app there does not support it")
        case .failed(let reason): (.failed, "the app there failed: \(DisplayText.sanitized(reason))")
        case .expired: (.expired, "its time was over before the other device could take it; it has not run and will not")
        case .cancelled: (.cancelled, "it was cancelled; it has not run and will not")
        case .indeterminate(.interrupted):
            (.indeterminate, "the other device stopped while it handled it; it may have run, and is not run again")
        case .indeterminate(.timedOut): (.indeterminate, "the app there did not answer in its time; it may have run, and is not run again")
        case .indeterminate(.targetLost):
            (.indeterminate, "the other device is gone, or what it answered does not hold; it may have run, and is not run again")
        }
    }
}
