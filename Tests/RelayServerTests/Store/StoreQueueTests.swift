// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import RelayTesting
import Synchronization
import Testing

@testable import RelayServer

/// In which order the store serves accounts.
@Suite struct StoreQueueTests {
    private static func account(_ number: Int) -> AccountID { AccountID("account \(number)") }

    @Test func accountsAreServedInRotation() {
        var queue = StoreQueue<String>()
        for (account, work) in [(1, "a"), (1, "b"), (1, "c"), (2, "d"), (3, "e"), (3, "f")] {
            queue.append(work, for: Self.account(account))
        }
        queue.append("relay", for: nil)
        #expect(queue.take(100) == ["a", "d", "e", "relay", "b", "f", "c"])
        #expect(queue.isEmpty)
        #expect(queue.take(100) == [])
    }

    @Test func nextGroupContinuesTheRotation() {
        var queue = StoreQueue<Int>()
        for number in 0..<9 { queue.append(number, for: Self.account(number % 3)) }
        #expect(queue.take(4) == [0, 1, 2, 3])
        #expect(queue.take(2) == [4, 5])
        queue.append(9, for: Self.account(4))
        #expect(queue.take(100) == [6, 7, 8, 9])
    }

    @Test func groupTakesALimitedShareOfAnAccount() {
        var queue = StoreQueue<Int>()
        for number in 0..<200 { queue.append(number, for: Self.account(1)) }
        #expect(queue.take(512) == Array(0..<32))
        queue.append(1_000, for: Self.account(2))
        #expect(queue.take(512) == [32, 1_000] + Array(33..<64))
    }

    @Test(arguments: 0..<20) func allWorkIsTakenInTheOrderOfEachAccount(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        var queue = StoreQueue<(account: Int, number: Int)>()
        var (added, taken) = ([Int](repeating: 0, count: 8), [Int](repeating: 0, count: 8))
        for step in 0..<600 {
            if step < 500, Bool.random(using: &random) {
                // Some have much more than others.
                let account = Int.random(in: 0..<8, using: &random) & Int.random(in: 0..<8, using: &random)
                queue.append((account, added[account]), for: account == 7 ? nil : Self.account(account))
                added[account] += 1
            } else {
                for (account, number) in queue.take(Int.random(in: 1..<9, using: &random)) {
                    #expect(number == taken[account])
                    taken[account] += 1
                }
            }
        }
        while !queue.isEmpty { for (account, _) in queue.take(512) { taken[account] += 1 } }
        #expect(taken == added)
    }
}

/// The same through the database.
@Suite(.timeLimit(.minutes(5))) struct StoreRotationTests {
    private struct Seen: Sendable {
        var ran: [[Int]]
        var reported: [[Int]]
        /// The account and number of all completed works, in order.
        var all: [[Int]] = []
    }

    @Test(arguments: 0..<4) func workIsDoneInTheOrderOfEachAccount(seed: Int) async throws {
        var random = SeededGenerator(seed: UInt64(seed))
        let store = try SQLiteStore()
        let accounts = (0..<12).map { AccountID(String(repeating: "a", count: 30) + "\($0 + 10)") }
        try await store.transact { store in
            for account in accounts {
                try store.addAccount(account, identity: Identity(issuer: "a", subject: account.rawValue), time: 1)
            }
        }
        let seen = Mutex(Seen(ran: .init(repeating: [], count: 12), reported: .init(repeating: [], count: 12)))
        var submitted = [Int](repeating: 0, count: 12)
        for _ in 0..<3_000 {
            let account = Int.random(in: 0..<12, using: &random) & Int.random(in: 0..<12, using: &random)
            let (number, fails) = (submitted[account], Int.random(in: 0..<20, using: &random) == 0)
            submitted[account] += 1
            store.submit(for: accounts[account]) { store in
                try store.put(.sample(account * 10_000 + number, accounts[account]))
                // What is undone and run again is seen again: the last time counts.
                seen.withLock { seen in
                    seen.ran[account].removeAll { $0 >= number }
                    seen.ran[account].append(number)
                }
                if fails { throw TestError("undo") }
            } completion: { result in
                #expect((try? result.get()) == nil ? fails : !fails)
                seen.withLock { seen in
                    seen.reported[account].append(number)
                    seen.all.append([account, number])
                }
            }
        }
        while seen.withLock({ $0.all.count }) < 3_000 { try await store.transact { _ in } }
        let result = seen.withLock { $0 }
        for account in 0..<12 {
            #expect(result.reported[account] == Array(0..<submitted[account]))
            #expect(result.ran[account] == Array(0..<submitted[account]))
            let rows = try await store.transact { try $0.endpoints(of: accounts[account]).count }
            #expect(rows > 0 || submitted[account] == 0)
        }
    }

    /// Before another account's work no more of a backlog is done than one group holds.
    @Test func backlogDelaysAnotherAccountByItsShareOnly() async throws {
        let store = try SQLiteStore()
        let (flooder, other) = (AccountID(String(repeating: "a", count: 32)), AccountID(String(repeating: "b", count: 32)))
        let gate = DispatchSemaphore(value: 0)
        let done = Mutex(0)
        let before = Mutex<[Int]>([])
        store.submit(for: nil, { _ in gate.wait() }) { _ in }
        for number in 0..<10_000 {
            store.submit(for: flooder, { _ = try $0.endpoints(of: flooder) }) { _ in done.withLock { $0 += 1 } }
            guard number % 5_000 == 4_999 else { continue }
            store.submit(for: other, { _ in }) { _ in
                let count = done.withLock { $0 }
                before.withLock { $0.append(count) }
            }
        }
        gate.signal()
        while done.withLock({ $0 }) < 10_000 { try await store.transact(for: flooder) { _ in } }
        #expect(before.withLock { $0 }.allSatisfy { $0 <= 2 * StoreQueue<Int>.share })
        #expect(before.withLock { $0.count } == 2)
    }
}
