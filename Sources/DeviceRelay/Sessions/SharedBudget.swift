// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// Something of which there is so much for all, and for each share at most a part: the memory that all sessions of an endpoint have, in
/// bytes, or the handlers of a service that run at once. Who comes first is served first.
package final class SharedBudget: Sendable {
    package typealias Ticket = UInt64
    typealias ShareID = UInt64
    private typealias Waiter = @Sendable () -> Void

    private let ledger: Mutex<Ledger<Waiter>>

    package init(whole: Int, part: Int) { ledger = Mutex(Ledger(whole: whole, part: part)) }

    /// What is free now.
    package var free: Int { ledger.withLock(\.free) }

    /// Something that takes of it.
    func makeShare() -> Share { Share(budget: self, id: ledger.withLock { $0.makeShare() }) }

    /// Makes it larger; each share's part too.
    func grow(by amount: Int) { serve { $0.grow(by: amount) } }

    private func serve(_ change: (inout Ledger<Waiter>) -> [Waiter]) {
        for waiter in ledger.withLock({ change(&$0) }) { waiter() }
    }

    /// One that takes of a budget, and waits for its turn.
    struct Share: Sendable {
        fileprivate let budget: SharedBudget
        fileprivate let id: ShareID

        /// What it can have at all.
        var part: Int { budget.ledger.withLock(\.part) }

        /// Takes the amount unless it has to wait.
        func takeAtOnce(_ amount: Int) -> Bool { budget.ledger.withLock { $0.take(amount, for: id) } }

        /// Takes the amount, which is at most its part.
        /// - Returns: `nil` if it is taken, else a place in the line; then the closure is called when it is.
        func take(_ amount: Int, isAvailable: @escaping @Sendable () -> Void) -> Ticket? {
            budget.ledger.withLock { ledger in
                ledger.take(amount, for: id) ? nil : ledger.wait(isAvailable, for: amount, of: id)
            }
        }

        /// Takes the amount, which is at most its part, when it is its turn.
        /// - Returns: False if the task is cancelled before.
        func take(_ amount: Int) async -> Bool {
            let taken = OneShot<Bool>()
            guard let ticket = take(amount, isAvailable: { taken.settle(true) }) else { return true }
            if await taken.wait() != nil { return true }
            if !cancel(ticket) { release(amount) }
            return false
        }

        /// Leaves the line.
        /// - Returns: False if the amount was taken before.
        @discardableResult
        func cancel(_ ticket: Ticket) -> Bool {
            let served: [Waiter]? = budget.ledger.withLock { $0.cancel(ticket, of: id) }
            for waiter in served ?? [] { waiter() }
            return served != nil
        }

        /// Gives back what was taken.
        func release(_ amount: Int) { budget.serve { $0.release(amount, of: id) } }
    }
}
