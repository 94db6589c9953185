// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayServer

@Suite struct NodeBeatsTests {
    private let own = NodeID()

    private func reading(
        _ history: String = "A",
        known: String? = "A",
        began: Int64 = 5,
        witnesses: Int = 1,
        row: NodeBeats.Row = .alive(isDraining: false),
        offset: Int64 = 0
    ) -> NodeBeats.Reading {
        .init(row: row, history: history, known: known, began: began, witnesses: witnesses, clockOffset: offset)
    }

    private func started(_ first: NodeBeats.Reading? = nil) -> NodeBeats { NodeBeats(own, at: .zero, first ?? reading()) }

    @Test func nodeServesWhileItHasBeats() {
        var beats = started()
        #expect(beats.obstacle(at: .seconds(5)) == nil && beats.isSettled && beats.mayUse("A") && !beats.mayUse("B"))
        #expect(beats.beaten(at: .seconds(5), reading()).isEmpty)
        #expect(beats.obstacle(at: .seconds(10)) == nil)
        #expect(beats.obstacle(at: .seconds(11))?.contains("has not reached its database") == true)
        #expect(beats.interval == .seconds(1))
        beats.failed(at: .seconds(5))
        // A database that is away is tried more often.
        #expect(beats.interval < .seconds(1))
        #expect(beats.passed(at: .seconds(10)).isEmpty && beats.serves(at: .seconds(10)))
        #expect(beats.passed(at: .seconds(11)) == [.suspended(beats.obstacle(at: .seconds(11)))] && !beats.serves(at: .seconds(11)))
        #expect(beats.passed(at: .seconds(34)) == [.lookForOthers])
        #expect(beats.passed(at: .seconds(35)) == [.cutOff(.forLong)])
        #expect(beats.passed(at: .seconds(36)).isEmpty)
        #expect(beats.beaten(at: .seconds(37), reading()).isEmpty)
        #expect(beats.passed(at: .seconds(37)) == [.suspended(nil)] && beats.serves(at: .seconds(37)))
    }

    @Test func standbyWithEverythingIsFollowed() {
        var beats = started()
        #expect(beats.beaten(at: .seconds(1), reading("B")) == [.look("B")])
        #expect(!beats.isSettled && !beats.mayUse("A") && !beats.mayUse("B") && beats.interval < .seconds(1))
        #expect(beats.beaten(at: .seconds(2), reading("B")).isEmpty)
        beats.looked(in: "B", isComplete: true)
        #expect(beats.mayUse("B") && beats.obstacle(at: .seconds(2)) != nil)
        #expect(beats.beaten(at: .seconds(3), reading("B")) == [.confirm(history: "B", known: "A")])
        #expect(beats.beaten(at: .seconds(4), reading("B", known: "B")).isEmpty)
        #expect(beats.isSettled && beats.obstacle(at: .seconds(4)) == nil)
    }

    @Test func databaseThatLacksSomethingBeginsAnew() {
        var beats = started()
        _ = beats.beaten(at: .seconds(1), reading("B"))
        beats.looked(in: "B", isComplete: false)
        let anew = [NodeBeats.Action.beginAnew(history: "B", began: 5)]
        #expect(beats.beaten(at: .seconds(2), reading("B")) == anew)
        // It may fail.
        #expect(beats.beaten(at: .seconds(3), reading("B")) == anew)
        beats.begunAnew(at: .seconds(3))
        #expect(!beats.isSettled)
        #expect(beats.beaten(at: .seconds(4), reading("B", known: "B", began: 9)) == [.tellBegan(9)])
        #expect(beats.began == 5)
        beats.told(began: 9)
        #expect(beats.began == 9 && beats.isSettled)
        #expect(beats.beaten(at: .seconds(5), reading("B", known: "B", began: 9)).isEmpty)
    }

    /// A copy of a disk has the same history.
    @Test func lossWithoutAnotherHistoryIsNoticed() {
        var beats = started()
        beats.lacks(at: .zero)
        #expect(!beats.isSettled && !beats.mayUse("A"))
        #expect(beats.beaten(at: .seconds(1), reading()) == [.beginAnew(history: "A", began: 5)])
        beats.begunAnew(at: .seconds(1))
        #expect(beats.beaten(at: .seconds(2), reading(began: 9)) == [.tellBegan(9)])
        #expect(beats.isSettled)
    }

    @Test func nobodyWhoCouldKnowIsWaitedForTooLong() {
        var beats = started()
        _ = beats.beaten(at: .seconds(1), reading("B", witnesses: 2))
        beats.looked(in: "B", isComplete: true)
        let confirm = [NodeBeats.Action.confirm(history: "B", known: "A")]
        #expect(beats.beaten(at: .seconds(30), reading("B", witnesses: 2)) == confirm)
        #expect(beats.beaten(at: .seconds(31), reading("B", witnesses: 2)) == [.beginAnew(history: "B", began: 5)])
        var late = started(reading("B"))
        #expect(!late.isSettled)
        // It has nothing to look for.
        #expect(late.beaten(at: .seconds(1), reading("B")).isEmpty)
        #expect(late.beaten(at: .seconds(2), reading("B", witnesses: 0)) == [.beginAnew(history: "B", began: 5)])
    }

    @Test func nodeThatWasFoundDeadBecomesAnother() {
        var beats = started()
        #expect(beats.beaten(at: .seconds(1), reading(row: .dead)) == [.becomeAnother])
        let other = NodeID()
        beats.joined(as: other, at: .seconds(2), reading())
        #expect(beats.id == other && beats.isSettled)
        #expect(beats.beaten(at: .seconds(3), reading(row: .missing)) == [.becomeAnother])
        beats.joined(as: NodeID(), at: .seconds(4), reading())
        // Its start is among what is lost.
        #expect(beats.beaten(at: .seconds(5), reading()) == [.beginAnew(history: "A", began: 5)])
    }

    @Test func drainedNodeTakesNothing() {
        var beats = started()
        #expect(beats.beaten(at: .seconds(1), reading(row: .alive(isDraining: true))) == [.drain, .freeLeases])
        #expect(beats.passed(at: .seconds(1)).isEmpty && !beats.serves(at: .seconds(1)))
        #expect(beats.obstacle(at: .seconds(1))?.contains("drained") == true && beats.isLeaving)
    }

    /// Other nodes have found out first, and let the database begin anew. What is lost has been told.
    @Test func databaseBeginsAnewOnce() {
        var beats = started()
        #expect(beats.beaten(at: .seconds(1), reading("B", known: "B", began: 9, row: .missing)) == [.becomeAnother])
        beats.joined(as: NodeID(), at: .seconds(1), reading("B", known: "B", began: 9))
        #expect(beats.beaten(at: .seconds(2), reading("B", known: "B", began: 9)) == [.tellBegan(9)])
        #expect(beats.isSettled)
    }

    /// Rows of dead nodes are deleted after a day. A machine that was away for longer has lost nothing.
    @Test func nodeThatWasAwayForADayHasLostNothing() {
        var beats = started()
        let late = Duration.seconds(25 * 3_600)
        beats.lacks(at: late)
        #expect(beats.beaten(at: late, reading(row: .missing)) == [.becomeAnother])
        beats.joined(as: NodeID(), at: late, reading())
        #expect(beats.isSettled && beats.beaten(at: late + .seconds(1), reading()).isEmpty)
    }

    /// What writes to the database may fail, and then ends the beat.
    @Test func nothingIsLostWithAWriteThatFails() {
        var beats = started()
        let draining = reading("B", row: .alive(isDraining: true))
        #expect(beats.beaten(at: .seconds(1), draining) == [.drain, .look("B"), .freeLeases])
    }

    @Test func lookAtAFormerPrimaryCountsNoMore() {
        var beats = started()
        _ = beats.beaten(at: .seconds(1), reading("B"))
        #expect(beats.beaten(at: .seconds(2), reading("C")) == [.look("C")])
        beats.looked(in: "B", isComplete: true)
        #expect(beats.beaten(at: .seconds(3), reading("C")).isEmpty)
        beats.looked(in: "C", isComplete: true)
        #expect(beats.beaten(at: .seconds(4), reading("C")) == [.confirm(history: "C", known: "A")])
    }

    @Test func clocksFarApartStopANode() {
        var beats = started()
        _ = beats.beaten(at: .seconds(1), reading(offset: -3_000))
        #expect(beats.obstacle(at: .seconds(1))?.contains("3 s apart") == true)
        // It goes on with the accounts that it has.
        #expect(beats.passed(at: .seconds(1)) == [.suspended(beats.obstacle(at: .seconds(1)))] && beats.serves(at: .seconds(1)))
        #expect(beats.beaten(at: .seconds(2), reading(offset: 10_000)) == [.freeLeases])
        #expect(beats.passed(at: .seconds(2)) == [.cutOff(.forLong)] && !beats.serves(at: .seconds(2)))
        _ = beats.beaten(at: .seconds(3), reading())
        #expect(beats.passed(at: .seconds(3)) == [.suspended(nil)] && beats.obstacle(at: .seconds(3)) == nil)
        // The first reading counts, too.
        #expect(!started(reading(offset: 10_000)).serves(at: .zero))
    }

    /// Nobody is found dead while it is not known what the database has lost, and pauses end with what they wait for.
    @Test func othersAreWatchedAnewAtAnotherPrimary() {
        let other = NodeID()
        var (beats, random) = (started(), SeededGenerator(seed: 1))
        func beat(_ time: Int, _ history: String) -> [NodeBeats.Action] {
            var reading = reading(history)
            reading.nodes = [.init(own, beat: Int64(time)), .init(other, beat: 7)]
            return beats.beaten(at: .seconds(time), reading)
        }
        for time in 1...8 { #expect(beat(time, "A").isEmpty) }
        #expect((1_000...2_000).contains(beats.pause(for: other, at: .seconds(9), random: &random)))
        #expect(beats.isSilent(other))
        #expect(beat(9, "B") == [.look("B")])
        for time in 10...20 { #expect(beat(time, "B").isEmpty) }
        #expect((100...1_500).contains(beats.pause(at: .seconds(20), random: &random)))
        _ = beats.passed(at: .seconds(50))
        #expect((2_000...12_000).contains(beats.pause(at: .seconds(50), random: &random)))
    }

    /// A node that has had no beat for eight seconds.
    private func alone() -> NodeBeats {
        var beats = started()
        beats.failed(at: .seconds(1))
        _ = beats.passed(at: .milliseconds(7_999))
        #expect(beats.passed(at: .seconds(8)) == [.lookForOthers] && beats.passed(at: .seconds(9)).isEmpty)
        return beats
    }

    @Test func nodeIsCutOffWhenAnotherOneReachesTheDatabase() {
        let other = NodeID()
        var beats = alone()
        beats.found([other], at: .seconds(9))
        // This one may have come back as well. The answer came while a beat was under way.
        #expect(beats.passed(at: .seconds(9)).isEmpty)
        beats.failed(at: .milliseconds(8_999))
        #expect(beats.passed(at: .seconds(10)).isEmpty)
        beats.failed(at: .seconds(9))
        #expect(beats.passed(at: .seconds(10)) == [.cutOff(.alone)])
        // Not again after 30 s.
        #expect(beats.passed(at: .seconds(31)).isEmpty)
        #expect(beats.beaten(at: .seconds(32), reading()).isEmpty)
        #expect(beats.passed(at: .seconds(32)) == [.suspended(nil)] && beats.serves(at: .seconds(32)))
    }

    @Test func databaseThatIsBackForAllCutsNobodyOff() {
        let other = NodeID()
        var beats = alone()
        beats.found([other], at: .seconds(9))
        #expect(beats.beaten(at: .seconds(9), reading()).isEmpty)
        beats.failed(at: .seconds(10))
        #expect(beats.passed(at: .seconds(10)) == [.suspended(nil)])
        // A late answer says nothing.
        beats.found([other], at: .seconds(11))
        beats.failed(at: .seconds(12))
        #expect(beats.passed(at: .seconds(12)).isEmpty)
    }

    /// The node itself, and none.
    @Test func answersOfNoOtherNodeKeepTheChannels() {
        for answer in [[own], []] {
            var beats = alone()
            beats.found(Set(answer), at: .seconds(10))
            beats.failed(at: .seconds(10))
            #expect(beats.passed(at: .seconds(11)).isEmpty)
            // It asks again.
            #expect(beats.passed(at: .seconds(12)) == [.lookForOthers])
            // No answer at all.
            #expect(beats.passed(at: .seconds(29)).isEmpty)
            #expect(beats.passed(at: .seconds(30)) == [.cutOff(.forLong)])
        }
    }

    @Test func nodeThatLeavesAsksNobody() {
        var leaving = started()
        leaving.leave()
        #expect(leaving.passed(at: .seconds(20)).isEmpty)
    }
}
