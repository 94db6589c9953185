// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Everything that is bounded, in one place. The name is the one in settings, errors and the relay's `welcome`.
public enum Limit: String, CaseIterable, Hashable, Sendable {
    /// One control message.
    case controlFrameBytes
    /// One control message before the relay has said `welcome`.
    case controlFrameBytesBeforeWelcome
    /// A sealed command.
    case commandBytes
    /// A sealed reply to a command.
    case replyBytes
    /// A message to or from an app service, encoded.
    case messageBytes
    /// Commands in one endpoint's mailbox, the replies that wait for it included.
    case mailboxCommands
    /// Bytes of the same.
    case mailboxBytes
    /// Commands of one sender in one endpoint's mailbox. All senders that are not established count as one.
    case mailboxCommandsPerSender
    /// Bytes of the same. One command always fits.
    case mailboxBytesPerSender
    /// Bytes of all mailboxes, replies that wait and app registrations of one account together.
    case accountBytes
    /// Endpoints of one account.
    case endpointsPerAccount
    /// Endpoints of one account and its revocations, which are kept for ever.
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
    /// Tunnels that one endpoint has open to another one.
    case tunnelsPerPair
    /// The same of an opener that is not established.
    case tunnelsPerNewcomer
    /// Tunnels to one endpoint of all openers that are not established.
    case tunnelsOfNewcomers
    /// App service connections of one session, both directions together.
    case connectionsPerSession
    /// Bytes that all sessions of one peer may hold of large messages that arrive, of decoded requests, and of answers that have not left: so
    /// many of each.
    case assemblyBytesPerSession
    /// The same over all peers of an endpoint. No peer may hold more than it leaves free.
    case assemblyBytesPerEndpoint
    /// Requests of one connection and direction that wait for their answer.
    case requestsPerConnection
    /// Requests of one session and direction that wait for their answer, over all its connections.
    case requestsPerSession
    /// Commands an endpoint may send in a second; ten times that in a burst.
    case commandsPerSecond
    /// App registrations an endpoint may publish in a second; ten times that in a burst.
    case publishesPerSecond
    /// How often an endpoint may begin discovery in a second; ten times that in a burst. Each command of a command line does once.
    case watchesPerSecond
    /// Tunnels an endpoint may open in a second; ten times that in a burst.
    case tunnelOpensPerSecond
    /// How long a connection may stay without saying hello.
    case helloSeconds

    /// What a limit counts.
    public enum Unit: String, Sendable {
        /// Bytes.
        case bytes
        /// Things.
        case count
        /// Characters.
        case characters
        /// Things per second.
        case perSecond
        /// Seconds.
        case seconds
    }

    /// The value unless set otherwise.
    public var defaultValue: Int {
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

    /// What the value counts.
    public var unit: Unit {
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

/// The limits in force: the defaults, with those that were set otherwise.
public struct Limits: Hashable, Sendable {
    private struct Override: Hashable, Sendable {
        let limit: Limit
        let value: Int
    }

    /// In the order of their names. They are few, and asked for several times for each message: looked through, they are found sooner than
    /// by a hash of the name.
    private var overrides: [Override]

    /// The defaults.
    public init() {
        self.overrides = []
    }

    /// The highest value a limit can have. Some come from a relay: sums and multiples of them must not overflow.
    package static let ceiling = 1 << 30

    /// A limit's value, from 1 to 2^30; what is set beyond is taken as the nearest.
    public subscript(limit: Limit) -> Int {
        get { overrides.first { $0.limit == limit }?.value ?? limit.defaultValue }
        set {
            let value = min(max(1, newValue), Self.ceiling)
            overrides.removeAll { $0.limit == limit }
            // Only what differs is kept, so that equal limits are equal values.
            guard value != limit.defaultValue else { return }
            let place = overrides.firstIndex { $0.limit.rawValue > limit.rawValue } ?? overrides.endIndex
            overrides.insert(Override(limit: limit, value: value), at: place)
        }
    }

    /// Passes if no more than the limit was asked for.
    package func check(_ limit: Limit, _ requested: Int) throws(LimitExceeded) {
        let allowed = self[limit]
        guard requested <= allowed else { throw LimitExceeded(limit: limit, allowed: allowed, requested: requested) }
    }

    /// The most that a peer's sessions can hold of one of an endpoint's budgets: they hold no more than they leave free.
    package var assemblyBytesPerPeer: Int { min(self[.assemblyBytesPerSession], self[.assemblyBytesPerEndpoint] / 2) }
}

/// More was asked for than a limit allows.
public struct LimitExceeded: Error, Hashable, Sendable, CustomStringConvertible {
    /// The limit.
    public let limit: Limit
    /// Its value.
    public let allowed: Int
    /// What was asked for.
    public let requested: Int

    package init(limit: Limit, allowed: Int, requested: Int) {
        self.limit = limit
        self.allowed = allowed
        self.requested = requested
    }

    /// Names all three.
    public var description: String {
        "\(limit.rawValue) is limited to \(allowed)\(limit.unit == .count ? "" : " \(limit.unit.rawValue)"), \(requested) was asked for"
    }
}

extension Limits {
    /// Passes if no more than the limit was asked for; else the error that an area has for this.
    package func check<Failure: Error>(_ limit: Limit, _ requested: Int, as failure: (LimitExceeded) -> Failure) throws(Failure) {
        let allowed = self[limit]
        guard requested <= allowed else { throw failure(LimitExceeded(limit: limit, allowed: allowed, requested: requested)) }
    }
}

extension Limits: JSONObjectCodable {
    /// An object from limit name to value; unknown names are ignored, so that a newer peer may have more.
    package init(json: JSONValue) throws(JSONError) {
        self.init()
        for (name, value) in try json.object() {
            let value = try Int(json: value)
            if let limit = Limit(rawValue: name) { self[limit] = value }
        }
    }

    /// All limits, the defaults too.
    package func writeMembers(to json: inout JSONWriter) {
        for limit in Limit.allCases { json.member(limit.rawValue, self[limit]) }
    }
}
