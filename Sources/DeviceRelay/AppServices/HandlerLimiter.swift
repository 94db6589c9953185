// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// Limits how many handlers of one service run at once for one session, over all its connections. No budget counts the memory of their
/// results, so the number of handlers must not grow with the number of connections that a peer opens.
final class HandlerLimiter: Sendable {
    /// The limit, unless the service's app asks for more.
    static let defaultLimit = 32

    private struct State {
        var limit = defaultLimit
        var running = 0
        var waiters = RemovableQueue<OneShot<Bool>>()

        mutating func acquire() -> Bool {
            guard running < limit else { return false }
            running += 1
            return true
        }

        /// Starts the first waiter if the limit permits.
        mutating func next() -> OneShot<Bool>? {
            guard running < limit, let waiter = waiters.popFirst() else { return nil }
            running += 1
            return waiter
        }
    }

    private let state = Mutex(State())

    /// Raises the limit to the number that an app requests for one connection.
    func raise(to limit: Int) {
        let waiters = state.withLock { state in
            state.limit = max(state.limit, limit)
            var waiters: [OneShot<Bool>] = []
            while let waiter = state.next() { waiters.append(waiter) }
            return waiters
        }
        for waiter in waiters { waiter.settle(true) }
    }

    /// Takes a slot without waiting. If it returns true, the caller must call `release`.
    func acquireAtOnce() -> Bool { state.withLock { $0.acquire() } }

    /// Waits for a slot. If it returns true, the caller must call `release`.
    /// - Returns: False if the task is cancelled before.
    func acquire() async -> Bool {
        let waiter = OneShot<Bool>()
        let ticket: UInt64? = state.withLock { $0.acquire() ? nil : $0.waiters.append(waiter) }
        guard let ticket else { return true }
        if await waiter.wait() != nil { return true }
        let hasLeft = state.withLock { $0.waiters.remove(ticket) != nil }
        if !hasLeft { release() }
        return false
    }

    /// Returns a slot after a handler ended.
    func release() {
        let waiter = state.withLock { state in
            state.running -= 1
            return state.next()
        }
        waiter?.settle(true)
    }

    /// The limiters of a session. A limiter lives as long as a connection or a running handler of its service, so a handler counts even
    /// after its connection has closed.
    struct Table {
        private struct Key: Hashable {
            let info: AppServiceInfo
            let isOffered: Bool
        }

        private struct Entry {
            weak var limiter: HandlerLimiter?
        }

        private var entries: [Key: Entry] = [:]

        /// - Parameter isOffered: Whether the peer opened the connection.
        mutating func limiter(for info: AppServiceInfo, isOffered: Bool) -> HandlerLimiter {
            let key = Key(info: info, isOffered: isOffered)
            if let limiter = entries[key]?.limiter { return limiter }
            // A peer may use any service name, so unused entries are removed.
            entries = entries.filter { $0.value.limiter != nil }
            let limiter = HandlerLimiter()
            entries[key] = Entry(limiter: limiter)
            return limiter
        }
    }
}
