// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation

/// The connection state of an account, with the problem if it is not connected.
public struct ConnectionState: Hashable, Sendable, CustomStringConvertible {
    /// The phase of the connection.
    @nonexhaustive public enum Phase: Hashable, Sendable {
        /// Not connected, and no attempt is planned: before `start`, while suspended, or until the app resolves `problem`.
        case stopped
        /// Requests an access token, or connects to the relay.
        case connecting
        /// The relay has accepted this endpoint.
        case connected
        /// Not connected. The next attempt starts at this time.
        case waiting(until: Date)
    }

    /// The phase of the connection.
    public let phase: Phase
    /// Why the last connection ended or failed; `nil` while connected, and before the first attempt.
    public let problem: ConnectionError?

    /// Compares also the messages of the problems, which a person sees.
    public static func == (left: Self, right: Self) -> Bool {
        left.phase == right.phase && left.problem == right.problem && left.problem?.message == right.problem?.message
    }

    /// Consistent with `==`.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(phase)
        hasher.combine(problem)
    }

    /// Whether the relay has accepted this endpoint.
    public var isConnected: Bool { phase == .connected }

    /// A short description.
    public var description: String {
        switch phase {
        case .stopped: problem.map { "not connected: \($0.message)" } ?? "not connected"
        case .connecting: problem.map { "connecting again: \($0.message)" } ?? "connecting"
        case .connected: "connected"
        case .waiting: problem.map { "waiting to connect again: \($0.message)" } ?? "waiting to connect again"
        }
    }
}

/// Why there is no connection to the relay.
public struct ConnectionError: DeviceRelayError {
    /// The kind of problem.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: String {
            case relayUnreachable, relayNotTrusted, notARelay, authenticationError, accountUnknown, accountNotConfirmed
            case endpointRevoked, endpointInUse
            case limitExceeded, notCompatible, relayRestarting, connectionLost, networkChanged, suspended, refused, storageFailed
        }
        private let kind: Kind
        private init(_ kind: Kind) { self.kind = kind }

        /// There is no network, the host name is unknown, or the host does not answer.
        public static let relayUnreachable = Code(.relayUnreachable)
        /// The server could not prove that it is the intended relay.
        public static let relayNotTrusted = Code(.relayNotTrusted)
        /// The server is not a relay.
        public static let notARelay = Code(.notARelay)
        /// There is no access token, or the relay rejects it: the user must sign in again.
        public static let authenticationError = Code(.authenticationError)
        /// The relay has no account for this identity, or the endpoint belongs to another account.
        public static let accountUnknown = Code(.accountUnknown)
        /// The app's `confirmsAccount` has declined the account.
        public static let accountNotConfirmed = Code(.accountNotConfirmed)
        /// Another device of the account has permanently revoked this endpoint.
        public static let endpointRevoked = Code(.endpointRevoked)
        /// Another process hosts with the same endpoint.
        public static let endpointInUse = Code(.endpointInUse)
        /// The account has too many endpoints, this endpoint too many processes, or this network makes too many requests.
        public static let limitExceeded = Code(.limitExceeded)
        /// The relay and the SDK have no common protocol version, or one of them violates the protocol.
        public static let notCompatible = Code(.notCompatible)
        /// The relay announced a restart.
        public static let relayRestarting = Code(.relayRestarting)
        /// The connection broke or timed out.
        public static let connectionLost = Code(.connectionLost)
        /// The device's network changed.
        public static let networkChanged = Code(.networkChanged)
        /// The app suspended the platform.
        public static let suspended = Code(.suspended)
        /// The relay rejected the endpoint for another reason.
        public static let refused = Code(.refused)
        /// The storage directory is no longer usable.
        public static let storageFailed = Code(.storageFailed)

        /// The code's name.
        public var description: String { kind.rawValue }
    }

    /// The kind of problem.
    public let code: Code
    /// What happened and what to do about it.
    public let message: String
    /// The error of the token provider, if there is no token.
    package let tokenError: AccessTokenError?

    /// Whether the kernel says that there is no way to the relay: a further attempt fails at once, too, until the network changes.
    package let isWithoutRoute: Bool

    package init(_ code: Code, _ message: String, tokenError: AccessTokenError? = nil, isWithoutRoute: Bool = false) {
        self.code = code
        self.message = message
        self.tokenError = tokenError
        self.isWithoutRoute = isWithoutRoute
    }
}
