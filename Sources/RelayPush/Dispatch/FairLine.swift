// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Wakes of one class that can be sent. Accounts are served in rotation, so that one with many wakes delays no other. Each account's oldest wake is first.
struct FairLine {
    private var lines: [WakeAccount: Fifo<WakeQueue.Ticket>] = [:]
    /// Each account with tickets, once.
    private var turns = Fifo<WakeAccount>()
    private(set) var count = 0

    /// - Parameter isFirst: Before all that wait.
    mutating func insert(_ ticket: WakeQueue.Ticket, of account: WakeAccount, isFirst: Bool) {
        if lines[account] == nil { isFirst ? turns.prepend(account) : turns.append(account) }
        if isFirst {
            lines[account, default: Fifo()].prepend(ticket)
        } else {
            lines[account, default: Fifo()].append(ticket)
        }
        count += 1
    }

    /// - Parameter maySend: Whether an account's first one may be sent now. Other accounts are passed over and keep their order.
    mutating func removeFirst(where maySend: (WakeQueue.Ticket) -> Bool) -> WakeQueue.Ticket? {
        for _ in 0..<turns.count {
            guard let account = turns.removeFirst() else { return nil }
            guard let first = lines[account]?.first, maySend(first) else {
                turns.append(account)
                continue
            }
            let ticket = lines[account]?.removeFirst()
            if lines[account]?.isEmpty == false {
                turns.append(account)
            } else {
                lines[account] = nil
            }
            count -= 1
            return ticket
        }
        return nil
    }

    mutating func removeAll(where isVoid: (WakeQueue.Ticket) -> Bool) {
        for account in Array(lines.keys) {
            lines[account]?.removeAll(where: isVoid)
            if lines[account]?.isEmpty == true { lines[account] = nil }
        }
        turns.removeAll { lines[$0] == nil }
        count = lines.values.reduce(0) { $0 + $1.count }
    }
}
