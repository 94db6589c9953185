// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayServer

/// Which channels are read while their requests wait for the store.
@Suite struct StoreQueueBoundTests {
    private typealias Queue = StoreQueue<Int>

    private let one = AccountID("one")
    private let other = AccountID("other")

    private func mayRead(_ queue: inout Queue, _ channel: UInt64, of account: AccountID) -> Bool {
        queue.hasRoom(for: ChannelID(channel), of: account, waiter: TestPeer())
    }

    /// Work that a channel asks for is taken from the queue at once, and counts until it is done.
    private func began(_ queue: inout Queue, _ channel: UInt64, cost: Int = 1) {
        queue.append(0, for: one, from: ChannelID(channel), cost: cost)
        #expect(queue.take(1) == [0])
    }

    private func ended(_ queue: inout Queue, _ channel: UInt64) -> Int {
        queue.done(for: one, from: ChannelID(channel), cost: 1).count
    }

    private func fill(_ queue: inout Queue, _ channel: UInt64, _ count: Int) -> Bool {
        for _ in 0..<count { began(&queue, channel) }
        return queue.hasRoom(for: ChannelID(channel), of: one, waiter: TestPeer())
    }

    @Test func fullChannelResumesAtHalfOfItsBound() {
        var queue = Queue()
        for _ in 0..<63 { began(&queue, 1) }
        #expect(mayRead(&queue, 1, of: one))
        began(&queue, 1)
        #expect(!mayRead(&queue, 1, of: one))
        // Its siblings, and other accounts, do not.
        #expect(mayRead(&queue, 2, of: one))
        #expect(mayRead(&queue, 3, of: other))
        for _ in 0..<31 { #expect(ended(&queue, 1) == 0) }
        #expect(ended(&queue, 1) == 1)
        #expect(ended(&queue, 1) == 0)
        #expect(mayRead(&queue, 1, of: one))
    }

    @Test func fullAccountResumesAtHalfOfItsBound() {
        var queue = Queue()
        for channel in 1...8 { #expect(fill(&queue, UInt64(channel), 63)) }
        #expect(!fill(&queue, 9, 8))
        #expect(!mayRead(&queue, 1, of: one))
        #expect(mayRead(&queue, 10, of: other))
        var resumed = 0
        for channel in 1...4 { for _ in 0..<63 { resumed += queue.done(for: one, from: ChannelID(UInt64(channel)), cost: 1).count } }
        // Though some have nothing that waits, the account has too much.
        #expect(resumed == 0)
        #expect(!mayRead(&queue, 2, of: one))
        for _ in 0..<4 { resumed += queue.done(for: one, from: ChannelID(5), cost: 1).count }
        #expect(resumed == 3)
        #expect(mayRead(&queue, 6, of: one))
    }

    /// A channel with few requests is not blocked permanently by other channels that keep the account within its bounds busy.
    @Test func channelResumesWhileItsAccountIsHalfFull() {
        var queue = Queue()
        for channel in 1...7 { #expect(fill(&queue, UInt64(channel), 60)) }
        #expect(!fill(&queue, 8, 64))
        var resumed = 0
        for _ in 0..<32 { resumed += queue.done(for: one, from: ChannelID(8), cost: 1).count }
        #expect(resumed == 1)
    }

    @Test func largeRequestsCountMore() {
        var queue = Queue()
        began(&queue, 1, cost: StoreWork.cost(bytes: 256 << 10))
        #expect(!mayRead(&queue, 1, of: one))
        #expect(StoreWork.cost(bytes: 0) == 1)
    }

    @Test(arguments: 0..<20) func everyPausedChannelResumes(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        var queue = Queue()
        var (open, held): ([(channel: Int, cost: Int)], Set<Int>) = ([], [])
        let peers = (0..<20).map { _ in TestPeer() }
        func resumed(_ resumed: [any ControlPeer]) {
            for peer in resumed { for (number, known) in peers.enumerated() where known === (peer as AnyObject) { held.remove(number) } }
        }
        for _ in 0..<3_000 {
            let channel = Int.random(in: 0..<20, using: &random)
            if !held.contains(channel), Int.random(in: 0..<3, using: &random) > 0 {
                let cost = Int.random(in: 1..<20, using: &random)
                began(&queue, UInt64(channel), cost: cost)
                open.append((channel, cost))
                if !queue.hasRoom(for: ChannelID(UInt64(channel)), of: one, waiter: peers[channel]) { held.insert(channel) }
                // Each channel learns by its next request that the account has too much.
                #expect(open.reduce(0) { $0 + $1.cost } < Queue.maximumOfAccount + 20 * 20)
            } else if !open.isEmpty {
                let (channel, cost) = open.remove(at: Int.random(in: open.indices, using: &random))
                resumed(queue.done(for: one, from: ChannelID(UInt64(channel)), cost: cost))
            }
        }
        for (channel, cost) in open { resumed(queue.done(for: one, from: ChannelID(UInt64(channel)), cost: cost)) }
        #expect(held.isEmpty)
    }
}
