// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// Which way into a tunnel is tried when.
@Suite struct TunnelRaceTests {
    typealias Machine = TunnelRace.StateMachine

    /// A race of two ways whose first was dialled.
    static func begun() -> Machine {
        var machine = Machine(ways: 2)
        #expect(machine.start() == [.wait(.connecting, step: 1), .dial(way: 0, as: 1)])
        return machine
    }

    @Test func connectedCandidateWaitsForThePeer() {
        var machine = Self.begun()
        #expect(machine.connected(1) == [.wait(.answering, step: 2)])
        // The time to connect does not count any more.
        #expect(machine.waitEnded(step: 1).isEmpty)
        #expect(machine.won(1) == [])
        #expect(machine.isOver)
        #expect(machine.waitEnded(step: 2).isEmpty)
    }

    @Test func slowCandidateStartsTheNext() {
        var machine = Self.begun()
        #expect(machine.waitEnded(step: 1) == [.dial(way: 1, as: 2)])
        // The first to be connected is the only one that shows the token.
        #expect(machine.connected(2) == [.close(1), .wait(.answering, step: 3)])
        #expect(machine.connected(1).isEmpty)
        #expect(!machine.isRunning(1))
        #expect(machine.failed(1, .closed).isEmpty)
        // It was only slow, and the other one leads nowhere.
        #expect(machine.failed(2, .closed) == [.close(2), .dial(way: 0, as: 3)])
        #expect(machine.won(2) == nil)
        // The candidate that was reached got further than the one that was not.
        #expect(machine.failed(3, .unreachable(.timedOut)) == [.close(3), .fail(.closed)])
    }

    @Test func lateConnectionDoesNotReplaceTheFirst() {
        var machine = Self.begun()
        _ = machine.waitEnded(step: 1)
        #expect(machine.connected(1) == [.close(2), .wait(.answering, step: 3)])
        #expect(!machine.isRunning(2))
        #expect(machine.connected(2).isEmpty)
        #expect(machine.won(2) == nil)
        #expect(machine.won(1) == [])
        #expect(machine.won(1) == nil)
    }

    @Test func silentCandidateIsReplacedByTheNext() {
        var machine = Self.begun()
        _ = machine.connected(1)
        #expect(machine.waitEnded(step: 2) == [.dial(way: 1, as: 2)])
        // It may still be served, as long as the next is not connected.
        #expect(machine.isRunning(1))
        #expect(machine.connected(2) == [.close(1)])
        // The race does not return to an earlier candidate.
        #expect(machine.failed(2, .refused(.timedOut)) == [.close(2), .fail(.refused(.timedOut))])
    }

    @Test func relayRejectionWinsOverConnectionErrors() {
        var machine = Self.begun()
        #expect(machine.failed(1, .refused(.closed)) == [.close(1), .dial(way: 1, as: 2)])
        #expect(machine.failed(1, .closed).isEmpty)
        #expect(machine.failed(2, .unreachable(.timedOut)) == [.close(2), .fail(.refused(.closed))])
        var nothing = Machine(ways: 0)
        #expect(nothing.start() == [.fail(.noCandidate)])
    }

    @Test func furthestFailureIsReportedInAnyOrder() {
        let ranks: [[PeerTransportError]] = [
            [.unreachable(.timedOut), .unreachable(.unreachable("refused"))],
            [.closed, .unreachable(.status(503, retryAfter: nil)), .unreachable(.protocolError("no tunnel's answer"))],
            [.refused(.refused), .refused(.timedOut)],
        ]
        func outcome(_ first: PeerTransportError, _ second: PeerTransportError) -> Machine.Action? {
            var machine = Self.begun()
            _ = machine.failed(1, first)
            return machine.failed(2, second).last
        }
        for (index, rank) in ranks.enumerated() {
            for further in rank {
                for less in ranks[..<index].joined() {
                    #expect(outcome(further, less) == .fail(further), "\(further), \(less)")
                    #expect(outcome(less, further) == .fail(further), "\(less), \(further)")
                }
                for equal in rank { #expect(outcome(further, equal) == .fail(equal), "\(further), \(equal)") }
            }
        }
    }

    @Test func endedRaceDoesNotDial() {
        var machine = Machine(ways: 2)
        #expect(machine.end().isEmpty)
        #expect(machine.start().isEmpty)
        #expect(machine.isOver)
    }

    @Test func endClosesAllCandidates() {
        var machine = Self.begun()
        _ = machine.waitEnded(step: 1)
        #expect(machine.end() == [.close(1), .close(2)])
        #expect(machine.end().isEmpty)
        #expect(machine.connected(1).isEmpty)
        #expect(machine.won(2) == nil)
        #expect(machine.failed(2, .closed).isEmpty)
    }
}
