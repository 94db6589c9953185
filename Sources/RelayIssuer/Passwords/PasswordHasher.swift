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

        enum Entry: Hashable {
            case start
            case wait
            case refuse(Rejection)
        }

        /// - Parameter admit: Is called once there is a place. `nil` takes the place; a time rejects the request.
        mutating func enter(_ client: Client, admit: () -> Milliseconds? = { nil }) -> Entry {
            let taken = client.isKnown ? known.taken : new.taken
            guard taken < places, clients[client, default: 0] < placesPerClient else { return .refuse(.busy) }
            if let wait = admit() { return .refuse(.tooSoon(wait)) }
            clients[client, default: 0] += 1
            if client.isKnown { known.taken += 1 } else { new.taken += 1 }
            guard active < running else { return .wait }
            active += 1
            return .start
        }

        /// Adds a waiter. Must be called after `enter` returned `wait`.
        mutating func wait(_ waiter: Waiter, of client: Client) {
            if client.isKnown { known.waiting.append(waiter) } else { new.waiting.append(waiter) }
        }

        /// Frees the place of a client.
        /// - Returns: The waiter that starts now.
        mutating func leave(_ client: Client) -> Waiter? {
            clients[client] = clients[client].flatMap { $0 > 1 ? $0 - 1 : nil }
            if client.isKnown { known.taken -= 1 } else { new.taken -= 1 }
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
        /// The caller's limit is reached. The value is the time to wait.
        case tooSoon(Milliseconds)
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
    ///   - admit: Counts the attempt once there is a place, so that each counted attempt costs a hash. If it returns a time, the attempt is
    ///     rejected.
    func matches(
        _ password: Secret<String>,
        _ hash: PasswordHash?,
        for client: Client,
        admit: @Sendable () -> Milliseconds?
    ) async throws(Rejection) -> Bool {
        let (compared, isKnown) = (hash ?? decoy, hash != nil)
        return try await run(client, admit: admit) { compared.matches(password) } && isKnown
    }

    func run<Result: Sendable>(
        _ client: Client,
        admit: @Sendable () -> Milliseconds? = { nil },
        _ work: @escaping @Sendable () -> Result
    ) async throws(Rejection) -> Result {
        var rejection: Rejection?
        await withCheckedContinuation { continuation in
            let mayStart = queue.withLock { queue in
                switch queue.enter(client, admit: admit) {
                case .start: return true
                case .wait:
                    queue.wait(continuation, of: client)
                    return false
                case .refuse(let reason):
                    rejection = reason
                    return true
                }
            }
            if mayStart { continuation.resume() }
        }
        if let rejection { throw rejection }
        let result = await withCheckedContinuation { continuation in
            threads.submit { _ in continuation.resume(returning: work()) }
        }
        queue.withLock { $0.leave(client) }?.resume()
        return result
    }
}
