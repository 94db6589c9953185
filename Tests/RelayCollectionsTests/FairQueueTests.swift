// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayCollections
import RelayTesting
import Testing

@Suite struct FairQueueTests {
    @Test func ownersAreServedInRotation() {
        var queue = FairQueue<String, Int>()
        for (owner, item) in [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5)] { queue.append(item, of: owner) }
        #expect(queue.count == 5 && queue.ownerCount == 3)
        var taken: [Int] = []
        while let item = queue.removeFirst() { taken.append(item) }
        #expect(taken == [1, 4, 5, 2, 3])
        #expect(queue.isEmpty && queue.count == 0)
    }

    @Test func ownersThatAreNotReadyGoToTheEnd() {
        var queue = FairQueue<String, Int>()
        for (owner, item) in [("a", 1), ("b", 2), ("c", 3)] { queue.append(item, of: owner) }
        #expect(queue.removeFirst { $0 > 1 } == 2)
        #expect(queue.removeFirst { $0 > 3 } == nil)
        #expect([queue.removeFirst(), queue.removeFirst(), queue.removeFirst()] == [3, 1, nil])
    }

    @Test func anItemGoesBeforeThoseOfItsOwner() {
        var queue = FairQueue<String, Int>()
        queue.append(1, of: "a")
        queue.append(2, of: "b")
        queue.prepend(3, of: "b")
        queue.prepend(4, of: "c")
        var taken: [Int] = []
        while let item = queue.removeFirst() { taken.append(item) }
        #expect(taken == [4, 1, 3, 2])
    }

    /// Against a model: each owner's items in order, and nobody is served twice while another one waits.
    @Test func nothingIsLostOrServedOutOfTurn() {
        for seed in 0..<Sweep.count(100 as UInt64, full: 10_000) {
            var random = SeededGenerator(seed: seed)
            var queue = FairQueue<Int, (owner: Int, number: Int)>()
            var lines: [Int: [Int]] = [:]
            /// Since an owner was served last, who was served once more.
            var servedSince: [Int: Set<Int>] = [:]
            for number in 0..<200 {
                switch Int.random(in: 0..<10, using: &random) {
                case 0..<5:
                    let owner = Int.random(in: 0..<6, using: &random)
                    if lines[owner, default: []].isEmpty { servedSince[owner] = [] }
                    queue.append((owner, number), of: owner)
                    lines[owner, default: []].append(number)
                case 5:
                    let kept = Int.random(in: 0..<6, using: &random)
                    queue.removeAll { ($0.owner + $0.number) % 6 == kept }
                    for owner in lines.keys { lines[owner]?.removeAll { (owner + $0) % 6 == kept } }
                default:
                    guard let (owner, taken) = queue.removeFirst() else {
                        #expect(lines.values.allSatisfy { $0.isEmpty }, "seed \(seed)")
                        continue
                    }
                    #expect(lines[owner]?.first == taken, "seed \(seed)")
                    lines[owner]?.removeFirst()
                    for (other, waiting) in lines where other != owner && !waiting.isEmpty {
                        #expect(servedSince[other, default: []].insert(owner).inserted, "seed \(seed): \(owner) twice before \(other)")
                    }
                    servedSince[owner] = []
                }
                #expect(queue.count == lines.values.reduce(0) { $0 + $1.count }, "seed \(seed)")
                #expect(queue.ownerCount == lines.values.filter { !$0.isEmpty }.count, "seed \(seed)")
            }
        }
    }
}
