// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation

/// Whether a device or endpoint can be reached now. A newer version may use more statuses.
public struct RemoteSystemStatus: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The name in JSON.
    public let rawValue: String

    /// The status of that name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// It is connected.
    public static let available = Self(rawValue: "available")
    /// A push service has taken an urgent wake, and it has not connected yet.
    public static let discoveringAvailability = Self(rawValue: "discoveringAvailability")
    /// Its availability is unknown.
    public static let unknown = Self(rawValue: "unknown")
    /// It is not connected. A wake may still reach it: see `Presence.isWakeable`.
    public static let unavailable = Self(rawValue: "unavailable")

    /// The status's name.
    public var description: String { rawValue }
}

/// The reachability of a device, an app or an endpoint, and the reason.
public struct Presence: Hashable, Sendable {
    /// Whether it can be reached now.
    public let state: RemoteSystemStatus
    /// The reason of the state.
    public let reason: Reason
    let sinceMilliseconds: Milliseconds?
    let expectedWithinMilliseconds: Milliseconds?
    /// Whether it sleeps and the relay can wake it: it has a push channel that works. A launch then arrives without anyone's help.
    public let isWakeable: Bool

    /// The start of the state, by the relay's clock.
    public var since: Date? {
        sinceMilliseconds.map { Date(timeIntervalSince1970: Double($0.count) / 1_000) }
    }

    /// The time within which it is expected to connect: it took this long to answer the last wake, or asks the relay at this interval.
    public var expectedWithin: Duration? {
        expectedWithinMilliseconds.map { .milliseconds($0.count) }
    }

    package init(
        _ state: RemoteSystemStatus,
        _ reason: Reason,
        since: Milliseconds? = nil,
        expectedWithin: Milliseconds? = nil,
        isWakeable: Bool = false
    ) {
        self.state = state
        self.isWakeable = isWakeable
        self.reason = reason
        self.sinceMilliseconds = since
        self.expectedWithinMilliseconds = expectedWithin
    }

    /// The reason of a presence. A newer relay may use more reasons.
    public struct Reason: RawRepresentable, Hashable, Sendable {
        /// The name in JSON.
        public let rawValue: String

        /// The reason of that name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// It has a live connection.
        public static let connected = Reason(rawValue: "connected")
        /// It has a live connection, and another process takes this connection over again and again: its data was copied, and is used in two
        /// places.
        public static let contested = Reason(rawValue: "contested")
        /// A wake was sent, and it has not answered yet.
        public static let waking = Reason(rawValue: "waking")
        /// It announced that it goes to sleep.
        public static let suspended = Reason(rawValue: "suspended")
        /// It announced that it signs out.
        public static let signedOut = Reason(rawValue: "signedOut")
        /// It announced that it shuts down.
        public static let shutdown = Reason(rawValue: "shutdown")
        /// Its connection broke or timed out.
        public static let lost = Reason(rawValue: "lost")
        /// It is registered but has never connected.
        public static let neverSeen = Reason(rawValue: "neverSeen")
        /// The relay has just started, and the endpoint has not connected yet.
        public static let relayStarting = Reason(rawValue: "relayStarting")
        /// This device has no connection to the relay.
        public static let relayUnreachable = Reason(rawValue: "relayUnreachable")
        /// It seems to be on this network, or has just been connected over it. A relay never states this.
        public static let nearby = Reason(rawValue: "nearby")
        /// It was paired with this device, and is not seen on this network. A relay never states this.
        public static let notNearby = Reason(rawValue: "notNearby")
    }
}

extension Presence: JSONObjectCodable {
    /// `since`, by the relay's clock.
    package var sinceTime: Milliseconds? { sinceMilliseconds }

    package init(json: JSONValue) throws(JSONError) {
        let state = RemoteSystemStatus(rawValue: try json.member("state"))
        // A newer relay may know more states.
        self.state = state.rank == nil ? .unknown : state
        self.reason = try json.member("reason")
        self.sinceMilliseconds = try json.optional("since")
        self.expectedWithinMilliseconds = try json.optional("expectedWithin")
        self.isWakeable = try json.optional("wakeable") ?? false
    }

    package func writeMembers(to json: inout JSONWriter) {
        json.member("state", state.rawValue)
        json.member("reason", reason)
        json.member("since", sinceMilliseconds)
        json.member("expectedWithin", expectedWithinMilliseconds)
        if isWakeable { json.member("wakeable", true) }
    }
}

extension Presence.Reason: JSONCodable {}

extension Presence {
    /// Orders the presences of two endpoints, best first: available, being discovered, unknown, wakeable, suspended, unavailable for another
    /// reason.
    /// If they are equal, the more recent one comes first.
    func isBetter(than other: Presence) -> Bool {
        if rank != other.rank { return rank < other.rank }
        return (sinceMilliseconds ?? 0) > (other.sinceMilliseconds ?? 0)
    }

    private var rank: Int {
        guard state == .unavailable else { return state.rank ?? 2 }
        // A suspended device may come back by itself.
        return isWakeable ? 3 : reason == .suspended ? 4 : 5
    }
}

extension RemoteSystemStatus {
    /// The order of statuses, best first; `nil` for one that this version does not know.
    fileprivate var rank: Int? {
        switch self {
        case .available: 0
        case .discoveringAvailability: 1
        case .unknown: 2
        case .unavailable: 5
        default: nil
        }
    }
}
