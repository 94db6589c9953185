// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayServer

@Suite struct NodeMembershipTests {
    private let own = NodeID()
    private let other = NodeID()

    /// The beats of this node, every second, while the other one has none.
    private func watch(_ membership: inout NodeMembership, from start: Int, beats: Int, beat: Int64 = 7) -> [[NodeMembership.Action]] {
        (0..<beats).map { index in
            membership.beaten(at: .seconds(start + index), [.init(own, beat: Int64(index)), .init(other, beat: beat)])
        }
    }

    @Test func nodeWithoutBeatsIsFoundDead() {
        var membership = NodeMembership(own, addedAt: .zero)
        let actions = watch(&membership, from: 1, beats: 9)
        // The same beat over eight seconds.
        #expect(actions.prefix(8).allSatisfy { $0.isEmpty })
        #expect(actions[8] == [.setDead(other, beat: 7)])
    }

    @Test func nodeWithBeatsLives() {
        var membership = NodeMembership(own, addedAt: .zero)
        for beat in 1...100 {
            let actions = membership.beaten(at: .seconds(beat), [.init(own, beat: 1), .init(other, beat: Int64(beat / 4))])
            #expect(actions.isEmpty)
        }
    }

    /// A standby that stands still stops all beats, and makes nobody dead.
    @Test func nobodyIsDeadAfterAPauseOfTheStore() {
        var membership = NodeMembership(own, addedAt: .zero)
        _ = watch(&membership, from: 1, beats: 8)
        #expect(membership.beaten(at: .seconds(60), [.init(own, beat: 9), .init(other, beat: 7)]).isEmpty)
        #expect(watch(&membership, from: 61, beats: 7).allSatisfy { $0.isEmpty })
        #expect(membership.beaten(at: .seconds(68), [.init(own, beat: 9), .init(other, beat: 7)]) == [.setDead(other, beat: 7)])
    }

    @Test func anotherPrimaryBeginsTheWatchAnew() {
        var membership = NodeMembership(own, addedAt: .zero)
        _ = watch(&membership, from: 1, beats: 8)
        membership.storeChanged()
        // What was seen first before counts in time, and not in number.
        #expect(watch(&membership, from: 9, beats: 5).allSatisfy { $0.isEmpty })
        #expect(watch(&membership, from: 14, beats: 1) == [[.setDead(other, beat: 7)]])
    }

    @Test func nodeWithoutOwnBeatsIsSuspendedBeforeItCanBeFoundDead() {
        var membership = NodeMembership(own, addedAt: .zero)
        #expect(!membership.isSuspended(at: .seconds(5)))
        #expect(membership.isSuspended(at: .seconds(6)))
        _ = membership.beaten(at: .seconds(6), [])
        #expect(!membership.isSuspended(at: .seconds(11)))
        #expect(!membership.isCutOff(at: .seconds(35)))
        #expect(membership.isCutOff(at: .seconds(36)))
    }

    /// A beat that waits before it reads may read one that is younger than itself.
    @Test func slowReadingMakesNobodyDeadTooSoon() {
        var membership = NodeMembership(own, addedAt: .zero)
        _ = membership.beaten(at: .seconds(1), answered: .milliseconds(3_900), [.init(own, beat: 1), .init(other, beat: 7)])
        #expect(watch(&membership, from: 4, beats: 8).allSatisfy { $0.isEmpty })
        #expect(watch(&membership, from: 12, beats: 1) == [[.setDead(other, beat: 7)]])
    }

    @Test func silentNodesAreNotNamed() {
        var membership = NodeMembership(own, addedAt: .zero)
        #expect(membership.death(of: other) == nil)
        _ = watch(&membership, from: 1, beats: 3)
        #expect(membership.death(of: other) == nil)
        #expect(Set(membership.living) == [own, other])
        _ = membership.beaten(at: .seconds(4), [.init(other, beat: 7)])
        // It may be found dead by the beat after eight seconds.
        #expect(membership.death(of: other) == .seconds(10))
        #expect(membership.living == [own])
        _ = membership.beaten(at: .seconds(5), [.init(other, beat: 8)])
        #expect(membership.death(of: other) == nil)
    }

    /// A node that has started takes its share, a little each second.
    @Test func nodesWithMoreAccountsGiveSomeBack() {
        func actions(_ own: Int?, _ other: Int?, otherTakes: Bool = true) -> [NodeMembership.Action] {
            var membership = NodeMembership(self.own, addedAt: .zero)
            return membership.beaten(
                at: .seconds(1),
                [.init(self.own, beat: 1, accounts: own), .init(self.other, beat: 1, takesAccounts: otherTakes, accounts: other)]
            )
        }
        #expect(actions(100, 100).isEmpty)
        #expect(actions(120, 80).isEmpty)
        #expect(actions(130, 70) == [.giveBack(4)])
        #expect(actions(70, 130).isEmpty)
        #expect(actions(10_000, 0) == [.giveBack(78)])
        // So few are not worth the moves.
        #expect(actions(16, 0).isEmpty)
        // A node of an older version does not say how many it has, and a drained one does not count.
        #expect(actions(10_000, nil).isEmpty)
        #expect(actions(10_000, 0, otherTakes: false).isEmpty)
    }

    /// Whatever the beats of two nodes do, the one that is found dead was suspended before.
    @Test(arguments: 0..<200) func suspensionComesFirst(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var (one, two) = (NodeMembership(own, addedAt: .zero), NodeMembership(other, addedAt: .zero))
        var (beats, time) = ([own: Int64(0), other: 0], Duration.zero)
        for _ in 0..<300 {
            time += .milliseconds(Int.random(in: 100...2_000, using: &random))
            // A beat may fail; then nothing of it is stored.
            for id in [own, other].shuffled(using: &random) where Int.random(in: 0..<4, using: &random) > 0 {
                beats[id, default: 0] += 1
                let nodes = beats.map { NodeMembership.Node($0.key, beat: $0.value) }
                let actions = id == own ? one.beaten(at: time, nodes) : two.beaten(at: time, nodes)
                for case .setDead(let dead, _) in actions {
                    #expect(dead == own ? one.isSuspended(at: time) : two.isSuspended(at: time))
                }
            }
        }
    }
}
