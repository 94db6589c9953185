// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayCollections
import RelayTesting
import Testing

@Suite struct TimerHeapTests {
    @Test func earliestDeadlineIsPoppedFirst() {
        var random = SeededGenerator(seed: 1)
        for _ in 0..<50 {
            var queue = TimerHeap<Duration, UInt64>()
            var model: [(time: Int, token: UInt64)] = []
            for token in 0..<UInt64(Int.random(in: 0...200, using: &random)) {
                let time = Int.random(in: 0..<50, using: &random)
                queue.insert(token, at: .seconds(time))
                model.append((time, token))
                if random.oneIn(3) {
                    let now = Int.random(in: 0..<50, using: &random)
                    let due = queue.removeFirst(at: .seconds(now))
                    #expect((due == nil) == model.allSatisfy { $0.time > now })
                    if let due {
                        let index = model.firstIndex { $0.token == due }
                        #expect(model.map(\.time).min() == index.map { model[$0].time })
                        if let index { model.remove(at: index) }
                    }
                }
                #expect(queue.first == model.map(\.time).min().map { .seconds($0) })
            }
            var times: [Int] = []
            while let token = queue.removeFirst(at: .seconds(50)) { times += model.filter { $0.token == token }.map(\.time) }
            #expect(times == model.map(\.time).sorted())
            #expect(queue.count == 0)
        }
    }

    @Test func endedEntriesArePruned() {
        var queue = TimerHeap<Duration, UInt64>()
        for token in 0..<UInt64(100_000) {
            queue.insert(token, at: .seconds(Int(token % 97)))
            // The last ten are live.
            queue.prune(liveCount: 10) { $0 + 10 > token }
            #expect(queue.count <= 85)
        }
        queue.prune(liveCount: 0) { _ in false }
        #expect(queue.count <= 64)
    }
}
