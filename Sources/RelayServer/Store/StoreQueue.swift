// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayCollections

/// Pending work of the store. The work of one account keeps its order; accounts are served in rotation, so that the backlog of one
/// account delays the others by at most its share of a group.
///
/// Requests of channels count until they are done. The relay stops reading from a channel with too many requests, or of an account with
/// too many, until half of them are done. So an account delays only itself, and uses no more memory than these bounds and the bytes that
/// its connections have received.
struct StoreQueue<Work> {
    /// The maximum share of one account in a group. A larger share would delay the other accounts.
    static var share: Int { 32 }
    /// At this cost the relay stops reading from a channel; at half of it, it resumes.
    static var maximumOfChannel: Int { 64 }
    /// The same for all channels of an account together.
    static var maximumOfAccount: Int { 512 }

    /// The requests of an account's channels that are not done yet.
    private struct Load {
        var cost = 0
        var costs: [ChannelID: Int] = [:]
        /// Whether it has reached its maximum and is still above half of it.
        var isFull = false
        /// The channels that are paused.
        var held: [ChannelID: any ControlPeer] = [:]

        mutating func add(_ more: Int, from channel: ChannelID) {
            cost += more
            costs[channel, default: 0] += more
        }

        mutating func hasRoom(for channel: ChannelID, waiter: any ControlPeer) -> Bool {
            isFull = isFull || cost >= StoreQueue.maximumOfAccount
            guard isFull || costs[channel, default: 0] >= StoreQueue.maximumOfChannel else { return true }
            held[channel] = waiter
            return false
        }

        mutating func done(from channel: ChannelID, cost less: Int) -> [any ControlPeer] {
            cost -= less
            let left = costs[channel, default: less] - less
            costs[channel] = left > 0 ? left : nil
            if cost <= StoreQueue.maximumOfAccount / 2 { isFull = false }
            guard !held.isEmpty, !isFull else { return [] }
            let resumed = held.filter { costs[$0.key, default: 0] <= StoreQueue.maximumOfChannel / 2 }
            for channel in resumed.keys { held[channel] = nil }
            return Array(resumed.values)
        }
    }

    private var work = FairQueue<AccountID?, Work>()
    private var loads: [AccountID: Load] = [:]

    var isEmpty: Bool { work.isEmpty }

    /// - Parameters:
    ///   - account: the account; `nil` for work of the relay itself, which has a queue like an account's.
    ///   - channel: the channel that requested it.
    mutating func append(_ item: Work, for account: AccountID?, from channel: ChannelID? = nil, cost: Int = 1) {
        if let account, let channel { loads[account, default: Load()].add(cost, from: channel) }
        work.append(item, of: account)
    }

    /// The next group, with a maximum size: one item of each account, then the next one of each, and so on.
    mutating func take(_ most: Int) -> [Work] {
        var group: [Work] = []
        for _ in 0..<Self.share {
            for _ in 0..<min(work.ownerCount, most - group.count) {
                if let item = work.removeFirst() { group.append(item) }
            }
        }
        return group
    }

    /// Whether the relay may continue to read from a channel. If not, `done` returns the channel later.
    mutating func hasRoom(for channel: ChannelID, of account: AccountID, waiter: any ControlPeer) -> Bool {
        guard let index = loads.index(forKey: account) else { return true }
        return loads.values[index].hasRoom(for: channel, waiter: waiter)
    }

    /// Taken work is done.
    /// - Returns: the channels to resume.
    mutating func done(for account: AccountID?, from channel: ChannelID, cost: Int) -> [any ControlPeer] {
        guard let account, let index = loads.index(forKey: account) else { return [] }
        let resumed = loads.values[index].done(from: channel, cost: cost)
        if loads.values[index].cost == 0 { loads.remove(at: index) }
        return resumed
    }
}

extension StoreWork {
    /// A request costs one unit, and one more per this many bytes that it keeps in memory.
    private static let bytesPerUnit = 4 << 10

    static func cost(bytes: Int) -> Int { 1 + bytes / bytesPerUnit }
}
