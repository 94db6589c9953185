// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// Whether an account is connected to its relay, and if not, why.
public struct ConnectionState: Hashable, Sendable, CustomStringConvertible {
    /// Where the connection stands.
    public enum Phase: Hashable, Sendable {
        /// There is none, and none will be tried: before `start`, while suspended, or until the app mends what `problem` says.
        case stopped
        /// A token is being asked for, or the relay dialled.
        case connecting
        /// The relay has let this endpoint in.
        case connected
        /// It will be tried again by itself at this time.
        case waiting(until: Date)
    }

    /// Where the connection stands.
    public let phase: Phase
    /// What ended the last connection, or kept it from coming about; `nil` while connected, and before the first attempt.
    public let problem: ConnectionProblem?

    /// Whether the relay has let this endpoint in.
    public var isConnected: Bool { phase == .connected }

    /// In a few words.
    public var description: String {
        switch phase {
        case .stopped: problem.map { "not connected: \($0.message)" } ?? "not connected"
        case .connecting: problem.map { "connecting again: \($0.message)" } ?? "connecting"
        case .connected: "connected"
        case .waiting: problem.map { "waiting to connect again: \($0.message)" } ?? "waiting to connect again"
        }
    }
}

/// What is in the way of a connection to the relay.
public struct ConnectionProblem: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of problem.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case relayUnreachable, relayNotTrusted, notARelay, authenticationError, accountUnknown, endpointRevoked, endpointInUse
            case limitExceeded, notCompatible, relayRestarting, connectionLost, networkChanged, suspended, refused, storageFailed
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// No network, no such host, or nobody answers there.
        public static let relayUnreachable = Code(.relayUnreachable)
        /// Whoever answers cannot prove to be the relay that is meant.
        public static let relayNotTrusted = Code(.relayNotTrusted)
        /// Whoever answers is no relay.
        public static let notARelay = Code(.notARelay)
        /// There is no access token, or the relay does not take it: the person has to sign in again.
        public static let authenticationError = Code(.authenticationError)
        /// The relay has no account for this identity, or the endpoint belongs to another.
        public static let accountUnknown = Code(.accountUnknown)
        /// Another device of the account has shut this endpoint out, for ever.
        public static let endpointRevoked = Code(.endpointRevoked)
        /// Another process hosts with the same endpoint.
        public static let endpointInUse = Code(.endpointInUse)
        /// The account has too many endpoints, or this endpoint too many processes.
        public static let limitExceeded = Code(.limitExceeded)
        /// Relay and SDK have no protocol version in common, or one of them breaks the protocol.
        public static let notCompatible = Code(.notCompatible)
        /// The relay said that it restarts.
        public static let relayRestarting = Code(.relayRestarting)
        /// The connection broke off or fell silent.
        public static let connectionLost = Code(.connectionLost)
        /// The device got another network.
        public static let networkChanged = Code(.networkChanged)
        /// The app suspended the platform.
        public static let suspended = Code(.suspended)
        /// The relay did not let the endpoint in, for a reason of its own.
        public static let refused = Code(.refused)
        /// The storage directory cannot be used any more.
        public static let storageFailed = Code(.storageFailed)

        /// The code's name.
        public var description: String { kind.rawValue }
    }

    /// The kind of problem.
    public let code: Code
    /// What it is and what to do about it.
    public let message: String

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// Code and message.
    public var description: String { "\(code): \(message)" }
}
