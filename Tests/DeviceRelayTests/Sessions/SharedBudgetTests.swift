// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import DeviceRelay

@Suite(.timeLimit(.minutes(10))) struct SharedBudgetTests {
    typealias Ledger = SharedBudget.Ledger<Int>

    @Test func claimsOfAShareAreServedInOrder() {
        var ledger = Ledger(whole: 10, part: 10)
        let share = ledger.makeShare()
        #expect(ledger.take(6, for: share) == true)
        #expect(ledger.take(8, for: share) == false)
        _ = ledger.wait(8, for: 8, of: share)
        // It would fit, and waits behind the larger one.
        #expect(ledger.take(1, for: share) == false)
        _ = ledger.wait(1, for: 1, of: share)
        _ = ledger.wait(4, for: 4, of: share)
        #expect(ledger.release(6, of: share) == [8, 1])
        #expect(ledger.release(8, of: share) == [4])
        #expect(ledger.release(1, of: share) == [])
        #expect(ledger.release(4, of: share) == [])
        #expect(ledger.free == 10)
        #expect(ledger.activeCount == 0)
    }

    @Test func aShareThatHasItsPartHoldsUpNoOther() {
        var ledger = Ledger(whole: 10, part: 6)
        let (greedy, modest) = (ledger.makeShare(), ledger.makeShare())
        #expect(ledger.take(6, for: greedy) == true)
        #expect(ledger.take(1, for: greedy) == false)
        _ = ledger.wait(1, for: 1, of: greedy)
        #expect(ledger.take(4, for: modest) == true)
        _ = ledger.wait(2, for: 2, of: modest)
        #expect(ledger.release(4, of: modest) == [2])
        #expect(ledger.release(6, of: greedy) == [1])
    }

    @Test func sharesWaitForTheWholeInOrder() {
        var ledger = Ledger(whole: 10, part: 8)
        let shares = (0..<3).map { _ in ledger.makeShare() }
        #expect(ledger.take(8, for: shares[0]) == true)
        _ = ledger.wait(8, for: 8, of: shares[1])
        _ = ledger.wait(1, for: 1, of: shares[2])
        #expect(ledger.release(4, of: shares[0]) == [])
        #expect(ledger.release(4, of: shares[0]) == [8, 1])
    }

    @Test func aClaimThatIsTakenBackMakesRoom() {
        var ledger = Ledger(whole: 10, part: 10)
        let (one, two) = (ledger.makeShare(), ledger.makeShare())
        #expect(ledger.take(6, for: one) == true)
        let large = ledger.wait(10, for: 10, of: one)
        _ = ledger.wait(3, for: 3, of: one)
        _ = ledger.wait(1, for: 1, of: two)
        #expect(ledger.cancel(large, of: one) == [1, 3])
        #expect(ledger.cancel(large, of: one) == nil)
        #expect(ledger.free == 0)
        #expect(ledger.grow(by: 5) == [])
        #expect(ledger.free == 5)
    }

    @Test func randomClaimsAreAllServedAndNothingIsLost() {
        for seed in 0..<200 {
            var random = SeededGenerator(seed: UInt64(seed))
            var ledger = Ledger(whole: 100, part: 40)
            let shares = (0..<5).map { _ in ledger.makeShare() }
            var held: [(share: UInt64, amount: Int)] = []
            var waiting: [Int: (share: UInt64, amount: Int, ticket: UInt64)] = [:]
            func serve(_ served: [Int]) {
                for name in served {
                    guard let claim = waiting.removeValue(forKey: name) else { return #expect(Bool(false), "seed \(seed)") }
                    held.append((claim.share, claim.amount))
                }
            }
            for name in 0..<300 {
                let share = shares[Int.random(in: 0..<5, using: &random)]
                let amount = Int.random(in: 1...40, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0, 1:
                    if ledger.take(amount, for: share) {
                        held.append((share, amount))
                    } else {
                        waiting[name] = (share, amount, ledger.wait(name, for: amount, of: share))
                    }
                case 2 where !held.isEmpty:
                    let one = held.remove(at: Int.random(in: 0..<held.count, using: &random))
                    serve(ledger.release(one.amount, of: one.share))
                case 3 where !waiting.isEmpty:
                    guard let name = waiting.keys.sorted().randomElement(using: &random), let claim = waiting.removeValue(forKey: name)
                    else {
                        break
                    }
                    serve(ledger.cancel(claim.ticket, of: claim.share) ?? [-1])
                default: break
                }
                #expect(ledger.free == 100 - held.reduce(0) { $0 + $1.amount }, "seed \(seed)")
                for share in shares { #expect(held.filter { $0.share == share }.reduce(0) { $0 + $1.amount } <= 40, "seed \(seed)") }
            }
            while let one = held.popLast() { serve(ledger.release(one.amount, of: one.share)) }
            #expect(waiting.isEmpty, "seed \(seed)")
            #expect(ledger.free == 100 && ledger.activeCount == 0, "seed \(seed)")
        }
    }

    @Test func aTaskWaitsForItsTurnOrIsCancelled() async {
        let budget = SharedBudget(whole: 10, part: 10)
        let (one, two) = (budget.makeShare(), budget.makeShare())
        #expect(await one.take(10))
        let cancelled = Task { await two.take(5) }
        let waiting = Task { await two.take(5) }
        cancelled.cancel()
        #expect(await !cancelled.value)
        one.release(10)
        #expect(await waiting.value)
        #expect(budget.free == 5)
        two.release(5)
        #expect(budget.free == 10)
    }
}
