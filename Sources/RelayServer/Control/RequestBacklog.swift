// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Counts what waits for the store, of each channel and of each account. A channel with too much is not read until enough is done: so an
/// account delays itself, and holds no more of the relay's memory than these bounds and what its connections have received.
struct RequestBacklog: Sendable {
    /// From so much on a channel is not read, and at half of it again.
    static let mostOfChannel = 64
    /// The same for all channels of an account together.
    static let mostOfAccount = 512
    /// A request counts one, and one more for each so many bytes that it keeps in memory.
    private static let bytesPerUnit = 4 << 10

    private struct Account {
        var total = 0
        var channels: [ChannelID: Int] = [:]
        /// It had too much, and has more than half of that still.
        var isFull = false
        /// Those that are not read.
        var held: [ChannelID: any ControlPeer] = [:]
    }

    private var accounts: [AccountID: Account] = [:]

    static func cost(bytes: Int) -> Int { 1 + bytes / bytesPerUnit }

    mutating func began(_ cost: Int, on channel: ChannelID, of account: AccountID) {
        accounts[account, default: Account()].total += cost
        accounts[account]?.channels[channel, default: 0] += cost
    }

    /// Whether a channel may be read on. If not, `ended` says when it may.
    mutating func mayRead(_ channel: ChannelID, of account: AccountID, peer: any ControlPeer) -> Bool {
        guard let known = accounts[account] else { return true }
        let isFull = known.isFull || known.total >= Self.mostOfAccount
        guard isFull || known.channels[channel, default: 0] >= Self.mostOfChannel else { return true }
        accounts[account]?.isFull = isFull
        accounts[account]?.held[channel] = peer
        return false
    }

    /// - Returns: the channels that are to be read again.
    mutating func ended(_ cost: Int, on channel: ChannelID, of account: AccountID) -> [any ControlPeer] {
        guard var known = accounts[account] else { return [] }
        // Changed in place.
        accounts[account] = nil
        known.total -= cost
        let left = known.channels[channel, default: cost] - cost
        known.channels[channel] = left > 0 ? left : nil
        if known.total <= Self.mostOfAccount / 2 { known.isFull = false }
        var resumed: [any ControlPeer] = []
        if !known.held.isEmpty, !known.isFull {
            for (held, peer) in known.held where known.channels[held, default: 0] <= Self.mostOfChannel / 2 {
                known.held[held] = nil
                resumed.append(peer)
            }
        }
        if known.total > 0 { accounts[account] = known }
        return resumed
    }
}
