// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why there is no access token.
public struct AccessTokenError: Error, Sendable, CustomStringConvertible {
    /// The kind of failure.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case signInRequired, endpointRevoked, declined, networkNotAvailable, serviceFailed, noProvider, cancelled, unknown
        }

        private let name: Name

        /// The person has to sign in, and has not.
        public static let signInRequired = Self(name: .signInRequired)
        /// This endpoint was revoked, and its login with it: the account is to be removed and joined again.
        public static let endpointRevoked = Self(name: .endpointRevoked)
        /// The person, or the issuer, said no.
        public static let declined = Self(name: .declined)
        /// The issuer cannot be reached. The platform asks again by itself.
        public static let networkNotAvailable = Self(name: .networkNotAvailable)
        /// The issuer failed. The platform asks again by itself.
        public static let serviceFailed = Self(name: .serviceFailed)
        /// The platform was given no provider for this account.
        public static let noProvider = Self(name: .noProvider)
        /// The task that asked was cancelled.
        public static let cancelled = Self(name: .cancelled)
        /// Anything else; the cause tells more.
        public static let unknown = Self(name: .unknown)

        /// The code's name.
        public var description: String { name.rawValue }
    }

    /// The kind of failure.
    public var code: Code
    /// What happened and what to do, for people. It must not hold a token.
    public var message: String
    /// What led to it, if that is known.
    public var cause: (any Error)?

    /// A failure to get a token.
    public init(_ code: Code, message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }

    /// Code and message. The cause is left out: whoever made it may have put secrets into it.
    public var description: String { "\(code): \(message)" }

    /// Whether asking again later may help, though the person does nothing.
    package var isTransient: Bool { code == .networkNotAvailable || code == .serviceFailed }
}
