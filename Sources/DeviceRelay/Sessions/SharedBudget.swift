// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// A memory budget of an endpoint for one purpose, which its peers share. All sessions of a peer together get at most a quarter of what the
/// other peers leave.
///
/// So `n` peers that take their maximum leave (3/4)^n of the whole. A waiting claim delays only later claims of the same peer.
package final class SharedBudget: Sendable {
    package typealias Ticket = UInt64
    private typealias Waiter = @Sendable () -> Void

    private let ledger: Mutex<Ledger<EndpointID, Waiter>>
    /// The maximum for one peer, in bytes.
    let part: Int

    /// - Parameters:
    ///   - whole: The size of the budget, in bytes.
    ///   - part: The maximum for one peer, in bytes. It is at most a quarter of the whole.
    package init(whole: Int, part: Int) {
        let ledger = Ledger<EndpointID, Waiter>(whole: whole, part: part)
        self.part = ledger.part
        self.ledger = Mutex(ledger)
    }

    /// The free bytes.
    package var free: Int { ledger.withLock(\.free) }

    /// The share of a peer.
    func share(of peer: EndpointID) -> Share { Share(budget: self, peer: peer) }

    private func release(_ amount: Int, of peer: EndpointID) {
        for waiter in ledger.withLock({ $0.release(amount, of: peer) }) { waiter() }
    }

    /// The share of a peer, which all its sessions use.
    struct Share: Sendable {
        fileprivate let budget: SharedBudget
        fileprivate let peer: EndpointID

        /// The maximum that the peer can hold, in bytes.
        var part: Int { budget.part }

        /// Takes the amount; false if it has to wait.
        func takeAtOnce(_ amount: Int) -> Bool { budget.ledger.withLock { $0.take(amount, for: peer) } }

        /// Takes the amount, which is at most the part.
        /// - Returns: `nil` if the amount was taken. Otherwise it is taken later, and then the closure is called.
        func take(_ amount: Int, isAvailable: @escaping @Sendable () -> Void) -> Ticket? {
            budget.ledger.withLock { ledger in
                ledger.take(amount, for: peer) ? nil : ledger.wait(isAvailable, for: amount, of: peer)
            }
        }

        /// Waits for the amount, which is at most the part, and takes it.
        /// - Returns: False if the task is cancelled before.
        func take(_ amount: Int) async -> Bool {
            let taken = OneShot<Bool>()
            guard let ticket = take(amount, isAvailable: { taken.settle(true) }) else { return true }
            if await taken.wait() != nil { return true }
            if !cancel(ticket) { release(amount) }
            return false
        }

        /// Removes a claim.
        /// - Returns: False if the amount was taken before.
        @discardableResult
        func cancel(_ ticket: Ticket) -> Bool {
            let served: [Waiter]? = budget.ledger.withLock { $0.cancel(ticket, of: peer) }
            for waiter in served ?? [] { waiter() }
            return served != nil
        }

        /// Returns memory to the budget.
        func release(_ amount: Int) { budget.release(amount, of: peer) }
    }
}
