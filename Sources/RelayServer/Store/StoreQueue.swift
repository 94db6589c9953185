// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

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

    private struct Line {
        /// Not taken yet.
        var work = CircularBuffer<Work>(initialCapacity: 1)
        /// The cost of its channels' requests that are not done yet.
        var cost = 0
        var costs: [ChannelID: Int] = [:]
        /// Whether it has reached its maximum and is still above half of it.
        var isFull = false
        /// The channels that are paused.
        var held: [ChannelID: any ControlPeer] = [:]

        var isIdle: Bool { work.isEmpty && cost == 0 }

        /// - Returns: whether this is the only item.
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
    /// The accounts with work; the first one is served next.
    private var rotation = CircularBuffer<AccountID?>()

    var isEmpty: Bool { rotation.isEmpty }

    /// - Parameters:
    ///   - account: the account; `nil` for work of the relay itself, which has a queue like an account's.
    ///   - channel: the channel that requested it.
    mutating func append(_ work: Work, for account: AccountID?, from channel: ChannelID? = nil, cost: Int = 1) {
        let isNext = lines[account, default: Line()].append(work, from: channel, cost: cost)
        if isNext { rotation.append(account) }
    }

    /// The next group, with a maximum size: one item of each account, then the next one of each, and so on.
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

    /// Whether the relay may continue to read from a channel. If not, `done` returns the channel later.
    mutating func hasRoom(for channel: ChannelID, of account: AccountID, waiter: any ControlPeer) -> Bool {
        guard let index = lines.index(forKey: account) else { return true }
        return lines.values[index].hasRoom(for: channel, waiter: waiter)
    }

    /// Taken work is done.
    /// - Returns: the channels to resume.
    mutating func done(for account: AccountID?, from channel: ChannelID, cost: Int) -> [any ControlPeer] {
        guard let index = lines.index(forKey: account) else { return [] }
        let resumed = lines.values[index].done(from: channel, cost: cost)
        if lines.values[index].isIdle { lines.remove(at: index) }
        return resumed
    }
}

extension StoreWork {
    /// A request costs one unit, and one more per this many bytes that it keeps in memory.
    private static let bytesPerUnit = 4 << 10

    static func cost(bytes: Int) -> Int { 1 + bytes / bytesPerUnit }
}
