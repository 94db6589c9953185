// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// Memory of an endpoint for one purpose, which its peers share. All sessions of a peer together hold at most the peer's part, and never more
/// than they leave free.
///
/// So `n` peers that take all they get leave 1/(n + 1) of the whole free, of which the next one gets half. A claim that has to wait holds up
/// later claims of the same peer alone.
package final class SharedBudget: Sendable {
    package typealias Ticket = UInt64
    private typealias Waiter = @Sendable () -> Void

    private let ledger: Mutex<Ledger<EndpointID, Waiter>>
    /// The most that one peer can hold.
    let part: Int

    /// - Parameters:
    ///   - whole: The bytes there are.
    ///   - part: The most that one peer may hold; more than half of the whole counts as half.
    package init(whole: Int, part: Int) {
        let ledger = Ledger<EndpointID, Waiter>(whole: whole, part: part)
        self.part = ledger.part
        self.ledger = Mutex(ledger)
    }

    /// What is free now.
    package var free: Int { ledger.withLock(\.free) }

    /// What a peer has of it.
    func share(of peer: EndpointID) -> Share { Share(budget: self, peer: peer) }

    private func release(_ amount: Int, of peer: EndpointID) {
        for waiter in ledger.withLock({ $0.release(amount, of: peer) }) { waiter() }
    }

    /// The share of a peer: all its sessions take from the same.
    struct Share: Sendable {
        fileprivate let budget: SharedBudget
        fileprivate let peer: EndpointID

        /// The most that it can hold.
        var part: Int { budget.part }

        /// Takes the amount unless it has to wait.
        func takeAtOnce(_ amount: Int) -> Bool { budget.ledger.withLock { $0.take(amount, for: peer) } }

        /// Takes the amount, which is at most the part.
        /// - Returns: `nil` if it is taken. Otherwise it is taken later, and then the closure is called.
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

        /// Takes a claim back.
        /// - Returns: False if the amount was taken before.
        @discardableResult
        func cancel(_ ticket: Ticket) -> Bool {
            let served: [Waiter]? = budget.ledger.withLock { $0.cancel(ticket, of: peer) }
            for waiter in served ?? [] { waiter() }
            return served != nil
        }

        /// Gives back what was taken.
        func release(_ amount: Int) { budget.release(amount, of: peer) }
    }
}
