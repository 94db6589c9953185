// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why an app service could not be reached, or a request got no response.
///
/// After `timedOut`, `cancelled`, `remoteSystemUnavailable` and `appServiceConnectionClosed` a request may have been handled all the same.
public struct AppServiceError: DeviceRelayError {
    /// The kind of failure. Most have the names of the original's statuses.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        enum Name: String, CaseIterable {
            case appNotInstalled, appUnavailable, appServiceUnavailable, remoteSystemUnavailable, remoteSystemNotSupportedByApp
            case notAuthorized, authenticationError, networkNotAvailable, disabledByPolicy, webServiceUnavailable
            case failure, resourceLimitsExceeded, messageTooLarge, appServiceConnectionClosed, unknown
            case wakeSuppressed, timedOut, cancelled, invalidMessage, notSupported, submissionKeyReused
        }

        let name: Name

        /// The app is not installed on the device.
        public static let appNotInstalled = Self(name: .appNotInstalled)
        /// The app is installed but does not respond now, or it failed before it accepted the connection.
        public static let appUnavailable = Self(name: .appUnavailable)
        /// The app is installed but does not have this service.
        public static let appServiceUnavailable = Self(name: .appServiceUnavailable)
        /// The device cannot be reached, or the connection to it was lost.
        public static let remoteSystemUnavailable = Self(name: .remoteSystemUnavailable)
        /// The service does not allow this app (`allowedApps`), or the app has another `identity`.
        public static let remoteSystemNotSupportedByApp = Self(name: .remoteSystemNotSupportedByApp)
        /// The service rejects this caller.
        public static let notAuthorized = Self(name: .notAuthorized)
        /// One side could not prove its identity.
        public static let authenticationError = Self(name: .authenticationError)
        /// This device has no network, or the network does not reach the relay's address.
        public static let networkNotAvailable = Self(name: .networkNotAvailable)
        /// A policy of the other device or of the relay does not permit it.
        public static let disabledByPolicy = Self(name: .disabledByPolicy)
        /// The relay, or a service that the other app needs, does not respond.
        public static let webServiceUnavailable = Self(name: .webServiceUnavailable)
        /// The service failed, or did not answer the request.
        public static let failure = Self(name: .failure)
        /// A limit is reached; the message names it.
        public static let resourceLimitsExceeded = Self(name: .resourceLimitsExceeded)
        /// The message is larger than one of the sides permits. It also stands for the original's stateless `MessageSizeTooLarge`.
        public static let messageTooLarge = Self(name: .messageTooLarge)
        /// The connection is closed.
        public static let appServiceConnectionClosed = Self(name: .appServiceConnectionClosed)
        /// The reason is unknown.
        public static let unknown = Self(name: .unknown)
        /// The device is asleep, and the relay may not wake it before `retryAfter` has passed.
        public static let wakeSuppressed = Self(name: .wakeSuppressed)
        /// The timeout has passed without a response.
        public static let timedOut = Self(name: .timedOut)
        /// The waiting task was cancelled. In a response: the caller no longer waits.
        public static let cancelled = Self(name: .cancelled)
        /// A message could not be encoded or decoded. The cause says where.
        public static let invalidMessage = Self(name: .invalidMessage)
        /// The operation is not possible here: a connection for a stateless message cannot send, and a request accepts only one response.
        public static let notSupported = Self(name: .notSupported)
        /// The submission's key was used for another message. Nothing was sent.
        public static let submissionKeyReused = Self(name: .submissionKeyReused)

        /// The code's name.
        public var description: String { name.rawValue }
    }

    /// The kind of failure.
    public let code: Code
    /// What happened and what to do, for people. The other side sees it where a service throws this error.
    public let message: String
    /// What led to it, if that is known. It stays on this side.
    public let cause: (any Error)?
    /// How long to wait before another try can succeed, if that is known.
    public let retryAfter: Duration?

    /// Creates an error. If a service throws it, the connection or the request is rejected with this code.
    /// - Parameters:
    ///   - code: The kind of failure.
    ///   - message: The message for users; by default a text for the code.
    ///   - cause: The underlying error, if known. It is not sent to the other side.
    ///   - retryAfter: How long to wait before a retry can succeed, if known.
    public init(_ code: Code, message: String? = nil, cause: (any Error)? = nil, retryAfter: Duration? = nil) {
        self.code = code
        self.message = message ?? code.name.advice
        self.cause = cause
        self.retryAfter = retryAfter
    }
}

extension AppServiceError.Code.Name {
    /// The default message.
    var advice: String {
        switch self {
        case .appNotInstalled: "install the app on that device"
        case .appUnavailable: "the app does not answer now; try again later"
        case .appServiceUnavailable: "the app has no such service; check the service's name and the app's version"
        case .remoteSystemUnavailable: "the device cannot be reached; check that it is on and connected, and try again"
        case .remoteSystemNotSupportedByApp: "the service is not open to this app; the app that offers it has to allow it"
        case .notAuthorized: "the service does not serve this caller; approve this device on the other one"
        case .authenticationError: "one device could not prove its identity; sign in again on both"
        case .networkNotAvailable: "the network does not allow a connection; check it and try again"
        case .disabledByPolicy: "a policy forbids it"
        case .webServiceUnavailable: "a service that is needed does not answer; try again later"
        case .failure: "the service failed or gave no answer"
        case .resourceLimitsExceeded: "a limit is reached; wait for other requests to end, or raise the limit"
        case .messageTooLarge: "the message is too large; send it in parts"
        case .appServiceConnectionClosed: "the connection is closed; open another"
        case .unknown: "no reason is known; try again"
        case .wakeSuppressed: "the device sleeps and may not be woken now; try again later, or send a stateless message, which waits for it"
        case .timedOut: "there was no answer in time; try again, or wait longer"
        case .cancelled: "it was cancelled"
        case .invalidMessage: "the other side cannot decode the message"
        case .notSupported: "this connection cannot do that"
        case .submissionKeyReused: "the key was used for another message; nothing was sent"
        }
    }
}
