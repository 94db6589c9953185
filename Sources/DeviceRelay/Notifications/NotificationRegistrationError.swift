// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Why a registration for notifications did not succeed.
public struct NotificationRegistrationError: DeviceRelayError {
    /// The kind of failure.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case invalidRegistration, notSupported, notHosting, relayUnavailable, accountNotFound, refused, storageFailed, cancelled
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// A field of the registration is not valid.
        public static let invalidRegistration = Code(.invalidRegistration)
        /// The relay has no channel of this type for the app. Polling always works.
        public static let notSupported = Code(.notSupported)
        /// No app is hosted, so nothing can arrive. The registration is stored, and is sent once an app is hosted.
        public static let notHosting = Code(.notHosting)
        /// The relay did not answer in time. The registration is stored, and is sent on the next connection.
        public static let relayUnavailable = Code(.relayUnavailable)
        /// The platform has no such account, has not started, or was shut down.
        public static let accountNotFound = Code(.accountNotFound)
        /// The relay rejected the registration.
        public static let refused = Code(.refused)
        /// The storage directory is not usable.
        public static let storageFailed = Code(.storageFailed)
        /// The task was cancelled, or a newer registration came first.
        public static let cancelled = Code(.cancelled)

        /// The code's name.
        public var description: String { kind.rawValue }
    }

    /// The kind of failure.
    public let code: Code
    /// What happened and what to do about it.
    public let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    init(_ failure: RelayMessage.Failure) {
        self.init(
            failure.code == .unsupported ? .notSupported : .refused,
            "the relay did not take it: \(DisplayText.sanitized(failure.message)) (\(failure.code))"
        )
    }
}
