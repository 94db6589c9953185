// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why an app service could not be reached, or gave no answer.
///
/// After `timedOut`, `cancelled`, `remoteSystemUnavailable` and `appServiceConnectionClosed` a request may have been handled all the same.
public struct AppServiceError: DeviceRelayError {
    /// The kind of failure. Most have the names of the original's statuses.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        enum Name: String, CaseIterable {
            case appNotInstalled, appUnavailable, appServiceUnavailable, remoteSystemUnavailable, remoteSystemNotSupportedByApp
            case notAuthorized, authenticationError, networkNotAvailable, disabledByPolicy, webServiceUnavailable
            case failure, resourceLimitsExceeded, messageTooLarge, appServiceConnectionClosed, unknown
            case wakeSuppressed, timedOut, cancelled, invalidMessage, notSupported
        }

        let name: Name

        /// The device has no such app.
        public static let appNotInstalled = Self(name: .appNotInstalled)
        /// The app is there and does not answer now, or it failed before it took the connection.
        public static let appUnavailable = Self(name: .appUnavailable)
        /// The app is there and has no such service.
        public static let appServiceUnavailable = Self(name: .appServiceUnavailable)
        /// The device cannot be reached, or was lost.
        public static let remoteSystemUnavailable = Self(name: .remoteSystemUnavailable)
        /// The service is not open to this app (`allowedApps`).
        public static let remoteSystemNotSupportedByApp = Self(name: .remoteSystemNotSupportedByApp)
        /// The service does not serve this caller.
        public static let notAuthorized = Self(name: .notAuthorized)
        /// One side could not prove that it is who it has to be.
        public static let authenticationError = Self(name: .authenticationError)
        /// This device, or the relay's address, cannot be reached through the network.
        public static let networkNotAvailable = Self(name: .networkNotAvailable)
        /// A policy of the other device, or of the relay, forbids it.
        public static let disabledByPolicy = Self(name: .disabledByPolicy)
        /// The relay, or a service that the other app needs, does not answer.
        public static let webServiceUnavailable = Self(name: .webServiceUnavailable)
        /// The service failed, or let the request go unanswered.
        public static let failure = Self(name: .failure)
        /// A limit is reached; the message names it.
        public static let resourceLimitsExceeded = Self(name: .resourceLimitsExceeded)
        /// The message is longer than this side sends, or the other takes. The original's stateless `MessageSizeTooLarge` too.
        public static let messageTooLarge = Self(name: .messageTooLarge)
        /// The connection is closed.
        public static let appServiceConnectionClosed = Self(name: .appServiceConnectionClosed)
        /// No reason is known.
        public static let unknown = Self(name: .unknown)
        /// The device sleeps, and may not be woken before `retryAfter` has passed.
        public static let wakeSuppressed = Self(name: .wakeSuppressed)
        /// There was no answer in time.
        public static let timedOut = Self(name: .timedOut)
        /// The task that waited was cancelled; or, when answering, the caller no longer waits.
        public static let cancelled = Self(name: .cancelled)
        /// A message could not be encoded or decoded; the cause says where.
        public static let invalidMessage = Self(name: .invalidMessage)
        /// This connection cannot do that: one made for a stateless message sends nothing, and a request is answered once.
        public static let notSupported = Self(name: .notSupported)

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

    /// A failure. Thrown by a service, it refuses the connection or the request with this code.
    /// - Parameters:
    ///   - code: The kind of failure.
    ///   - message: For people; if there is none, what the code means.
    ///   - cause: What led to it, if that is known. It stays on this side.
    ///   - retryAfter: How long to wait before another try can succeed, if that is known.
    public init(_ code: Code, message: String? = nil, cause: (any Error)? = nil, retryAfter: Duration? = nil) {
        self.code = code
        self.message = message ?? code.name.advice
        self.cause = cause
        self.retryAfter = retryAfter
    }
}

extension AppServiceError.Code.Name {
    /// What to do, if nothing more is known.
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
        }
    }
}
