// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import DeviceRelay

@Suite(.timeLimit(.minutes(10))) struct SharedBudgetTests {
    typealias Ledger = SharedBudget.Ledger<String, Int>

    @Test func claimsOfAPeerAreServedInOrder() {
        var ledger = Ledger(whole: 40, part: 10)
        #expect(ledger.take(6, for: "a") == true)
        #expect(ledger.take(8, for: "a") == false)
        _ = ledger.wait(8, for: 8, of: "a")
        // It would fit, and waits behind the larger one.
        #expect(ledger.take(1, for: "a") == false)
        _ = ledger.wait(1, for: 1, of: "a")
        _ = ledger.wait(4, for: 4, of: "a")
        #expect(ledger.release(6, of: "a") == [8, 1])
        #expect(ledger.release(8, of: "a") == [4])
        #expect(ledger.release(1, of: "a") == [])
        #expect(ledger.release(4, of: "a") == [])
        #expect(ledger.free == 40)
        #expect(ledger.activeCount == 0)
    }

    @Test func peerHoldsNoMoreThanItsShare() {
        var ledger = Ledger(whole: 100, part: 10)
        #expect(ledger.take(10, for: "a") == true)
        #expect(ledger.take(1, for: "a") == false)
        _ = ledger.wait(1, for: 1, of: "a")
        #expect(ledger.take(1, for: "b") == true)
        #expect(ledger.release(1, of: "b") == [])
        #expect(ledger.release(10, of: "a") == [1])
    }

    @Test func peerHoldsAQuarterOfTheRest() {
        var ledger = Ledger(whole: 64, part: 64)
        #expect(ledger.part == 16)
        #expect(ledger.take(16, for: "a") == true)
        #expect(ledger.take(13, for: "b") == false)
        #expect(ledger.take(10, for: "b") == true)
        #expect(ledger.take(2, for: "b") == true)
        #expect(ledger.take(1, for: "b") == false)
        #expect(ledger.take(9, for: "c") == true)
        #expect(ledger.free == 27)
    }

    /// For any number of peers, the next one gets a part at once.
    @Test(arguments: [1, 3, 4, 10, 20]) func peersCannotExhaustTheBudget(_ count: Int) {
        var ledger = Ledger(whole: 100_000, part: 25_000)
        var left = 100_000
        for peer in 0..<count {
            // As much as it gets, the whole at first and then less.
            var step = 25_000
            while step > 0 { if !ledger.take(step, for: "\(peer)") { step /= 2 } }
            #expect(ledger.free >= left * 3 / 4)
            left = ledger.free
            _ = ledger.wait(peer, for: 25_000, of: "\(peer)")
        }
        #expect(ledger.take(left / 4, for: "new") == true)
        #expect(ledger.release(left / 4, of: "new") == [])
    }

    @Test func waitingClaimBlocksNoOtherPeer() {
        var ledger = Ledger(whole: 64, part: 16)
        #expect(ledger.take(16, for: "a") == true)
        _ = ledger.wait(14, for: 14, of: "b")
        #expect(ledger.take(12, for: "c") == true)
        // Neither of them fits beside the others.
        _ = ledger.wait(10, for: 10, of: "d")
        _ = ledger.wait(12, for: 12, of: "e")
        #expect(ledger.release(12, of: "c") == [10])
        #expect(ledger.release(10, of: "d") == [12])
        #expect(ledger.release(12, of: "e") == [])
        #expect(ledger.release(16, of: "a") == [14])
    }

    @Test func cancelledClaimAdmitsTheNext() {
        var ledger = Ledger(whole: 40, part: 10)
        #expect(ledger.take(6, for: "a") == true)
        let large = ledger.wait(10, for: 10, of: "a")
        _ = ledger.wait(3, for: 3, of: "a")
        _ = ledger.wait(1, for: 1, of: "a")
        #expect(ledger.cancel(large, of: "a") == [3, 1])
        #expect(ledger.cancel(large, of: "a") == nil)
        #expect(ledger.free == 30)
    }

    @Test func randomClaimsAreAllServed() {
        for seed in 0..<200 {
            var random = SeededGenerator(seed: UInt64(seed))
            var ledger = Ledger(whole: 160, part: 40)
            let peers = (0..<5).map { "\($0)" }
            var held: [(peer: String, amount: Int)] = []
            var waiting: [Int: (peer: String, amount: Int, ticket: UInt64)] = [:]
            func serve(_ served: [Int]) {
                for name in served {
                    guard let claim = waiting.removeValue(forKey: name) else { return #expect(Bool(false), "seed \(seed)") }
                    held.append((claim.peer, claim.amount))
                }
            }
            for name in 0..<300 {
                let peer = peers[Int.random(in: 0..<5, using: &random)]
                let amount = Int.random(in: 1...40, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0, 1:
                    if ledger.take(amount, for: peer) {
                        held.append((peer, amount))
                    } else {
                        waiting[name] = (peer, amount, ledger.wait(name, for: amount, of: peer))
                    }
                case 2 where !held.isEmpty:
                    let one = held.remove(at: Int.random(in: 0..<held.count, using: &random))
                    serve(ledger.release(one.amount, of: one.peer))
                case 3 where !waiting.isEmpty:
                    guard let name = waiting.keys.sorted().randomElement(using: &random), let claim = waiting.removeValue(forKey: name)
                    else {
                        break
                    }
                    serve(ledger.cancel(claim.ticket, of: claim.peer) ?? [-1])
                default: break
                }
                #expect(ledger.free == 160 - held.reduce(0) { $0 + $1.amount }, "seed \(seed)")
                for peer in peers { #expect(held.filter { $0.peer == peer }.reduce(0) { $0 + $1.amount } <= 40, "seed \(seed)") }
                #expect(ledger.free > 0, "seed \(seed)")
            }
            while let one = held.popLast() { serve(ledger.release(one.amount, of: one.peer)) }
            #expect(waiting.isEmpty, "seed \(seed)")
            #expect(ledger.free == 160 && ledger.activeCount == 0, "seed \(seed)")
        }
    }

    @Test func taskWaitsForItsAmountOrIsCancelled() async {
        let budget = SharedBudget(whole: 40, part: 10)
        let (one, same) = (budget.share(of: Self.peer), budget.share(of: Self.peer))
        #expect(await one.take(10))
        let cancelled = Task { await same.take(5) }
        let waiting = Task { await same.take(5) }
        cancelled.cancel()
        #expect(await !cancelled.value)
        one.release(10)
        #expect(await waiting.value)
        #expect(budget.free == 35)
        same.release(5)
        #expect(budget.free == 40)
    }

    private static let peer = EndpointID(P256SigningKey().publicKey)
}
