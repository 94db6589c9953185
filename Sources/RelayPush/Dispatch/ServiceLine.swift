// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// One service that wakes are sent to with the same credential, and the wakes that can be sent to it. Without I/O and clock.
struct ServiceLine {
    var breaker: CircuitBreaker
    private var urgent = FairLine()
    private var background = FairLine()

    init(limit: Int) { breaker = CircuitBreaker(.credential, limit: limit) }

    var readyCount: Int { urgent.count + background.count }
    var hasReady: Bool { readyCount > 0 }

    func canSend(at now: Milliseconds) -> Bool { hasReady && breaker.hasRoom && breaker.pausedUntil <= now }

    /// - Parameter isFirst: Before those that wait.
    mutating func insert(_ ticket: WakeQueue.Ticket, of account: WakeAccount, isFirst: Bool) {
        switch ticket.key.urgency {
        case .urgent: urgent.insert(ticket, of: account, isFirst: isFirst)
        case .background: background.insert(ticket, of: account, isFirst: isFirst)
        }
    }

    /// Removes tickets that are void, once they are most.
    mutating func removeVoid(where isVoid: (WakeQueue.Ticket) -> Bool) {
        guard readyCount > 2 * breaker.outstanding + 64 else { return }
        urgent.removeAll(where: isVoid)
        background.removeAll(where: isVoid)
    }

    /// A person who waits goes first.
    /// - Parameter maySend: Whether an account's first one may be sent now.
    mutating func removeFirst(where maySend: (WakeQueue.Ticket) -> Bool) -> WakeQueue.Ticket? {
        urgent.removeFirst(where: maySend) ?? background.removeFirst(where: maySend)
    }
}
