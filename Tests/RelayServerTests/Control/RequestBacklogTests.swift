// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayServer

/// Which channels are read while their requests wait for the store.
@Suite struct RequestBacklogTests {
    private let one = AccountID("one")
    private let other = AccountID("other")

    private func mayRead(_ backlog: inout RequestBacklog, _ channel: UInt64, of account: AccountID) -> Bool {
        backlog.mayRead(ChannelID(channel), of: account, peer: TestPeer())
    }

    private func ended(_ backlog: inout RequestBacklog, _ channel: UInt64) -> Int {
        backlog.ended(1, on: ChannelID(channel), of: one).count
    }

    private func fill(_ backlog: inout RequestBacklog, _ channel: UInt64, _ count: Int) -> Bool {
        for _ in 0..<count { backlog.began(1, on: ChannelID(channel), of: one) }
        return backlog.mayRead(ChannelID(channel), of: one, peer: TestPeer())
    }

    @Test func aChannelWaitsUntilHalfOfItsRequestsAreDone() {
        var backlog = RequestBacklog()
        for _ in 0..<63 { backlog.began(1, on: ChannelID(1), of: one) }
        #expect(mayRead(&backlog, 1, of: one))
        backlog.began(1, on: ChannelID(1), of: one)
        #expect(!mayRead(&backlog, 1, of: one))
        // Its siblings, and other accounts, do not.
        #expect(mayRead(&backlog, 2, of: one))
        #expect(mayRead(&backlog, 3, of: other))
        for _ in 0..<31 { #expect(ended(&backlog, 1) == 0) }
        #expect(ended(&backlog, 1) == 1)
        #expect(ended(&backlog, 1) == 0)
        #expect(mayRead(&backlog, 1, of: one))
    }

    @Test func anAccountWaitsUntilHalfOfItsRequestsAreDone() {
        var backlog = RequestBacklog()
        for channel in 1...8 { #expect(fill(&backlog, UInt64(channel), 63)) }
        #expect(!fill(&backlog, 9, 8))
        #expect(!mayRead(&backlog, 1, of: one))
        #expect(mayRead(&backlog, 10, of: other))
        var resumed = 0
        for channel in 1...4 { for _ in 0..<63 { resumed += backlog.ended(1, on: ChannelID(UInt64(channel)), of: one).count } }
        // Though some have nothing that waits, the account has too much.
        #expect(resumed == 0)
        #expect(!mayRead(&backlog, 2, of: one))
        for _ in 0..<4 { resumed += backlog.ended(1, on: ChannelID(5), of: one).count }
        #expect(resumed == 3)
        #expect(mayRead(&backlog, 6, of: one))
    }

    /// A channel with few requests is not held up for ever by siblings that keep the account busy, but within its bounds.
    @Test func aChannelIsReadOnWhileItsAccountIsHalfFull() {
        var backlog = RequestBacklog()
        for channel in 1...7 { #expect(fill(&backlog, UInt64(channel), 60)) }
        #expect(!fill(&backlog, 8, 64))
        var resumed = 0
        for _ in 0..<32 { resumed += backlog.ended(1, on: ChannelID(8), of: one).count }
        #expect(resumed == 1)
    }

    @Test func whatKeepsMemoryCountsForMore() {
        var backlog = RequestBacklog()
        backlog.began(RequestBacklog.cost(bytes: 256 << 10), on: ChannelID(1), of: one)
        #expect(!mayRead(&backlog, 1, of: one))
        #expect(RequestBacklog.cost(bytes: 0) == 1)
    }

    @Test(arguments: 0..<20) func allThatWaitIsReadAgainInTheEnd(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        var backlog = RequestBacklog()
        var (open, held): ([(channel: Int, cost: Int)], Set<Int>) = ([], [])
        let peers = (0..<20).map { _ in TestPeer() }
        func resumed(_ resumed: [any ControlPeer]) {
            for peer in resumed { for (number, known) in peers.enumerated() where known === (peer as AnyObject) { held.remove(number) } }
        }
        for _ in 0..<3_000 {
            let channel = Int.random(in: 0..<20, using: &random)
            if !held.contains(channel), Int.random(in: 0..<3, using: &random) > 0 {
                let cost = Int.random(in: 1..<20, using: &random)
                backlog.began(cost, on: ChannelID(UInt64(channel)), of: one)
                open.append((channel, cost))
                if !backlog.mayRead(ChannelID(UInt64(channel)), of: one, peer: peers[channel]) { held.insert(channel) }
                // Each channel learns by its next request that the account has too much.
                #expect(open.reduce(0) { $0 + $1.cost } < RequestBacklog.mostOfAccount + 20 * 20)
            } else if !open.isEmpty {
                let (channel, cost) = open.remove(at: Int.random(in: open.indices, using: &random))
                resumed(backlog.ended(cost, on: ChannelID(UInt64(channel)), of: one))
            }
        }
        for (channel, cost) in open { resumed(backlog.ended(cost, on: ChannelID(UInt64(channel)), of: one)) }
        #expect(held.isEmpty)
    }
}
