// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What a watcher tells.
public enum RemoteSystemEvent: Hashable, Sendable {
    /// A device is there that was not.
    case added(RemoteSystem)
    /// Something about a device changed.
    case updated(RemoteSystem)
    /// A device is gone, or no longer passes the filters; as it was last told.
    case removed(RemoteSystem)
    /// Everything that can be found so far has been told. Comes once; discovery goes on.
    case enumerationCompleted
    /// Discovery is disturbed, and goes on as far as it can.
    case error(RemoteSystemWatcherError)
}

/// Why discovery is disturbed.
public struct RemoteSystemWatcherError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What is the matter.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case unknown, internetNotAvailable, relayUnavailable, authenticationError, limitExceeded, recordRefused
            case accountChanged, revokedByRelay
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// Something else.
        public static let unknown = Code(.unknown)
        /// There is no network.
        public static let internetNotAvailable = Code(.internetNotAvailable)
        /// There is a network, but the relay does not answer.
        public static let relayUnavailable = Code(.relayUnavailable)
        /// The account must sign in again, or there is none.
        public static let authenticationError = Code(.authenticationError)
        /// The account has more endpoints than the limit allows; those beyond it are not shown.
        public static let limitExceeded = Code(.limitExceeded)
        /// The relay sent a record that its endpoint did not sign, or an old one.
        public static let recordRefused = Code(.recordRefused)
        /// The relay assigned this device to another account than before. No device of that account is known here.
        public static let accountChanged = Code(.accountChanged)
        /// The relay says that a known device was revoked, and no known device has signed that.
        public static let revokedByRelay = Code(.revokedByRelay)

        /// The code's name.
        public var description: String { kind.rawValue }
    }

    /// What is the matter.
    public let code: Code
    /// What to do about it.
    public let message: String

    package init(_ code: Code, message: String) {
        self.code = code
        self.message = message
    }

    /// Code and message.
    public var description: String { "\(code): \(message)" }
}
