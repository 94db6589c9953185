// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// The pending work of a store with one thread: a bounded queue for each account. The queues are spread over several locks, so that event
/// loops of different accounts seldom wait for each other.
final class AccountQueues: Sendable {
    private static let count = 8

    private final class Shard: Sendable {
        let queue = Mutex(StoreQueue<StoreWork>())
    }

    private let shards = (0..<AccountQueues.count).map { _ in Shard() }
    /// Whether the store's thread is processing work.
    private let isAwake = Atomic(false)
    /// The shard from which the next group starts.
    private let first = Atomic(0)

    private subscript(account: AccountID?) -> Shard { shards[account?.queue(of: Self.count) ?? 0] }

    /// - Returns: whether the store's thread must be woken.
    func append(_ work: StoreWork) -> Bool {
        self[work.account].queue.withLock { $0.append(work, for: work.account, from: work.channel, cost: work.cost) }
        return !isAwake.exchange(true, ordering: .sequentiallyConsistent)
    }

    /// The next group, with a maximum size. If it is empty, the next `append` must wake the thread. Called on the store's thread.
    func next(_ most: Int) -> [StoreWork] {
        let group = take(most)
        guard group.isEmpty else { return group }
        isAwake.store(false, ordering: .sequentiallyConsistent)
        // Work that was appended before the store above has woken no thread.
        let late = take(most)
        if !late.isEmpty { isAwake.store(true, ordering: .sequentiallyConsistent) }
        return late
    }

    /// Takes at most `most` items, and from each shard at most its share. Called on the store's thread.
    func take(_ most: Int) -> [StoreWork] {
        let first = first.wrappingAdd(1, ordering: .relaxed).oldValue
        var group: [StoreWork] = []
        for number in 0..<Self.count where group.count < most {
            let shard = shards[Int(UInt(bitPattern: first &+ number) % UInt(Self.count))]
            let room = min(most / Self.count + 1, most - group.count)
            group += shard.queue.withLock { $0.isEmpty ? [] : $0.take(room) }
        }
        return group
    }

    /// A group is complete. Resumes the channels that waited for it.
    func done(_ group: [StoreWork]) {
        for work in group {
            guard let channel = work.channel else { continue }
            let resumed = self[work.account].queue.withLock { $0.done(for: work.account, from: channel, cost: work.cost) }
            for peer in resumed { peer.resume() }
        }
    }

    func hasRoom(for channel: ChannelID, of account: AccountID, waiter: any ControlPeer) -> Bool {
        self[account].queue.withLock { $0.hasRoom(for: channel, of: account, waiter: waiter) }
    }
}
