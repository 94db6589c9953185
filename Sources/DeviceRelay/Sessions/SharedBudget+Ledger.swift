// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension SharedBudget {
    /// Which peer has how much of a budget, and who waits for more.
    ///
    /// Claims of a peer are served in order. Those of different peers are served as they fit, the earliest first: were they to wait for each
    /// other, a peer could hold all up with a claim that never fits. The price is that smaller claims may pass a large one.
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
        /// Peers with claims, in the order in which they are looked at. None of their first claims fits now.
        private var waiting: [Peer] = []

        init(whole: Int, part: Int) {
            free = whole
            self.part = min(whole / 4, part)
        }

        /// Peers that have something, or wait.
        var activeCount: Int { accounts.count }

        /// Whether a peer that holds `used` may have more: then it holds at most its part, and a quarter of what the others leave.
        private func fits(_ amount: Int, used: Int) -> Bool {
            amount <= part - used && used + amount <= (free + used) / 4
        }

        /// Takes the amount unless it has to wait.
        mutating func take(_ amount: Int, for peer: Peer) -> Bool {
            let account = accounts[peer]
            guard account?.claims.isEmpty ?? true, fits(amount, used: account?.used ?? 0) else { return false }
            free -= amount
            accounts[peer, default: Account()].used += amount
            return true
        }

        /// A claim for at most the part, behind the others of the peer.
        mutating func wait(_ waiter: Waiter, for amount: Int, of peer: Peer) -> Ticket {
            let isFirst = accounts[peer]?.claims.isEmpty ?? true
            if isFirst { waiting.append(peer) }
            return accounts[peer, default: Account()].claims.append(Claim(amount: amount, waiter: waiter))
        }

        /// Takes a claim back.
        /// - Returns: The claims that are served by that; `nil` if the claim itself was served before.
        mutating func cancel(_ ticket: Ticket, of peer: Peer) -> [Waiter]? {
            guard accounts[peer]?.claims.remove(ticket) != nil else { return nil }
            if accounts[peer]?.claims.isEmpty == true { waiting.removeAll { $0 == peer } }
            forgetIfEmpty(peer)
            return serve()
        }

        /// Gives back what was taken.
        /// - Returns: The claims that are served by that.
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
            // What does not fit does not fit later in this pass either: there is only less.
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
                // Its next claim comes after those of the others.
                if accounts[peer]?.claims.isEmpty == false { waiting.append(peer) }
            }
            return served
        }
    }
}
