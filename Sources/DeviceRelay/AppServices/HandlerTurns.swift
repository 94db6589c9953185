// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// How many handlers of one service run at once for one session, over all its connections. What they return is memory that no other budget
/// counts, so a peer must not be able to start any number of them by opening connections.
final class HandlerTurns: Sendable {
    /// So many, unless the service's app asks for more.
    static let usual = 32

    private let budget = SharedBudget(whole: usual, part: usual)
    private let share: SharedBudget.Share
    private let most = Mutex(usual)

    init() { share = budget.makeShare() }

    /// An app that wants so many at once on one connection gets them.
    func allow(_ count: Int) {
        let more = most.withLock { most in
            let before = most
            most = max(most, min(count, 1 << 30))
            return most - before
        }
        if more > 0 { budget.grow(by: more) }
    }

    /// Whether a handler may run now; then `end` follows.
    func beginAtOnce() -> Bool { share.takeAtOnce(1) }

    /// Waits until a handler may run. Returns false if the task is cancelled before.
    func begin() async -> Bool { await share.take(1) }

    func end() { share.release(1) }

    /// Those of a session. They live as long as a connection or a handler of the service does, also when the connection has gone.
    struct Table {
        private struct Key: Hashable {
            let info: AppServiceInfo
            let isOffered: Bool
        }

        private struct Entry {
            weak var turns: HandlerTurns?
        }

        private var entries: [Key: Entry] = [:]

        /// - Parameter isOffered: Whether the peer opened the connection.
        mutating func turns(for info: AppServiceInfo, isOffered: Bool) -> HandlerTurns {
            let key = Key(info: info, isOffered: isOffered)
            if let turns = entries[key]?.turns { return turns }
            // A peer names what it likes.
            entries = entries.filter { $0.value.turns != nil }
            let turns = HandlerTurns()
            entries[key] = Entry(turns: turns)
            return turns
        }
    }
}
