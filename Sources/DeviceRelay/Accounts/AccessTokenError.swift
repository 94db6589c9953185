// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why there is no access token.
public struct AccessTokenError: DeviceRelayError {
    /// The kind of failure.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case signInRequired, endpointRevoked, linkReused, declined, networkNotAvailable, serviceFailed, noProvider, cancelled, unknown
        }

        private let name: Name

        /// The user must sign in and has not.
        public static let signInRequired = Self(name: .signInRequired)
        /// This endpoint was revoked, and its login with it. Remove the account and join again.
        public static let endpointRevoked = Self(name: .endpointRevoked)
        /// Two devices used one join link, so the login of the first one has ended. Join again with a link of its own, or sign in.
        public static let linkReused = Self(name: .linkReused)
        /// The user or the issuer declined.
        public static let declined = Self(name: .declined)
        /// The issuer is not reachable. The platform retries.
        public static let networkNotAvailable = Self(name: .networkNotAvailable)
        /// The issuer failed. The platform retries.
        public static let serviceFailed = Self(name: .serviceFailed)
        /// The platform has no provider for this account.
        public static let noProvider = Self(name: .noProvider)
        /// The task was cancelled.
        public static let cancelled = Self(name: .cancelled)
        /// Any other failure; see the cause.
        public static let unknown = Self(name: .unknown)

        /// The code's name.
        public var description: String { name.rawValue }
    }

    /// The kind of failure.
    public let code: Code
    /// What happened and what to do about it, for users. It must not contain a token.
    public let message: String
    /// The underlying error, if known.
    public let cause: (any Error)?

    /// Creates an error.
    public init(_ code: Code, message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }

    /// Whether a retry may succeed without an action of the user.
    package var isTransient: Bool { code == .networkNotAvailable || code == .serviceFailed }
}
