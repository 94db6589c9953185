// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Which hop fails between two endpoints on a local network: one finding on each topic, and none that contradicts another.
package struct NetworkDiagnosis: Hashable, Sendable {
    package enum Side: Hashable, Sendable, CaseIterable {
        case here, there
    }

    package enum Direction: Hashable, Sendable, CaseIterable {
        /// From this device to the other one.
        case outgoing
        case incoming
    }

    /// Whether the devices find each other.
    package enum Multicast: Hashable, Sendable {
        case works
        /// These sides do not even hear themselves, so their firewalls block it. One of them at least.
        case blocked(Set<Side>)
        /// The network loses it in these directions, one at least.
        case filtered(Set<Direction>, connects: Bool)
        /// The network passes nothing at all.
        case keptApart
        /// It does not pass routers.
        case otherNetwork
        case untested
    }

    /// Whether one side can connect to the other.
    package enum Way: Hashable, Sendable {
        case works
        /// Nothing listens there.
        case refused
        /// Something else listens there, or it takes no further connection.
        case notProved
        /// The dialling side's own system forbids it.
        case forbidden
        /// The firewall of the dialled side drops it.
        case blocked
        /// No answer, and nothing tells a firewall from a network that passes nothing.
        case silent
        /// The network passes no connection between its clients.
        /// - mayBeElsewhere: Another network with the same numbers looks the same.
        case keptApart(mayBeElsewhere: Bool)
        /// They share no network, and no router leads from one to the other.
        /// - sharesLink: A packet of one was heard by the other.
        case otherNetwork(sharesLink: Bool)
        case untested

        /// Whether packets have passed in both directions.
        fileprivate var isReached: Bool {
            switch self {
            case .works, .refused, .notProved: true
            case .forbidden, .blocked, .silent, .keptApart, .otherNetwork, .untested: false
            }
        }

        fileprivate var isKeptApart: Bool { if case .keptApart = self { true } else { false } }
    }

    package enum Clocks: Hashable, Sendable {
        case agree
        /// How far the other clock is ahead, in milliseconds. Something corrects it, so that the devices recognise each other.
        case differ(Int64)
        /// The devices do not recognise each other.
        case otherHour(Int64)
    }

    package let multicast: Multicast
    package let outgoing: Way
    package let incoming: Way
    package let clocks: Clocks

    package init(_ seen: NetworkObservations) {
        let (there, back) = (Way(seen.outgoing.dials), Way(seen.incoming.dials))
        let isHeard = [seen.outgoing, seen.incoming].contains { $0.multicast?.isHeardByReceiver ?? false }
        func judge(_ way: Way, beside other: Way) -> Way {
            switch way {
            case .works, .refused, .notProved, .forbidden, .untested: return way
            case .blocked, .silent, .keptApart, .otherNetwork: break
            }
            guard seen.sharesNetwork else { return .otherNetwork(sharesLink: isHeard) }
            // What passes one way passes the network.
            if other.isReached { return .blocked }
            // A known neighbour may be an old entry of the system. A packet that was heard is not.
            guard way.isKeptApart || other.isKeptApart else { return [way, other] == [.blocked, .blocked] && !isHeard ? .silent : way }
            return isHeard && [way, other].contains(.blocked) ? .blocked : .keptApart(mayBeElsewhere: !isHeard)
        }
        outgoing = judge(there, beside: back)
        incoming = judge(back, beside: there)
        let ways = [outgoing, incoming]
        multicast = Multicast(seen, connects: ways.contains(.works), isKeptApart: ways.contains(where: \.isKeptApart))
        clocks = Clocks(here: seen.here, there: seen.there)
    }

    /// Whether nothing hinders direct connections.
    package var isWell: Bool { multicast == .works && outgoing == .works && incoming == .works && clocks == .agree }
}

extension NetworkDiagnosis.Way {
    /// What the dials of one side say for themselves. The address that got furthest decides.
    fileprivate init(_ dials: [DialReport]) {
        func has(_ outcome: DialReport.Outcome) -> Bool { dials.contains { $0.outcome == outcome } }
        let lost = dials.filter { $0.outcome == .timedOut || $0.outcome == .unreachable }
        if has(.answered) {
            self = .works
        } else if has(.refused) {
            self = .refused
        } else if has(.notProved) {
            self = .notProved
        } else if has(.forbidden) {
            self = .forbidden
        } else if lost.contains(where: { $0.neighbour == .known }) {
            self = .blocked
        } else if lost.contains(where: { $0.neighbour == .missing || $0.outcome == .unreachable }) {
            self = .keptApart(mayBeElsewhere: true)
        } else {
            self = lost.isEmpty ? .untested : .silent
        }
    }
}

extension NetworkDiagnosis.Multicast {
    fileprivate init(_ seen: NetworkObservations, connects: Bool, isKeptApart: Bool) {
        let (there, back) = (seen.outgoing.multicast, seen.incoming.multicast)
        var lost: Set<NetworkDiagnosis.Direction> = []
        if there?.isHeardByReceiver == false { lost.insert(.outgoing) }
        if back?.isHeardByReceiver == false { lost.insert(.incoming) }
        var deaf: Set<NetworkDiagnosis.Side> = []
        if there?.isHeardBySender == false { deaf.insert(.here) }
        if back?.isHeardBySender == false { deaf.insert(.there) }
        guard !lost.isEmpty else {
            self = there == nil || back == nil ? .untested : .works
            return
        }
        if !deaf.isEmpty {
            self = .blocked(deaf)
        } else if !seen.sharesNetwork, lost.count == 2 {
            self = .otherNetwork
        } else if isKeptApart, lost.count == 2 {
            self = .keptApart
        } else {
            self = .filtered(lost, connects: connects)
        }
    }
}

extension NetworkDiagnosis.Clocks {
    /// A difference that nobody notices, in milliseconds.
    private static let tolerance: Int64 = 60_000

    fileprivate init(here: NetworkObservations.Clock, there: NetworkObservations.Clock) {
        let (difference, overflow) = there.time.subtractingReportingOverflow(here.time)
        let ahead = overflow ? (there.time < 0 ? -Int64.max : .max) : max(difference, -Int64.max)
        guard Advertisement.isRecent(there.hour, at: here.hour), Advertisement.isRecent(here.hour, at: there.hour) else {
            self = .otherHour(ahead)
            return
        }
        self = abs(ahead) < Self.tolerance ? .agree : .differ(ahead)
    }
}
