// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why an account could not be added, changed or removed.
public struct AccountError: Error, Sendable, CustomStringConvertible {
    /// The kind of failure.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case networkNotAvailable, serviceFailed, noAccessTokenProvider, accessTokenRequestFailed, unknown
            case linkInvalid, otherRelay, storageFailed, alreadyAdded, notFound, cancelled
        }

        private let name: Name

        /// The relay cannot be reached. Trying again later may help.
        public static let networkNotAvailable = Self(name: .networkNotAvailable)
        /// The relay, or its issuer, failed or does not answer as it should.
        public static let serviceFailed = Self(name: .serviceFailed)
        /// The platform was given no provider of access tokens.
        public static let noAccessTokenProvider = Self(name: .noAccessTokenProvider)
        /// There is no access token; the cause, if there is one, is the provider's `AccessTokenError`.
        public static let accessTokenRequestFailed = Self(name: .accessTokenRequestFailed)
        /// The join link was used, is over, or never was one.
        public static let linkInvalid = Self(name: .linkInvalid)
        /// Whoever answers is another relay than the one that is meant.
        public static let otherRelay = Self(name: .otherRelay)
        /// What belongs to the account cannot be stored or read.
        public static let storageFailed = Self(name: .storageFailed)
        /// The account is there already.
        public static let alreadyAdded = Self(name: .alreadyAdded)
        /// There is no such account.
        public static let notFound = Self(name: .notFound)
        /// The task that asked was cancelled.
        public static let cancelled = Self(name: .cancelled)
        /// Anything else; the cause tells more.
        public static let unknown = Self(name: .unknown)

        /// The code's name.
        public var description: String { name.rawValue }
    }

    /// The kind of failure.
    public var code: Code
    /// What happened and what to do, for people. It holds no secret.
    public var message: String
    /// What led to it, if that is known.
    public var cause: (any Error)?

    /// A failure with an account.
    public init(_ code: Code, message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }

    /// Code and message. The cause is left out: whoever made it may have put secrets into it.
    public var description: String { "\(code): \(message)" }

    /// The storage's own words say what to do.
    package init(_ error: StorageError) { self.init(.storageFailed, message: "\(error)", cause: error) }
}
