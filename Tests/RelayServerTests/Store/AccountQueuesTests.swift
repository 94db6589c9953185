// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization
import Testing

@testable import RelayServer

/// The queues of all accounts together.
@Suite struct AccountQueuesTests {
    private func work(_ account: Int?, ran: @escaping @Sendable () -> Void = {}) -> StoreWork {
        StoreWork(account: account.map { AccountID("account \($0)") }, run: { _ in nil }, report: { _ in ran() })
    }

    @Test func threadIsWokenOnceUntilTheQueueIsEmpty() {
        let queues = AccountQueues()
        #expect(queues.append(work(1)))
        #expect(!queues.append(work(2)))
        #expect(queues.next(10).count == 2)
        #expect(!queues.append(work(3)))
        #expect(queues.next(10).count == 1)
        #expect(queues.next(10).isEmpty)
        #expect(queues.append(work(nil)))
        #expect(queues.next(10).count == 1)
    }

    @Test func allWorkIsTakenInTheOrderOfEachAccount() {
        let queues = AccountQueues()
        let seen = Mutex<[Int: [Int]]>([:])
        for number in 0..<400 {
            let account = number % 40
            _ = queues.append(work(account) { seen.withLock { $0[account, default: []].append(number) } })
        }
        while true {
            let group = queues.next(30)
            #expect(group.count <= 30)
            if group.isEmpty { break }
            for work in group { work.report(nil) }
        }
        #expect(seen.withLock { $0.count } == 40)
        for (account, numbers) in seen.withLock({ $0 }) {
            #expect(numbers == Array(stride(from: account, to: 400, by: 40)))
        }
    }

    /// The backlog of one account does not take the places of others in the group.
    @Test func backlogLeavesRoomForOtherAccounts() {
        let queues = AccountQueues()
        for _ in 0..<1_000 { _ = queues.append(work(0)) }
        for account in 1...20 { _ = queues.append(work(account)) }
        let group = queues.next(100)
        #expect(Set(group.map(\.account)).count == 21)
    }

    @Test func concurrentAppendsLoseNothing() async {
        let queues = AccountQueues()
        let taken = Mutex(0)
        let append: @Sendable (Int) -> Void = { account in
            for _ in 0..<2_000 where queues.append(work(account)) {
                // Only one thread at a time is asked to wake, and it takes the works.
                while true {
                    let group = queues.next(64)
                    if group.isEmpty { break }
                    taken.withLock { $0 += group.count }
                }
            }
        }
        await withTaskGroup(of: Void.self) { tasks in
            for account in 0..<4 { tasks.addTask { append(account) } }
        }
        // What came as the last one fell asleep.
        #expect(taken.withLock { $0 } + queues.next(10_000).count == 8_000)
    }
}
