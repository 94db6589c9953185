// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DequeModule

/// The wakes of one class that can be sent. Accounts are served in rotation, so that one with many wakes delays no other. Within an
/// account, the oldest wake is first.
struct FairLine {
    private var lines: [WakeAccount: Deque<WakeQueue.Ticket>] = [:]
    /// The rotation: each account with tickets, once.
    private var turns = Deque<WakeAccount>()
    private(set) var count = 0

    /// - Parameter isFirst: Whether the ticket goes before the account's other tickets. An account without tickets then also goes first in
    ///   the rotation.
    mutating func insert(_ ticket: WakeQueue.Ticket, of account: WakeAccount, isFirst: Bool) {
        if lines[account] == nil { isFirst ? turns.prepend(account) : turns.append(account) }
        if isFirst {
            lines[account, default: []].prepend(ticket)
        } else {
            lines[account, default: []].append(ticket)
        }
        count += 1
    }

    /// Removes the first ticket of the next account that may send. Accounts that may not send go to the end of the rotation.
    /// - Parameter maySend: Whether an account's first ticket may be sent now.
    /// - Returns: `nil` if no account may send.
    mutating func removeFirst(where maySend: (WakeQueue.Ticket) -> Bool) -> WakeQueue.Ticket? {
        for _ in 0..<turns.count {
            guard let account = turns.popFirst() else { return nil }
            guard let first = lines[account]?.first, maySend(first) else {
                turns.append(account)
                continue
            }
            let ticket = lines[account]?.popFirst()
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
