// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayCollections
import RelayProtocol

/// The circuit breaker of one service, and the queued wakes that can be sent to it. It does no I/O and reads no clock.
struct ServiceLine {
    var breaker: CircuitBreaker
    private var urgent = FairQueue<WakeAccount, WakeQueue.Ticket>()
    private var background = FairQueue<WakeAccount, WakeQueue.Ticket>()

    init(limit: Int) { breaker = CircuitBreaker(.credential, limit: limit) }

    var readyCount: Int { urgent.count + background.count }
    var hasReady: Bool { readyCount > 0 }

    func canSend(at now: Milliseconds) -> Bool { hasReady && breaker.hasRoom && breaker.pausedUntil <= now }

    /// - Parameter isFirst: Whether the ticket goes before the account's other tickets of the same class.
    mutating func insert(_ ticket: WakeQueue.Ticket, of account: WakeAccount, isFirst: Bool) {
        func insert(into queue: inout FairQueue<WakeAccount, WakeQueue.Ticket>) {
            isFirst ? queue.prepend(ticket, of: account) : queue.append(ticket, of: account)
        }
        switch ticket.key.urgency {
        case .urgent: insert(into: &urgent)
        case .background: insert(into: &background)
        }
    }

    /// Removes void tickets once they are the majority.
    mutating func removeVoid(where isVoid: (WakeQueue.Ticket) -> Bool) {
        guard readyCount > 2 * breaker.outstanding + 64 else { return }
        urgent.removeAll(where: isVoid)
        background.removeAll(where: isVoid)
    }

    /// Removes the next ticket that may be sent. Urgent wakes go first, because a person waits for them.
    /// - Parameter maySend: Whether an account's first ticket may be sent now.
    mutating func removeFirst(where maySend: (WakeQueue.Ticket) -> Bool) -> WakeQueue.Ticket? {
        urgent.removeFirst(where: maySend) ?? background.removeFirst(where: maySend)
    }
}
