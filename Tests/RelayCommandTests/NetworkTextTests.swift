// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayAgent

/// What `relay doctor DEVICE` says of each finding.
@Suite struct NetworkTextTests {
    private static let text = NetworkText(name: "\"tv\"", network: "10.20.30.0/24", port: 40_123)
    private static let clock = NetworkObservations.Clock(time: 1_793_000_000_000, hour: 498_055)

    private static let multicasts = [nil, (true, true), (true, false), (false, true), (false, false)].map { pair in
        pair.map { NetworkObservations.Multicast(isHeardBySender: $0.0, isHeardByReceiver: $0.1) }
    }
    private static let dials = DialReport.Outcome.allCases.flatMap { outcome in
        DialReport.Neighbour.allCases.map { [DialReport([10, 20, 30, 2], outcome, $0)] }
    }

    private static func checks(
        _ outgoing: NetworkObservations.Direction,
        _ incoming: NetworkObservations.Direction,
        sharesNetwork: Bool = true,
        there: NetworkObservations.Clock = clock
    ) -> [Doctor.Check] {
        text.checks(
            of: NetworkDiagnosis(
                NetworkObservations(sharesNetwork: sharesNetwork, outgoing: outgoing, incoming: incoming, here: clock, there: there)
            )
        )
    }

    /// All is well only where nothing failed, and what failed is followed by a next step, here or in another check.
    @Test(arguments: [true, false]) func eachFindingSaysWhatToDo(sharesNetwork: Bool) {
        for there in Self.multicasts {
            for back in Self.multicasts {
                for (outgoing, incoming) in Self.dials.flatMap({ one in Self.dials.map { (one, $0) } }) {
                    let checks = Self.checks(
                        .init(multicast: there, dials: outgoing),
                        .init(multicast: back, dials: incoming),
                        sharesNetwork: sharesNetwork
                    )
                    let works =
                        [there, back].allSatisfy { $0?.isHeardByReceiver ?? false }
                        && [outgoing, incoming].allSatisfy { $0[0].outcome == .answered }
                    let isWell = checks.allSatisfy { $0.status == .ok }
                    let saysWhatToDo = !checks.contains { $0.status == .warning } || checks.contains { $0.advice != nil }
                    if isWell != works || !saysWhatToDo || checks.contains(where: { $0.status == .failed }) {
                        Issue.record("\(checks.map(\.message))")
                    }
                    if checks.map(\.name) != [.multicast, .outgoing, .incoming, .clocks] { Issue.record("\(checks.map(\.name))") }
                }
            }
        }
    }

    @Test func firewallIsNamedWithThePort() {
        let heard = NetworkObservations.Multicast(isHeardBySender: true, isHeardByReceiver: true)
        let dropped = [DialReport([10, 20, 30, 2], .timedOut, .known)]
        let answered = [DialReport([10, 20, 30, 2], .answered, .known)]
        let there = Self.checks(.init(multicast: heard, dials: dropped), .init(multicast: heard, dials: answered))
        #expect(there[1].message.contains("at TCP port 40123") && there[1].message.contains("on \"tv\""))
        #expect(there[1].advice?.contains("sudo ufw allow proto tcp from 10.20.30.0/24") ?? false)
        let here = Self.checks(.init(multicast: heard, dials: answered), .init(multicast: heard, dials: dropped))
        #expect(here[2].message.contains("on this machine") && !here[2].message.contains("40123"))
    }

    @Test(
        arguments: [
            (Int64(7_200_000), UInt32(498_055), "2 h ahead of", "hinders nothing"),
            (-86_400_000, 498_031, "24 h behind", "do not recognise each other"), (.max, .max, "ahead of", "do not recognise each other"),
            (.min, 0, "behind", "do not recognise each other"),
        ]
    )
    func clockIsNamedWithItsDifference(ahead: Int64, hour: UInt32, size: String, what: String) throws {
        let time = Self.clock.time.addingReportingOverflow(ahead)
        let there = NetworkObservations.Clock(time: time.overflow ? ahead : time.partialValue, hour: hour)
        let check = try #require(Self.checks(.init(), .init(), there: there).last)
        #expect(check.name == .clocks && check.status == .warning)
        #expect(check.message.contains(size) && check.message.contains(what), "\(check.message)")
    }
}
