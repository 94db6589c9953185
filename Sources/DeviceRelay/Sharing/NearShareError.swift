// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why a transfer to another device did not succeed. The codes are those of the original's `NearShareStatus`, plus precise ones.
public struct NearShareError: DeviceRelayError {
    /// The kind of failure.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case timedOut, cancelled, deniedByRemoteSystem, versionMismatch, noSignedInUser, networkError, platformError
            case remoteSystemUnavailable, notSupported, ambiguous, fileNotFound, fileNotReadable, remoteDiskFull, remoteNotWritable, busy
            case tooLarge, disabled, failed
        }

        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// The question on the other device got no answer, or the device took nothing more, in time.
        public static let timedOut = Code(.timedOut)
        /// The transfer was cancelled.
        public static let cancelled = Code(.cancelled)
        /// The other device, its person or its settings declined.
        public static let deniedByRemoteSystem = Code(.deniedByRemoteSystem)
        /// The devices' versions do not understand each other.
        public static let versionMismatch = Code(.versionMismatch)
        /// The platform has no such account, or has not started.
        public static let noSignedInUser = Code(.noSignedInUser)
        /// This device has no network, or does not reach the relay.
        public static let networkError = Code(.networkError)
        /// This device failed, for example its storage.
        public static let platformError = Code(.platformError)
        /// The device is unknown, cannot be reached, or did not come back in time.
        public static let remoteSystemUnavailable = Code(.remoteSystemUnavailable)
        /// No app on the device receives files.
        public static let notSupported = Code(.notSupported)
        /// Several apps on the device receive files; name one.
        public static let ambiguous = Code(.ambiguous)
        /// A file to send does not exist.
        public static let fileNotFound = Code(.fileNotFound)
        /// A file to send cannot be read, or its name cannot be sent.
        public static let fileNotReadable = Code(.fileNotReadable)
        /// The disk of the other device has no room for it.
        public static let remoteDiskFull = Code(.remoteDiskFull)
        /// The other device cannot write to its folder.
        public static let remoteNotWritable = Code(.remoteNotWritable)
        /// Too many transfers run on the other device.
        public static let busy = Code(.busy)
        /// There are too many files, or too much text, for one transfer.
        public static let tooLarge = Code(.tooLarge)
        /// The settings' `nearby` does not permit it.
        public static let disabled = Code(.disabled)
        /// Any other failure.
        public static let failed = Code(.failed)

        /// The code's name.
        public var description: String { kind.rawValue }
    }

    /// The kind of failure.
    public let code: Code
    /// What happened and what to do about it.
    public let message: String
    /// The underlying error, if it says more.
    public let cause: (any Error)?

    init(_ code: Code, _ message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }
}

extension NearShareError {
    /// Why the anonymous endpoint cannot be used, or cannot be seen.
    init(_ error: DevicePairingError) {
        let code: Code =
            switch error.code {
            case .disabled: .disabled
            case .cancelled: .cancelled
            case .networkNotAvailable: .networkError
            default: .platformError
            }
        self.init(code, error.message, cause: error)
    }

    /// Why there is no connection to the device. Nothing has arrived there over it.
    init(connecting error: AppServiceError) {
        if error.code == .timedOut {
            self.init(.remoteSystemUnavailable, "the device did not answer in time; try again", cause: error)
        } else {
            self.init(error)
        }
    }

    init(_ error: AppServiceError) {
        let code: Code =
            switch error.code {
            case .timedOut: .timedOut
            case .cancelled: .cancelled
            case .notAuthorized, .disabledByPolicy, .remoteSystemNotSupportedByApp: .deniedByRemoteSystem
            case .networkNotAvailable, .webServiceUnavailable: .networkError
            case .remoteSystemUnavailable, .appServiceConnectionClosed, .appUnavailable, .wakeSuppressed, .authenticationError:
                .remoteSystemUnavailable
            case .appNotInstalled, .appServiceUnavailable: .notSupported
            case .invalidMessage, .notSupported: .versionMismatch
            case .resourceLimitsExceeded: .busy
            default: .failed
            }
        self.init(code, error.message, cause: error)
    }

    init(_ problem: ShareMessages.Problem) {
        switch problem {
        case .declined: self.init(.deniedByRemoteSystem, "the other device declined it")
        case .unanswered: self.init(.timedOut, "the question on the other device got no answer in time; try again")
        case .diskFull: self.init(.remoteDiskFull, "the other device has no room for it: a GiB of its disk stays free")
        case .notWritable: self.init(.remoteNotWritable, "the other device cannot write to its folder for received files")
        case .tooLarge: self.init(.tooLarge, "there are too many files, or too much text, for one transfer; send them in parts")
        case .invalid: self.init(.versionMismatch, "the other device does not accept how this version sends; update both")
        case .busy: self.init(.busy, "too many transfers run on the other device; try again later")
        }
    }

    /// Whether another attempt can continue the transfer.
    var isInterruption: Bool { [.timedOut, .networkError, .remoteSystemUnavailable, .busy].contains(code) }
}
