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
        #expect(machine.start() == [.wait(.connecting, turn: 1), .dial(way: 0, as: 1)])
        return machine
    }

    @Test func connectedCandidateWaitsForThePeer() {
        var machine = Self.begun()
        #expect(machine.connected(1) == [.wait(.answering, turn: 2)])
        // The time to connect does not count any more.
        #expect(machine.patienceEnded(turn: 1).isEmpty)
        #expect(machine.won(1) == [])
        #expect(machine.isOver)
        #expect(machine.patienceEnded(turn: 2).isEmpty)
    }

    @Test func slowCandidateStartsTheNext() {
        var machine = Self.begun()
        #expect(machine.patienceEnded(turn: 1) == [.dial(way: 1, as: 2)])
        // The first to be connected is the only one that shows the token.
        #expect(machine.connected(2) == [.close(1), .wait(.answering, turn: 3)])
        #expect(machine.connected(1).isEmpty)
        #expect(!machine.isRunning(1))
        #expect(machine.failed(1, .closed).isEmpty)
        // It was only slow, and the other one leads nowhere.
        #expect(machine.failed(2, .closed) == [.close(2), .dial(way: 0, as: 3)])
        #expect(machine.won(2) == nil)
        #expect(machine.failed(3, .unreachable(.timedOut)) == [.close(3), .fail(.unreachable(.timedOut))])
    }

    @Test func lateConnectionDoesNotReplaceTheFirst() {
        var machine = Self.begun()
        _ = machine.patienceEnded(turn: 1)
        #expect(machine.connected(1) == [.close(2), .wait(.answering, turn: 3)])
        #expect(!machine.isRunning(2))
        #expect(machine.connected(2).isEmpty)
        #expect(machine.won(2) == nil)
        #expect(machine.won(1) == [])
        #expect(machine.won(1) == nil)
    }

    @Test func silentCandidateIsReplacedByTheNext() {
        var machine = Self.begun()
        _ = machine.connected(1)
        #expect(machine.patienceEnded(turn: 2) == [.dial(way: 1, as: 2)])
        // It may still be served, as long as the next is not connected.
        #expect(machine.isRunning(1))
        #expect(machine.connected(2) == [.close(1)])
        // The race does not return to an earlier candidate.
        #expect(machine.failed(2, .refused(.timedOut)) == [.close(2), .fail(.refused(.timedOut))])
    }

    @Test func relayRefusalWinsOverConnectionErrors() {
        var machine = Self.begun()
        #expect(machine.failed(1, .refused(.closed)) == [.close(1), .dial(way: 1, as: 2)])
        #expect(machine.failed(1, .closed).isEmpty)
        #expect(machine.failed(2, .unreachable(.timedOut)) == [.close(2), .fail(.refused(.closed))])
        var nothing = Machine(ways: 0)
        #expect(nothing.start() == [.fail(.noCandidate)])
    }

    @Test func endedRaceDoesNotDial() {
        var machine = Machine(ways: 2)
        #expect(machine.end().isEmpty)
        #expect(machine.start().isEmpty)
        #expect(machine.isOver)
    }

    @Test func endClosesAllCandidates() {
        var machine = Self.begun()
        _ = machine.patienceEnded(turn: 1)
        #expect(machine.end() == [.close(1), .close(2)])
        #expect(machine.end().isEmpty)
        #expect(machine.connected(1).isEmpty)
        #expect(machine.won(2) == nil)
        #expect(machine.failed(2, .closed).isEmpty)
    }
}
