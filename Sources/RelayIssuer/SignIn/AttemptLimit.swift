// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// What is counted under a name.
package struct Attempts: Hashable, Sendable {
    /// An hour after this time they are forgotten.
    package static let memory: Int64 = 3_600_000

    package var count: Int
    /// When the last one was made; of a limit for each hour, the first one.
    package var time: Milliseconds
    /// Until then, no other one may be made.
    package var blockedUntil: Milliseconds

    package init(count: Int = 0, time: Milliseconds, blockedUntil: Milliseconds = 0) {
        self.count = count
        self.time = time
        self.blockedUntil = blockedUntil
    }
}

/// A limit of attempts under a name. The store counts, so that the attempts at all nodes count together, also after a restart.
struct AttemptLimit: Sendable {
    static let free = 5
    static let longestWait: Int64 = 900_000

    enum Rule: Hashable, Sendable {
        /// The first attempts have no delay. Then each failure doubles the wait, from one second to fifteen minutes.
        case growingWaits(free: Int)
        /// A number of attempts in an hour, which starts with the first one.
        case perHour(Int)
    }

    /// What the success of an attempt does to those that are counted.
    enum Success: Hashable, Sendable {
        case forgetsAll, takesOneBack, changesNothing
    }

    /// The digest of the name. It has a fixed size, and does not show an address.
    let id: Digest256
    let rule: Rule
    let success: Success

    /// - Parameter kind: What is counted. It has no line break.
    init(_ kind: String, _ name: String, _ rule: Rule = .growingWaits(free: free), success: Success = .changesNothing) {
        self.id = Digest256(hashing: Array("\(kind)\n\(name)".utf8))
        self.rule = rule
        self.success = success
    }

    private func current(_ attempts: Attempts?, now: Milliseconds) -> Attempts {
        // A time before that of the attempts forgets none, because requests can overtake each other.
        guard let attempts, abs(now.count - attempts.time.count) < Attempts.memory else { return Attempts(time: now) }
        return attempts
    }

    /// - Returns: `nil` if one more attempt may be made; otherwise the time to wait.
    func wait(after attempts: Attempts?, now: Milliseconds) -> Milliseconds? {
        let end = current(attempts, now: now).blockedUntil
        guard now < end else { return nil }
        // A clock that was set back does not make the wait longer.
        let longest = if case .growingWaits = rule { Self.longestWait } else { Attempts.memory }
        return Milliseconds(clamping: min(end.count - now.count, longest))
    }

    /// Adds an attempt, as failed.
    func adding(to attempts: Attempts?, now: Milliseconds) -> Attempts {
        var attempts = current(attempts, now: now)
        // The store is not trusted.
        attempts.count = min(max(attempts.count, 0), Int.max - 1) + 1
        switch rule {
        case .growingWaits(let free):
            attempts.time = max(attempts.time, now)
            guard attempts.count >= free else { break }
            let wait = min(Self.longestWait, 1_000 << Int64(min(attempts.count - free, 20)))
            attempts.blockedUntil = Milliseconds(clamping: now.count + wait)
        case .perHour(let most):
            guard attempts.count >= most else { break }
            attempts.blockedUntil = Milliseconds(clamping: attempts.time.count + Attempts.memory)
        }
        return attempts
    }
}

extension IssuerContext {
    /// Counts an attempt under all names or under none, before it is made, so that concurrent attempts cannot exceed the limits.
    /// - Throws: 429 if it may not be made. If it cannot be counted, it may not be made either.
    func countAttempt(_ limits: [AttemptLimit]) async throws(OAuthError) {
        let now = now()
        // In one order, so that two transactions do not wait for each other.
        let limits = limits.sorted { $0.id.bytes.lexicographicallyPrecedes($1.id.bytes) }
        let wait = try await answering { () async throws(IssuerError) in
            try await store.count { rows -> Milliseconds? in
                // An attempt that is refused writes nothing.
                let known = try limits.compactMap { $0.wait(after: try rows.attempts($0.id), now: now) }
                if let longest = known.max() { return longest }
                let held = try limits.map { try rows.heldAttempts($0.id, now: now) }
                if let longest = zip(limits, held).compactMap({ $0.wait(after: $1, now: now) }).max() { return longest }
                for (limit, attempts) in zip(limits, held) { try rows.set(limit.adding(to: attempts, now: now), limit.id) }
                return nil
            }
        }
        if let wait { throw .tooManyAttempts(wait) }
    }

    /// Forgives failures after a success. If that cannot be stored, they stay counted.
    func attemptSucceeded(_ limits: [AttemptLimit]) async {
        let limits = limits.sorted { $0.id.bytes.lexicographicallyPrecedes($1.id.bytes) }
        _ = try? await answering { () async throws(IssuerError) in
            try await store.count { rows in
                for limit in limits {
                    switch limit.success {
                    case .forgetsAll: try rows.removeAttempts(limit.id)
                    case .takesOneBack: try rows.takeAttemptBack(limit.id)
                    case .changesNothing: break
                    }
                }
            }
        }
    }
}
