// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayStorage

/// Why the platform did not start, or the device was not renamed.
public struct PlatformError: DeviceRelayError {
    /// The kind of failure.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case storageFailed, storageTooNew, endpointInUse, invalidSettings, shutDown
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// The storage directory is not usable.
        public static let storageFailed = Code(.storageFailed)
        /// A newer version has written the storage directory. Update this one, or restore a backup.
        public static let storageTooNew = Code(.storageTooNew)
        /// Another process hosts with the same storage directory.
        public static let endpointInUse = Code(.endpointInUse)
        /// A setting is invalid.
        public static let invalidSettings = Code(.invalidSettings)
        /// The platform was shut down; create a new one.
        public static let shutDown = Code(.shutDown)

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

    init(_ error: any Error) {
        switch error {
        case let error as PlatformError: self = error
        case let error as StorageError:
            if case .endpointInUse = error.problem {
                self.init(.endpointInUse, "\(error)")
            } else {
                self.init(.storageFailed, "\(error)")
            }
        case JournalError.tooNew: self.init(.storageTooNew, "\(error)")
        case RelayAddress.Problem.malformed:
            self.init(.invalidSettings, "the relay's URL must be http or https with a host, and without user, query and fragment")
        case RelayAddress.Problem.notEncrypted:
            self.init(
                .invalidSettings,
                "plain HTTP to another machine exposes the access token on the network; use https, or set allowsPlainHTTP if you trust the network"
            )
        default: self.init(.storageFailed, "\(error)")
        }
    }
}
