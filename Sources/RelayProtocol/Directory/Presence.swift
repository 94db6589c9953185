// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// Whether a device or endpoint can be reached now.
public enum RemoteSystemStatus: String, Hashable, Sendable, CaseIterable {
    /// It is connected.
    case available
    /// It is being asked: a wake was sent, or the relay has only just begun to listen.
    case discoveringAvailability
    /// Nobody knows.
    case unknown
    /// It is not connected. It may still be woken: the presence's reason says.
    case unavailable
}

/// What is known of the reachability of a device, an app or an endpoint, and why.
public struct Presence: Hashable, Sendable {
    /// Whether it can be reached now.
    public let state: RemoteSystemStatus
    /// Why it is so.
    public let reason: Reason
    let sinceMilliseconds: Milliseconds?
    let expectedWithinMilliseconds: Milliseconds?

    /// Since when, by the relay's clock.
    public var since: Date? {
        sinceMilliseconds.map { Date(timeIntervalSince1970: Double($0.count) / 1_000) }
    }

    /// How soon it would answer a wake.
    public var expectedWithin: Duration? {
        expectedWithinMilliseconds.map { .milliseconds($0.count) }
    }

    package init(_ state: RemoteSystemStatus, _ reason: Reason, since: Milliseconds? = nil, expectedWithin: Milliseconds? = nil) {
        self.state = state
        self.reason = reason
        self.sinceMilliseconds = since
        self.expectedWithinMilliseconds = expectedWithin
    }

    /// Why a presence is what it is. A newer relay may know more reasons.
    public struct Reason: RawRepresentable, Hashable, Sendable {
        /// The name in JSON.
        public let rawValue: String

        /// The reason of that name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// It has a live connection.
        public static let connected = Reason(rawValue: "connected")
        /// It was sent a wake that it has not answered yet.
        public static let waking = Reason(rawValue: "waking")
        /// It said that it goes to sleep, and can be woken.
        public static let suspended = Reason(rawValue: "suspended")
        /// It said that it signs out.
        public static let signedOut = Reason(rawValue: "signedOut")
        /// It said that it shuts down.
        public static let shutdown = Reason(rawValue: "shutdown")
        /// Its connection broke off or fell silent.
        public static let lost = Reason(rawValue: "lost")
        /// It is registered and has never connected.
        public static let neverSeen = Reason(rawValue: "neverSeen")
        /// The relay has just started and has not heard from it yet.
        public static let relayStarting = Reason(rawValue: "relayStarting")
        /// There is no connection to the relay that would know.
        public static let relayUnreachable = Reason(rawValue: "relayUnreachable")
    }
}

extension Presence: JSONObjectCodable {
    package init(json: JSONValue) throws(JSONError) {
        // A newer relay may know more states.
        self.state = RemoteSystemStatus(rawValue: try json.member("state")) ?? .unknown
        self.reason = try json.member("reason")
        self.sinceMilliseconds = try json.optional("since")
        self.expectedWithinMilliseconds = try json.optional("expectedWithin")
    }

    package func writeMembers(to json: inout JSONWriter) {
        json.member("state", state.rawValue)
        json.member("reason", reason)
        json.member("since", sinceMilliseconds)
        json.member("expectedWithin", expectedWithinMilliseconds)
    }
}

extension Presence.Reason: JSONCodable {}

extension Presence {
    /// Whether this says of two endpoints of a device which is the one to count on: what is there, what can be had, what
    /// may be; of equals, the one with the more recent news.
    func isBetter(than other: Presence) -> Bool {
        if rank != other.rank { return rank < other.rank }
        return (sinceMilliseconds ?? 0) > (other.sinceMilliseconds ?? 0)
    }

    private var rank: Int {
        switch state {
        case .available: 0
        case .discoveringAvailability: 1
        case .unknown: 2
        case .unavailable: reason == .suspended ? 3 : 4
        }
    }
}
