// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOPosix
import RelayProtocol
import Synchronization

/// Hashes passwords on threads of its own, so that neither the event loops nor the threads of Swift's tasks wait for a hash. At most two
/// hashes run at a time, the queue is short, and one client has few places in it. Sign-ins can thus neither fill the memory nor starve the
/// rest of the process. New and known clients have separate places, and alternate.
final class PasswordHasher: Sendable {
    /// The client that requests a hash.
    struct Client: Hashable, Sendable {
        let name: String
        /// Whether the client has authenticated before.
        var isKnown = false
    }

    /// The places for running and waiting hashes.
    struct Queue<Waiter> {
        let running: Int
        /// The number of places for new clients. Known clients have the same number.
        let places: Int
        let placesPerClient: Int

        private var active = 0
        private var clients: [Client: Int] = [:]
        private var new = Lane()
        private var known = Lane()
        private var lastWasKnown = false

        private struct Lane {
            var taken = 0
            var waiting: [Waiter] = []
        }

        init(running: Int = 2, places: Int = 8, placesPerClient: Int = 2) {
            self.running = running
            self.places = places
            self.placesPerClient = placesPerClient
        }

        /// Takes a place.
        /// - Returns: Whether there was one.
        mutating func enter(_ client: Client) -> Bool {
            let taken = client.isKnown ? known.taken : new.taken
            guard taken < places, clients[client, default: 0] < placesPerClient else { return false }
            clients[client, default: 0] += 1
            if client.isKnown { known.taken += 1 } else { new.taken += 1 }
            return true
        }

        /// Frees the place of a client whose hash does not begin.
        mutating func leaveUnused(_ client: Client) {
            clients[client] = clients[client].flatMap { $0 > 1 ? $0 - 1 : nil }
            if client.isKnown { known.taken -= 1 } else { new.taken -= 1 }
        }

        /// Begins the hash of a client that has a place.
        /// - Returns: Whether it starts now. Otherwise `wait` must be called.
        mutating func begin() -> Bool {
            guard active < running else { return false }
            active += 1
            return true
        }

        /// Adds a waiter.
        mutating func wait(_ waiter: Waiter, of client: Client) {
            if client.isKnown { known.waiting.append(waiter) } else { new.waiting.append(waiter) }
        }

        /// Frees the place of a client whose hash has ended.
        /// - Returns: The waiter that starts now.
        mutating func leave(_ client: Client) -> Waiter? {
            leaveUnused(client)
            // New and known clients alternate, so that neither kind starves the other.
            lastWasKnown = !known.waiting.isEmpty && (new.waiting.isEmpty || !lastWasKnown)
            if lastWasKnown { return known.waiting.removeFirst() }
            guard new.waiting.isEmpty else { return new.waiting.removeFirst() }
            active -= 1
            return nil
        }
    }

    /// Why a request for a hash is rejected.
    enum Rejection: Error, Hashable {
        /// All places are taken.
        case busy
        /// The caller did not admit it.
        case refused(OAuthError)
    }

    private let threads: NIOThreadPool
    private let queue: Mutex<Queue<CheckedContinuation<Void, Never>>>
    let cost: PasswordHash.Cost
    /// The hash that is compared for an unknown user, so that the answer takes as long as for a known user.
    private let decoy: PasswordHash

    init(cost: PasswordHash.Cost, queue: sending Queue<CheckedContinuation<Void, Never>> = .init()) {
        self.cost = cost
        self.threads = NIOThreadPool(numberOfThreads: queue.running)
        self.queue = Mutex(queue)
        self.decoy = PasswordHash(decoyOf: cost)
        threads.start()
    }

    deinit { threads.shutdownGracefully { _ in } }

    func hash(_ password: Secret<String>, for client: Client) async throws(Rejection) -> PasswordHash {
        try await run(client) { [cost] in PasswordHash(password, cost: cost) }
    }

    /// - Parameters:
    ///   - hash: `nil` for a user that does not exist, or has no password.
    ///   - admit: Counts the attempt once there is a place, so that each counted attempt costs a hash. If it throws, the attempt is
    ///     rejected.
    func matches(
        _ password: Secret<String>,
        _ hash: PasswordHash?,
        for client: Client,
        admit: () async throws(OAuthError) -> Void
    ) async throws(Rejection) -> Bool {
        let (compared, isKnown) = (hash ?? decoy, hash != nil)
        return try await run(client, admit: admit) { compared.matches(password) } && isKnown
    }

    func run<Result: Sendable>(
        _ client: Client,
        admit: () async throws(OAuthError) -> Void = {},
        _ work: @escaping @Sendable () -> Result
    ) async throws(Rejection) -> Result {
        guard queue.withLock({ $0.enter(client) }) else { throw .busy }
        do throws(OAuthError) {
            try await admit()
        } catch {
            queue.withLock { $0.leaveUnused(client) }
            throw .refused(error)
        }
        await withCheckedContinuation { continuation in
            let mayStart = queue.withLock { queue in
                if queue.begin() { return true }
                queue.wait(continuation, of: client)
                return false
            }
            if mayStart { continuation.resume() }
        }
        let result = await withCheckedContinuation { continuation in
            threads.submit { _ in continuation.resume(returning: work()) }
        }
        queue.withLock { $0.leave(client) }?.resume()
        return result
    }
}
