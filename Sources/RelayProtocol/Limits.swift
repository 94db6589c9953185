// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The names and defaults of all limits. Settings, errors and the relay's `welcome` use the same names.
@nonexhaustive public enum Limit: String, CaseIterable, Hashable, Sendable {
    /// One control message.
    case controlFrameBytes
    /// One control message before the relay has sent `welcome`.
    case controlFrameBytesBeforeWelcome
    /// A sealed command.
    case commandBytes
    /// A sealed reply to a command.
    case replyBytes
    /// A message to or from an app service, encoded.
    case messageBytes
    /// The commands in one endpoint's mailbox, including the replies that wait for it.
    case mailboxCommands
    /// Their bytes.
    case mailboxBytes
    /// Commands of one sender in one endpoint's mailbox. All senders that are not established count as one.
    case mailboxCommandsPerSender
    /// Their bytes. One command always fits.
    case mailboxBytesPerSender
    /// The bytes of all mailboxes, waiting replies and app registrations of one account together.
    case accountBytes
    /// Endpoints of one account.
    case endpointsPerAccount
    /// The endpoints of one account and its revocations together. Revocations are kept forever.
    case endpointsEverPerAccount
    /// A signed app registration.
    case appRegistrationBytes
    /// All app registrations of one endpoint.
    case appRegistrationsBytes
    /// URI schemes of one app.
    case schemesPerApp
    /// App services of one app.
    case servicesPerApp
    /// Attributes of one app.
    case attributesPerApp
    /// The UTF-8 bytes of an app service's name.
    case serviceNameBytes
    /// The characters of a device's or app's display name.
    case displayNameCharacters
    /// A URI.
    case uriBytes
    /// Sessions of one endpoint.
    case sessionsPerEndpoint
    /// Open tunnels from one endpoint to another.
    case tunnelsPerPair
    /// Open tunnels to another endpoint from one opener that is not established.
    case tunnelsPerNewcomer
    /// Open tunnels to one endpoint from all openers that are not established.
    case tunnelsOfNewcomers
    /// App service connections of one session, in both directions together.
    case connectionsPerSession
    /// The bytes that all sessions with one peer may hold. Large incoming messages, decoded requests and unsent answers each have a budget
    /// of this size.
    case assemblyBytesPerSession
    /// The same over all peers of an endpoint. A peer gets at most a quarter of what the other peers leave.
    case assemblyBytesPerEndpoint
    /// Unanswered requests of one connection and direction.
    case requestsPerConnection
    /// Unanswered requests of one session and direction, over all its connections.
    case requestsPerSession
    /// Commands that an endpoint may send per second, with bursts of ten times that.
    case commandsPerSecond
    /// App registrations that an endpoint may publish per second, with bursts of ten times that.
    case publishesPerSecond
    /// How often an endpoint may start discovery per second, with bursts of ten times that. Each run of a command-line command starts
    /// discovery once.
    case watchesPerSecond
    /// Tunnels that an endpoint may open per second, with bursts of ten times that.
    case tunnelOpensPerSecond
    /// How long a connection may stay open without a `hello`.
    case helloSeconds

    /// The unit of a limit's value.
    package enum Unit: String, Sendable {
        /// Bytes.
        case bytes
        /// Items.
        case count
        /// Characters.
        case characters
        /// Items per second.
        case perSecond
        /// Seconds.
        case seconds
    }

    /// The default value.
    package var defaultValue: Int {
        switch self {
        case .controlFrameBytes: 512 << 10
        case .controlFrameBytesBeforeWelcome: 32 << 10
        case .commandBytes, .replyBytes: 256 << 10
        case .messageBytes: 16 << 20
        case .mailboxCommands: 1_000
        case .mailboxBytes: 64 << 20
        case .mailboxCommandsPerSender: 250
        case .mailboxBytesPerSender: 16 << 20
        case .accountBytes: 512 << 20
        case .endpointsPerAccount: 64
        case .endpointsEverPerAccount: 1_024
        case .appRegistrationBytes: 16 << 10
        case .appRegistrationsBytes: 128 << 10
        case .schemesPerApp, .servicesPerApp, .attributesPerApp: 32
        case .serviceNameBytes: 128
        case .displayNameCharacters: 64
        case .uriBytes: 8 << 10
        case .sessionsPerEndpoint: 64
        case .tunnelsPerPair, .tunnelsOfNewcomers: 8
        case .tunnelsPerNewcomer: 2
        case .connectionsPerSession: 256
        case .assemblyBytesPerSession: 32 << 20
        case .assemblyBytesPerEndpoint: 128 << 20
        case .requestsPerConnection: 1_024
        case .requestsPerSession: 4_096
        case .commandsPerSecond: 50
        case .publishesPerSecond: 1
        case .watchesPerSecond, .tunnelOpensPerSecond: 10
        case .helloSeconds: 10
        }
    }

    /// The unit of the value.
    package var unit: Unit {
        switch self {
        case .mailboxCommands, .mailboxCommandsPerSender, .endpointsPerAccount, .endpointsEverPerAccount, .schemesPerApp,
            .servicesPerApp, .attributesPerApp, .sessionsPerEndpoint, .tunnelsPerPair, .tunnelsPerNewcomer, .tunnelsOfNewcomers,
            .connectionsPerSession, .requestsPerConnection, .requestsPerSession:
            .count
        case .displayNameCharacters: .characters
        case .commandsPerSecond, .publishesPerSecond, .watchesPerSecond, .tunnelOpensPerSecond: .perSecond
        case .helloSeconds: .seconds
        default: .bytes
        }
    }
}

/// The limits in force: the defaults, with overrides.
package struct Limits: Hashable, Sendable {
    private struct Override: Hashable, Sendable {
        let limit: Limit
        let value: Int
    }

    /// Sorted by name. There are few overrides, and each message looks up several limits. So a linear search is faster than hashing the
    /// name.
    private var overrides: [Override]

    /// The defaults.
    package init() {
        self.overrides = []
    }

    /// The highest value of a limit. A relay can set limits, so sums and multiples of them must not overflow.
    package static let ceiling = 1 << 30

    /// A limit's value, from 1 to 2^30. A value outside this range is replaced by the nearest one.
    package subscript(limit: Limit) -> Int {
        get { overrides.first { $0.limit == limit }?.value ?? limit.defaultValue }
        set {
            let value = min(max(1, newValue), Self.ceiling)
            overrides.removeAll { $0.limit == limit }
            // Only values that differ from the default are kept, so that equal limits are equal values.
            guard value != limit.defaultValue else { return }
            let place = overrides.firstIndex { $0.limit.rawValue > limit.rawValue } ?? overrides.endIndex
            overrides.insert(Override(limit: limit, value: value), at: place)
        }
    }

    /// Throws if the requested value exceeds the limit.
    package func check(_ limit: Limit, _ requested: Int) throws(LimitExceeded) {
        let allowed = self[limit]
        guard requested <= allowed else { throw LimitExceeded(limit: limit, allowed: allowed, requested: requested) }
    }

    /// The maximum that one peer's sessions can hold of one of the endpoint's budgets: a quarter of it, if other peers hold nothing.
    package var assemblyBytesPerPeer: Int { min(self[.assemblyBytesPerSession], self[.assemblyBytesPerEndpoint] / 4) }
}

/// A requested value exceeds a limit.
public struct LimitExceeded: Error, Hashable, Sendable, CustomStringConvertible {
    /// The limit.
    public let limit: Limit
    /// The limit's value.
    public let allowed: Int
    /// The requested value.
    public let requested: Int

    package init(limit: Limit, allowed: Int, requested: Int) {
        self.limit = limit
        self.allowed = allowed
        self.requested = requested
    }

    /// The name, the limit's value and the requested value.
    public var description: String {
        "\(limit.rawValue) is limited to \(allowed)\(limit.unit == .count ? "" : " \(limit.unit.rawValue)"), \(requested) was asked for"
    }
}

extension Limits {
    /// Throws the given error if the requested value exceeds the limit.
    package func check<Failure: Error>(_ limit: Limit, _ requested: Int, as failure: (LimitExceeded) -> Failure) throws(Failure) {
        let allowed = self[limit]
        guard requested <= allowed else { throw failure(LimitExceeded(limit: limit, allowed: allowed, requested: requested)) }
    }
}

extension Limits: JSONObjectCodable {
    /// Reads an object from limit name to value. Unknown names are ignored, so that a newer peer can add limits.
    package init(json: JSONValue) throws(JSONError) {
        self.init()
        for (name, value) in try json.object() {
            let value = try Int(json: value)
            if let limit = Limit(rawValue: name) { self[limit] = value }
        }
    }

    /// Writes all limits, including defaults.
    package func writeMembers(to json: inout JSONWriter) {
        for limit in Limit.allCases { json.member(limit.rawValue, self[limit]) }
    }
}
