// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

@Suite struct NetworkDiagnosisTests {
    fileprivate typealias Observations = NetworkObservations
    fileprivate typealias Diagnosis = NetworkDiagnosis

    private static let clock = Observations.Clock(time: 1_793_000_000_000, hour: 498_055)
    private static let heard = Observations.Multicast(isHeardBySender: true, isHeardByReceiver: true)
    private static let unheard = Observations.Multicast(isHeardBySender: true, isHeardByReceiver: false)
    private static let deaf = Observations.Multicast(isHeardBySender: false, isHeardByReceiver: true)
    private static let nothing = Observations.Multicast(isHeardBySender: false, isHeardByReceiver: false)

    private static func dial(_ outcome: DialReport.Outcome, _ neighbour: DialReport.Neighbour = .known) -> [DialReport] {
        [DialReport([10, 0, 0, 2], outcome, neighbour)]
    }

    private func diagnose(
        _ outgoing: (Observations.Multicast?, [DialReport]) = (heard, dial(.answered)),
        _ incoming: (Observations.Multicast?, [DialReport]) = (heard, dial(.answered)),
        sharesNetwork: Bool = true,
        there: Observations.Clock = clock
    ) -> Diagnosis {
        Diagnosis(
            Observations(
                sharesNetwork: sharesNetwork,
                outgoing: .init(multicast: outgoing.0, dials: outgoing.1),
                incoming: .init(multicast: incoming.0, dials: incoming.1),
                here: Self.clock,
                there: there
            )
        )
    }

    @Test func healthyNetworkIsWell() { #expect(diagnose().isWell) }

    // MARK: Multicast

    @Test func sideThatDoesNotHearItselfHasAFirewall() {
        let answered = Self.dial(.answered)
        // Incoming packets are dropped there, or outgoing ones, or both.
        #expect(diagnose((Self.unheard, answered), (Self.deaf, answered)).multicast == .blocked([.there]))
        #expect(diagnose((Self.heard, answered), (Self.nothing, answered)).multicast == .blocked([.there]))
        #expect(diagnose((Self.unheard, answered), (Self.nothing, answered)).multicast == .blocked([.there]))
        #expect(diagnose((Self.nothing, answered), (Self.heard, answered)).multicast == .blocked([.here]))
        #expect(diagnose((Self.nothing, answered), (Self.nothing, answered)).multicast == .blocked([.here, .there]))
        // Who hears the other one needs not hear itself.
        #expect(diagnose((Self.deaf, answered), (Self.deaf, answered)).multicast == .works)
    }

    @Test func networkThatLosesMulticastConnectsAllTheSame() {
        let answered = Self.dial(.answered)
        let both = diagnose((Self.unheard, answered), (Self.unheard, answered))
        #expect(both.multicast == .filtered([.outgoing, .incoming], connects: true))
        #expect(both.outgoing == .works && both.incoming == .works && !both.isWell)
        #expect(diagnose((Self.unheard, answered)).multicast == .filtered([.outgoing], connects: true))
        #expect(diagnose((Self.heard, answered), (Self.unheard, answered)).multicast == .filtered([.incoming], connects: true))
        #expect(diagnose((Self.heard, answered), (nil, answered)).multicast == .untested)
        #expect(diagnose((Self.unheard, answered), (nil, answered)).multicast == .filtered([.outgoing], connects: true))
    }

    // MARK: Connections

    @Test(
        arguments: [
            (DialReport.Outcome.unreachable, DialReport.Neighbour.missing), (.unreachable, .unknown), (.timedOut, .missing),
        ]
    )
    func clientsAreKeptApart(outcome: DialReport.Outcome, neighbour: DialReport.Neighbour) {
        let lost = Self.dial(outcome, neighbour)
        let apart = diagnose((Self.unheard, lost), (Self.unheard, lost))
        #expect(apart.multicast == .keptApart)
        #expect(apart.outgoing == .keptApart(mayBeElsewhere: true) && apart.incoming == .keptApart(mayBeElsewhere: true))
        // It is this network if something is heard.
        let here = diagnose((Self.heard, lost), (Self.unheard, lost))
        #expect(here.outgoing == .keptApart(mayBeElsewhere: false))
        #expect(here.multicast == .filtered([.incoming], connects: false))
        // An entry for a neighbour may be old.
        let old = diagnose((Self.unheard, Self.dial(.timedOut, .known)), (Self.unheard, lost))
        #expect(old.outgoing == .keptApart(mayBeElsewhere: true))
        let new = diagnose((Self.unheard, Self.dial(.timedOut, .known)), (Self.heard, lost))
        #expect(new.outgoing == .blocked && new.incoming == .blocked)
        let unsure = diagnose((Self.unheard, Self.dial(.timedOut, .known)), (Self.unheard, Self.dial(.timedOut, .known)))
        #expect(unsure.outgoing == .silent && unsure.incoming == .silent)
        // What passes one way passes the network.
        #expect(diagnose((Self.heard, lost)).outgoing == .blocked)
    }

    @Test func firewallIsThatOfTheDialledSide() {
        let dropped = diagnose((Self.heard, Self.dial(.timedOut)))
        #expect(dropped.outgoing == .blocked && dropped.incoming == .works && dropped.multicast == .works)
        #expect(diagnose((Self.heard, Self.dial(.answered)), (Self.heard, Self.dial(.timedOut))).incoming == .blocked)
        // A firewall may answer with ICMP.
        #expect(diagnose((Self.heard, Self.dial(.unreachable, .known))).outgoing == .blocked)
        #expect(diagnose((Self.heard, Self.dial(.forbidden))).outgoing == .forbidden)
        #expect(diagnose((Self.heard, Self.dial(.refused))).outgoing == .refused)
        #expect(diagnose((Self.heard, Self.dial(.notProved))).outgoing == .notProved)
        let silent = Self.dial(.timedOut, .unknown)
        #expect(diagnose((Self.heard, silent), (Self.heard, silent)).outgoing == .silent)
    }

    @Test func addressThatGotFurthestDecides() {
        let all = DialReport.Outcome.allCases.map { DialReport([10, 0, 0, 2], $0, .known) }
        #expect(diagnose((Self.heard, all)).outgoing == .works)
        #expect(diagnose((Self.heard, Self.dial(.unreachable, .missing) + Self.dial(.timedOut))).outgoing == .blocked)
        #expect(diagnose((Self.heard, Self.dial(.notDialled))).outgoing == .untested)
        #expect(diagnose((Self.heard, [])).outgoing == .untested)
    }

    @Test func otherNetworkIsToldOnce() {
        let lost = Self.dial(.timedOut, .unknown)
        let other = diagnose((Self.unheard, lost), (Self.unheard, lost), sharesNetwork: false)
        #expect(other.multicast == .otherNetwork)
        #expect(other.outgoing == .otherNetwork(sharesLink: false) && other.incoming == .otherNetwork(sharesLink: false))
        // A router may lead there.
        let routed = diagnose((Self.unheard, Self.dial(.answered, .unknown)), (Self.unheard, lost), sharesNetwork: false)
        #expect(routed.multicast == .otherNetwork && routed.outgoing == .works)
        #expect(routed.incoming == .otherNetwork(sharesLink: false))
        // Both may be on one link, with addresses of different networks.
        let link = diagnose((Self.heard, lost), (Self.heard, lost), sharesNetwork: false)
        #expect(link.multicast == .works && link.outgoing == .otherNetwork(sharesLink: true))
    }

    // MARK: Clocks

    @Test(
        arguments: [
            (0, 0, NetworkDiagnosis.Clocks.agree), (59_999, 0, .agree), (-59_999, 1, .agree), (60_000, 0, .differ(60_000)),
            (-7_200_000, 0, .differ(-7_200_000)), (3_600_000, 1, .differ(3_600_000)), (7_200_000, 2, .otherHour(7_200_000)),
            (-7_200_000, -2, .otherHour(-7_200_000)), (0, -2, .otherHour(0)),
        ] as [(Int64, Int64, NetworkDiagnosis.Clocks)]
    )
    func clocksAreCompared(ahead: Int64, hours: Int64, clocks: NetworkDiagnosis.Clocks) {
        let there = Observations.Clock(time: Self.clock.time + ahead, hour: UInt32(Int64(Self.clock.hour) + hours))
        #expect(diagnose(there: there).clocks == clocks)
    }

    @Test(arguments: [Int64.min, .max, 0, -1], [UInt32.min, .max])
    func anyClockIsCompared(time: Int64, hour: UInt32) {
        for (here, there) in [(Self.clock.time, time), (time, Self.clock.time), (Int64.min, time), (.max, time)] {
            let diagnosis = Diagnosis(
                Observations(
                    sharesNetwork: true,
                    outgoing: .init(),
                    incoming: .init(),
                    here: .init(time: here, hour: Self.clock.hour),
                    there: .init(time: there, hour: hour)
                )
            )
            guard case .otherHour(let ahead) = diagnosis.clocks else {
                Issue.record("\(diagnosis.clocks)")
                continue
            }
            #expect(ahead == 0 || (ahead > 0) == (there > here))
        }
    }

    // MARK: All combinations

    private static let multicasts = [nil, heard, unheard, deaf, nothing]
    private static let dials =
        [[]] + DialReport.Outcome.allCases.flatMap { outcome in DialReport.Neighbour.allCases.map { dial(outcome, $0) } }

    /// It never contradicts itself, and never says that all is well when something failed.
    @Test(arguments: [true, false]) func findingsAgree(sharesNetwork: Bool) {
        for there in Self.multicasts {
            for back in Self.multicasts {
                for outgoing in Self.dials {
                    for incoming in Self.dials {
                        let diagnosis = diagnose((there, outgoing), (back, incoming), sharesNetwork: sharesNetwork)
                        let fault = fault(diagnosis, (there, outgoing), (back, incoming), sharesNetwork)
                        if let fault { Issue.record("\(fault): \(diagnosis) of \(String(describing: (there, outgoing, back, incoming)))") }
                    }
                }
            }
        }
    }

    private func fault(
        _ found: Diagnosis,
        _ outgoing: (Observations.Multicast?, [DialReport]),
        _ incoming: (Observations.Multicast?, [DialReport]),
        _ sharesNetwork: Bool
    ) -> String? {
        let ways = [(found.outgoing, outgoing.1, found.incoming), (found.incoming, incoming.1, found.outgoing)]
        let works = ways.contains { $0.0 == .works }
        func isKeptApart(_ way: Diagnosis.Way) -> Bool { if case .keptApart = way { true } else { false } }
        func isReached(_ way: Diagnosis.Way) -> Bool { [.works, .refused, .notProved].contains(way) }
        for (way, dials, other) in ways {
            let wasTried = dials.contains { $0.outcome != .notDialled }
            if (way == .untested) == wasTried { return "what was tried is judged, and only that" }
            if (way == .works) != dials.contains(where: { $0.outcome == .answered }) { return "only an answer works" }
            if isKeptApart(way), isReached(other) { return "a network that passes packets does not keep apart" }
            if isKeptApart(way), other == .blocked { return "either the network or the firewall" }
            let isHeard = [outgoing.0, incoming.0].contains { $0?.isHeardByReceiver ?? false }
            switch way {
            case .otherNetwork(let sharesLink): if sharesNetwork || sharesLink != isHeard { return "the same network is another one" }
            case .blocked, .silent: if !sharesNetwork { return "another network is the same one" }
            case .keptApart(let mayBeElsewhere):
                if !sharesNetwork || mayBeElsewhere == isHeard { return "what is heard is not elsewhere" }
            case .works, .refused, .notProved, .forbidden, .untested: break
            }
        }
        let lost = [outgoing.0, incoming.0].contains { $0?.isHeardByReceiver == false }
        switch found.multicast {
        case .works: if lost || outgoing.0 == nil || incoming.0 == nil { return "a lost packet is no success" }
        case .untested: if lost { return "a lost packet was a test" }
        case .blocked(let sides): if sides.isEmpty || !lost { return "blocked without a loss" }
        case .filtered(let directions, let connects):
            if directions.isEmpty || connects != works || !sharesNetwork && directions.count == 2 { return "filtered" }
            if directions.count == 2, ways.contains(where: { isKeptApart($0.0) }) { return "filtered by a network that keeps apart" }
        case .keptApart:
            if !ways.contains(where: { isKeptApart($0.0) }) || works { return "a network that keeps apart connects nothing" }
            if outgoing.0?.isHeardByReceiver ?? false || incoming.0?.isHeardByReceiver ?? false { return "kept apart, and heard" }
        case .otherNetwork:
            if sharesNetwork || !lost || ways.contains(where: { $0.0 == .otherNetwork(sharesLink: true) }) { return "another network" }
        }
        let hasAll = [outgoing, incoming].allSatisfy { $0.0?.isHeardByReceiver ?? false && $0.1.contains { $0.outcome == .answered } }
        if found.isWell != hasAll { return "well" }
        return nil
    }
}
