// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayServer

@Suite struct AccountUseTests {
    /// Against a database that is always read, with random writes, rollbacks and commits over more accounts than are remembered.
    @Test func sumsAreThoseOfTheDatabaseAlthoughTheyAreForgotten() {
        let seed = UInt64.random(in: .min ... .max)
        var generator = SeededGenerator(seed: seed)
        let accounts = (0..<9).map { AccountID("account \($0)") }
        let use = AccountUse(capacity: 4)
        var (work, group, committed): ([AccountID: Int], [AccountID: Int], [AccountID: Int]) = ([:], [:], [:])
        for _ in 0..<5_000 {
            let account = accounts[Int.random(in: 0..<accounts.count, using: &generator)]
            switch Int.random(in: 0..<8, using: &generator) {
            case 0...3: #expect(use.bytes(of: account) { work[account] ?? 0 } == work[account] ?? 0, "seed \(seed)")
            case 4:
                let bytes = Int.random(in: 1...1_000, using: &generator)
                use.add(bytes, to: account)
                work[account, default: 0] += bytes
            case 5:
                use.workSucceeded()
                group = work
            case 6:
                use.workUndone()
                work = group
            default:
                // A commit or a rollback follows the end of a transaction.
                use.workSucceeded()
                group = work
                if Bool.random(using: &generator) {
                    use.groupCommitted()
                    committed = group
                } else {
                    use.groupUndone()
                    (work, group) = (committed, committed)
                }
            }
            #expect(use.count <= 4, "seed \(seed)")
        }
    }
}
