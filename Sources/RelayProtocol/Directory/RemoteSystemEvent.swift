// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// An event of a watcher. A later version may add some.
@nonexhaustive public enum RemoteSystemEvent: Hashable, Sendable {
    /// A device was added.
    case added(RemoteSystem)
    /// A device changed.
    case updated(RemoteSystem)
    /// A device was removed or no longer passes the filters. The value is its last reported state.
    case removed(RemoteSystem)
    /// All devices known so far have been reported. This event comes once; discovery continues.
    case enumerationCompleted
    /// Discovery has an error, and continues as far as possible.
    case error(RemoteSystemWatcherError)
}

/// An error of discovery.
public struct RemoteSystemWatcherError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of error.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case unknown, internetNotAvailable, relayUnavailable, authenticationError, limitExceeded, recordRefused
            case accountChanged, revokedByRelay
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// Any other error.
        public static let unknown = Code(.unknown)
        /// There is no network.
        public static let internetNotAvailable = Code(.internetNotAvailable)
        /// There is a network, but the relay does not answer.
        public static let relayUnavailable = Code(.relayUnavailable)
        /// No account is signed in, or the account must sign in again.
        public static let authenticationError = Code(.authenticationError)
        /// The account has more endpoints than the limit allows. The excess endpoints are not shown.
        public static let limitExceeded = Code(.limitExceeded)
        /// The relay sent a record that is outdated or not signed by its endpoint.
        public static let recordRefused = Code(.recordRefused)
        /// The relay assigned this device to another account than before. No device of that account is known here.
        public static let accountChanged = Code(.accountChanged)
        /// The relay reports that a known device was revoked, but no known device has signed the revocation.
        public static let revokedByRelay = Code(.revokedByRelay)

        /// The code's name.
        public var description: String { kind.rawValue }
    }

    /// The kind of error.
    public let code: Code
    /// Advice for the user.
    public let message: String

    package init(_ code: Code, message: String) {
        self.code = code
        self.message = message
    }

    /// The code and the message.
    public var description: String { "\(code): \(message)" }
}
