// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Work that waits for the store. The work of one account keeps its order; accounts are served in rotation, so that the backlog of one
/// delays the others by its share of a group only.
///
/// What channels ask for is counted until it is done. A channel with too much, or of an account with too much, is not read until half of it
/// is done: so an account delays itself, and holds no more of the relay's memory than these bounds and what its connections have received.
struct StoreQueue<Work> {
    /// How much work of one account a group takes. A larger share would only make the others wait for it.
    static var share: Int { 32 }
    /// From so much on a channel is not read, and at half of it again.
    static var maximumOfChannel: Int { 64 }
    /// The same for all channels of an account together.
    static var maximumOfAccount: Int { 512 }

    private struct Line {
        /// What was not taken yet.
        var work = CircularBuffer<Work>(initialCapacity: 1)
        /// What its channels asked for and was not done yet.
        var cost = 0
        var costs: [ChannelID: Int] = [:]
        /// It had too much, and has more than half of that still.
        var isFull = false
        /// Those that are not read.
        var held: [ChannelID: any ControlPeer] = [:]

        var isIdle: Bool { work.isEmpty && cost == 0 }

        /// - Returns: whether it is the only work.
        mutating func append(_ new: Work, from channel: ChannelID?, cost more: Int) -> Bool {
            if let channel {
                cost += more
                costs[channel, default: 0] += more
            }
            work.append(new)
            return work.count == 1
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

    private var lines: [AccountID?: Line] = [:]
    /// The accounts that have work, the next to be served first.
    private var rotation = CircularBuffer<AccountID?>()

    var isEmpty: Bool { rotation.isEmpty }

    /// - Parameters:
    ///   - account: whose work it is; `nil` for the relay's own, which is served like an account's.
    ///   - channel: the channel that asked for it.
    mutating func append(_ work: Work, for account: AccountID?, from channel: ChannelID? = nil, cost: Int = 1) {
        let isNext = lines[account, default: Line()].append(work, from: channel, cost: cost)
        if isNext { rotation.append(account) }
    }

    /// The next group of at most so many: one of each account, then the next of each, and so on.
    mutating func take(_ most: Int) -> [Work] {
        var group: [Work] = []
        for _ in 0..<Self.share where group.count < most && !rotation.isEmpty {
            for _ in 0..<rotation.count where group.count < most {
                guard let account = rotation.popFirst(), let index = lines.index(forKey: account),
                    let work = lines.values[index].work.popFirst()
                else { continue }
                group.append(work)
                if !lines.values[index].work.isEmpty {
                    rotation.append(account)
                } else if lines.values[index].isIdle {
                    lines.remove(at: index)
                }
            }
        }
        return group
    }

    /// Whether a channel may be read on. If not, `done` says when it may.
    mutating func hasRoom(for channel: ChannelID, of account: AccountID, waiter: any ControlPeer) -> Bool {
        guard let index = lines.index(forKey: account) else { return true }
        return lines.values[index].hasRoom(for: channel, waiter: waiter)
    }

    /// Work that was taken is done.
    /// - Returns: the channels that are to be read again.
    mutating func done(for account: AccountID?, from channel: ChannelID, cost: Int) -> [any ControlPeer] {
        guard let index = lines.index(forKey: account) else { return [] }
        let resumed = lines.values[index].done(from: channel, cost: cost)
        if lines.values[index].isIdle { lines.remove(at: index) }
        return resumed
    }
}

extension StoreWork {
    /// A request counts one, and one more for each so many bytes that it keeps in memory.
    private static let bytesPerUnit = 4 << 10

    static func cost(bytes: Int) -> Int { 1 + bytes / bytesPerUnit }
}
