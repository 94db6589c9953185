// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayStorage

/// Why an account was not added, changed or removed.
public struct AccountError: DeviceRelayError {
    /// The kind of failure.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case networkNotAvailable, serviceFailed, noAccessTokenProvider, accessTokenRequestFailed, unknown
            case linkInvalid, otherRelay, storageFailed, alreadyAdded, notFound, cancelled
            case identityOfOtherAccount, notEstablished, accountNotConfirmed
        }

        private let name: Name

        /// The relay is not reachable. A later retry may succeed.
        public static let networkNotAvailable = Self(name: .networkNotAvailable)
        /// The relay or its issuer failed, or gave an invalid answer.
        public static let serviceFailed = Self(name: .serviceFailed)
        /// The platform has no access token provider.
        public static let noAccessTokenProvider = Self(name: .noAccessTokenProvider)
        /// There is no access token. The cause, if present, is the provider's `AccessTokenError`.
        public static let accessTokenRequestFailed = Self(name: .accessTokenRequestFailed)
        /// The join link was used, has expired, or is not valid.
        public static let linkInvalid = Self(name: .linkInvalid)
        /// The server is another relay than the intended one.
        public static let otherRelay = Self(name: .otherRelay)
        /// The account's data cannot be stored or read.
        public static let storageFailed = Self(name: .storageFailed)
        /// The account was added before.
        public static let alreadyAdded = Self(name: .alreadyAdded)
        /// The account is unknown.
        public static let notFound = Self(name: .notFound)
        /// The identity belongs to another account of the relay.
        public static let identityOfOtherAccount = Self(name: .identityOfOtherAccount)
        /// No other device has approved this one yet.
        public static let notEstablished = Self(name: .notEstablished)
        /// The app's `confirmsAccount` has declined the account. The login was ended.
        public static let accountNotConfirmed = Self(name: .accountNotConfirmed)
        /// The task was cancelled.
        public static let cancelled = Self(name: .cancelled)
        /// Any other failure; see the cause.
        public static let unknown = Self(name: .unknown)

        /// The code's name.
        public var description: String { name.rawValue }
    }

    /// The kind of failure.
    public let code: Code
    /// What happened and what to do about it, for users. It contains no secret.
    public let message: String
    /// The underlying error, if known.
    public let cause: (any Error)?
    /// Whether a join link may be used up, although its tokens did not arrive. The same installation can then use it again.
    package var mayHaveUsedLink = false

    /// Creates an error.
    public init(_ code: Code, message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }

    /// Keeps the text of the storage error, which contains the advice.
    package init(_ error: StorageError) { self.init(.storageFailed, message: "\(error)", cause: error) }
}
