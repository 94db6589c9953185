// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension SharedBudget {
    /// Who has how much of a budget, and who waits for more.
    ///
    /// Claims of a share are served in order. A share whose first claim is above its part waits for itself alone; the others wait for the
    /// whole in one line, so that many small claims do not keep a large one waiting for ever.
    struct Ledger<Waiter: Sendable>: Sendable {
        private struct Claim {
            let amount: Int
            let waiter: Waiter
        }

        private struct Account {
            var used = 0
            var claims = WaitingLine<Claim>()
            /// In the line of those that wait for the whole.
            var place: WaitingLine<ShareID>.Ticket?
        }

        private(set) var free: Int
        private(set) var part: Int
        private var accounts: [ShareID: Account] = [:]
        private var line = WaitingLine<ShareID>()
        private var lastShare: ShareID = 0

        init(whole: Int, part: Int) {
            free = whole
            self.part = min(whole, part)
        }

        /// Shares that have something, or wait.
        var activeCount: Int { accounts.count }

        mutating func makeShare() -> ShareID {
            lastShare += 1
            return lastShare
        }

        /// Takes the amount unless it has to wait.
        mutating func take(_ amount: Int, for share: ShareID) -> Bool {
            let account = accounts[share]
            guard line.isEmpty, account?.claims.isEmpty ?? true, amount <= part - (account?.used ?? 0), amount <= free else { return false }
            free -= amount
            accounts[share, default: Account()].used += amount
            return true
        }

        /// A claim for at most a share's part, behind the others of the share.
        mutating func wait(_ waiter: Waiter, for amount: Int, of share: ShareID) -> Ticket {
            let ticket = accounts[share, default: Account()].claims.append(Claim(amount: amount, waiter: waiter))
            lineUp(share)
            return ticket
        }

        /// Takes a claim back.
        /// - Returns: The claims that are served by that; `nil` if the claim itself was served before.
        mutating func cancel(_ ticket: Ticket, of share: ShareID) -> [Waiter]? {
            let wasFirst = accounts[share]?.claims.first?.ticket == ticket
            guard accounts[share]?.claims.remove(ticket) != nil else { return nil }
            if wasFirst, let place = accounts[share]?.place {
                line.remove(place)
                accounts[share]?.place = nil
            }
            lineUp(share)
            return serve()
        }

        /// Gives back what was taken.
        /// - Returns: The claims that are served by that.
        mutating func release(_ amount: Int, of share: ShareID) -> [Waiter] {
            free += amount
            accounts[share]?.used -= amount
            lineUp(share)
            return serve()
        }

        /// Makes the whole, and every part, larger.
        mutating func grow(by amount: Int) -> [Waiter] {
            free += amount
            part += amount
            for share in accounts.keys { lineUp(share) }
            return serve()
        }

        private mutating func lineUp(_ share: ShareID) {
            guard let first = accounts[share]?.claims.first, let account = accounts[share] else {
                if accounts[share]?.used == 0 { accounts[share] = nil }
                return
            }
            guard account.place == nil, first.element.amount <= part - account.used else { return }
            accounts[share]?.place = line.append(share)
        }

        private mutating func serve() -> [Waiter] {
            var served: [Waiter] = []
            while let (place, share) = line.first, let (ticket, claim) = accounts[share]?.claims.first, claim.amount <= free {
                line.remove(place)
                accounts[share]?.place = nil
                accounts[share]?.claims.remove(ticket)
                accounts[share]?.used += claim.amount
                free -= claim.amount
                served.append(claim.waiter)
                lineUp(share)
            }
            return served
        }
    }
}
