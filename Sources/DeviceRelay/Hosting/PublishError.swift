// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Why an app was not published or withdrawn.
public struct PublishError: DeviceRelayError {
    /// The kind of failure.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case invalidRegistration, limitExceeded, endpointInUse, relayUnavailable, notSignedIn, refused, storageFailed, cancelled
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// A field of the registration is invalid.
        public static let invalidRegistration = Code(.invalidRegistration)
        /// The registration, or all registrations of this endpoint together, exceed a limit.
        public static let limitExceeded = Code(.limitExceeded)
        /// Another process hosts with this storage directory.
        public static let endpointInUse = Code(.endpointInUse)
        /// The relay did not get the registration.
        public static let relayUnavailable = Code(.relayUnavailable)
        /// The platform has no such account, has not started, or was shut down.
        public static let notSignedIn = Code(.notSignedIn)
        /// The relay rejected the registration.
        public static let refused = Code(.refused)
        /// The storage directory is not usable.
        public static let storageFailed = Code(.storageFailed)
        /// The task was cancelled. The app may still be published.
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
        let isLimit = failure.code == .limitExceeded
        self.init(
            isLimit ? .limitExceeded : .refused,
            "the relay did not take it: \(DisplayText.sanitized(failure.message)) (\(failure.code))"
        )
    }

    init(_ error: any Error) {
        switch error {
        case RecordError.limitExceeded(let exceeded): self.init(.limitExceeded, exceeded.description)
        case RecordError.invalidField(let field):
            self.init(.invalidRegistration, "the registration's \(field) has a value that is not allowed")
        case is RecordError: self.init(.invalidRegistration, "the registration is not valid")
        default: self.init(.storageFailed, "the registration cannot be signed: \(error)")
        }
    }
}
