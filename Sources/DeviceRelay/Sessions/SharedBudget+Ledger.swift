// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension SharedBudget {
    /// The amounts of a budget that peers hold, and the claims that wait.
    ///
    /// Claims of one peer are served in order. Claims of different peers are served when they fit, the earliest first. If they waited for
    /// each other, a peer could block all others with a claim that never fits. The cost is that smaller claims may overtake a large one.
    struct Ledger<Peer: Hashable & Sendable, Waiter: Sendable>: Sendable {
        private struct Claim {
            let amount: Int
            let waiter: Waiter
        }

        private struct Account {
            var used = 0
            var claims = RemovableQueue<Claim>()

            var isEmpty: Bool { used == 0 && claims.isEmpty }
        }

        private(set) var free: Int
        let part: Int
        private var accounts: [Peer: Account] = [:]
        /// Peers with claims, in the order in which they are served. None of their first claims fits now.
        private var waiting: [Peer] = []

        init(whole: Int, part: Int) {
            free = whole
            self.part = min(whole / 4, part)
        }

        /// The number of peers that hold memory or wait.
        var activeCount: Int { accounts.count }

        /// Whether a peer that holds `used` may have more. Afterwards it may hold at most its part, and a quarter of what the other peers
        /// leave.
        private func fits(_ amount: Int, used: Int) -> Bool {
            amount <= part - used && used + amount <= (free + used) / 4
        }

        /// Takes the amount; false if it has to wait.
        mutating func take(_ amount: Int, for peer: Peer) -> Bool {
            let account = accounts[peer]
            guard account?.claims.isEmpty ?? true, fits(amount, used: account?.used ?? 0) else { return false }
            free -= amount
            accounts[peer, default: Account()].used += amount
            return true
        }

        /// Adds a claim for at most the part, after the peer's other claims.
        mutating func wait(_ waiter: Waiter, for amount: Int, of peer: Peer) -> Ticket {
            let isFirst = accounts[peer]?.claims.isEmpty ?? true
            if isFirst { waiting.append(peer) }
            return accounts[peer, default: Account()].claims.append(Claim(amount: amount, waiter: waiter))
        }

        /// Removes a claim.
        /// - Returns: The waiters whose claims are served now; `nil` if the claim itself was served before.
        mutating func cancel(_ ticket: Ticket, of peer: Peer) -> [Waiter]? {
            guard accounts[peer]?.claims.remove(ticket) != nil else { return nil }
            if accounts[peer]?.claims.isEmpty == true { waiting.removeAll { $0 == peer } }
            forgetIfEmpty(peer)
            return serve()
        }

        /// Returns memory to the budget.
        /// - Returns: The waiters whose claims are served now.
        mutating func release(_ amount: Int, of peer: Peer) -> [Waiter] {
            free += amount
            accounts[peer]?.used -= amount
            forgetIfEmpty(peer)
            return waiting.isEmpty ? [] : serve()
        }

        private mutating func forgetIfEmpty(_ peer: Peer) {
            if accounts[peer]?.isEmpty == true { accounts[peer] = nil }
        }

        private mutating func serve() -> [Waiter] {
            var served: [Waiter] = []
            // A claim that does not fit is not tested again in this pass, because the free amount only shrinks.
            var index = 0
            while index < waiting.count {
                let peer = waiting[index]
                guard let (ticket, claim) = accounts[peer]?.claims.first, fits(claim.amount, used: accounts[peer]?.used ?? 0) else {
                    index += 1
                    continue
                }
                waiting.remove(at: index)
                accounts[peer]?.claims.remove(ticket)
                accounts[peer]?.used += claim.amount
                free -= claim.amount
                served.append(claim.waiter)
                // The peer's next claim comes after the claims of the other peers.
                if accounts[peer]?.claims.isEmpty == false { waiting.append(peer) }
            }
            return served
        }
    }
}
