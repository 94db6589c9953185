// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// A time to wait for. It is stored, so it is a time of the system's clock, which can go back: the wait then begins anew and is no longer
/// than it was.
struct StoredWait: Hashable, Sendable {
    var since: Date
    var until: Date

    /// In seconds.
    func left(at now: Date) -> TimeInterval { now < since ? until.timeIntervalSince(since) : max(0, until.timeIntervalSince(now)) }

    /// Begins it anew if the clock has gone back.
    mutating func adjust(at now: Date) {
        guard now < since else { return }
        self = StoredWait(since: now, until: now + until.timeIntervalSince(since))
    }
}

/// What becomes of one message for one webhook. It has no clock and no connection: the sender tells it the time and what happened.
enum WebhookDelivery: Hashable, Sendable {
    /// It is sent after a time.
    /// - attempts: how many there were.
    case waiting(StoredWait, attempts: Int)
    /// It is on its way.
    /// - attempts: how many there were, with this one.
    case sending(since: Date, attempts: Int)
    /// The receiver has it.
    case delivered(Date, attempts: Int)
    /// It is not sent any more.
    case abandoned(Date, attempts: Int)

    /// The pause before each attempt, in seconds, as Standard Webhooks proposes.
    static let schedule: [TimeInterval] = [0, 5, 5 * 60, 30 * 60, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour]
    private static let hour: TimeInterval = 3_600
    /// The longest pause that a receiver can ask for, in seconds.
    static let longestPause = 24 * hour

    /// What a receiver said.
    enum Answer: Hashable, Sendable {
        /// - retryAfter: in seconds.
        case status(Int, retryAfter: TimeInterval?)
        /// It was not reached, or gave no answer in time.
        case nothing
    }

    /// What an answer means for the webhook.
    enum Effect: Hashable, Sendable {
        case nothing
        /// Its receiver wants no message until then.
        case pause(StoredWait)
        /// Its receiver wants no message ever.
        case end
    }

    static func new(at now: Date) -> WebhookDelivery { .waiting(StoredWait(since: now, until: now), attempts: 0) }

    var attempts: Int {
        switch self {
        case .waiting(_, let attempts), .sending(_, let attempts), .delivered(_, let attempts), .abandoned(_, let attempts): attempts
        }
    }

    /// How long it waits, in seconds; `nil` if it does not.
    func left(at now: Date) -> TimeInterval? {
        guard case .waiting(let wait, _) = self else { return nil }
        return wait.left(at: now)
    }

    /// Begins an attempt.
    /// - Returns: Whether its time has come.
    mutating func begin(at now: Date) -> Bool {
        guard case .waiting(let wait, let attempts) = self, wait.left(at: now) == 0 else { return false }
        self = .sending(since: now, attempts: min(attempts, Self.schedule.count) + 1)
        return true
    }

    /// Repairs what was stored: after a crash during an attempt, which then does not count, and after the clock has gone back.
    mutating func adjust(at now: Date) {
        switch self {
        case .sending(_, let attempts): self = .waiting(StoredWait(since: now, until: now), attempts: max(1, attempts) - 1)
        case .waiting(var wait, let attempts):
            wait.adjust(at: now)
            self = .waiting(wait, attempts: attempts)
        case .delivered, .abandoned: break
        }
    }

    /// Ends an attempt.
    mutating func end(_ answer: Answer, at now: Date) -> Effect {
        guard case .sending(_, let attempts) = self else { return .nothing }
        var pause: TimeInterval?
        switch answer {
        case .status(200..<300, _):
            self = .delivered(now, attempts: attempts)
            return .nothing
        case .status(410, _):
            self = .abandoned(now, attempts: attempts)
            return .end
        case .status(_, let retryAfter): pause = retryAfter.map { min(max(0, $0), Self.longestPause) }
        case .nothing: break
        }
        if Self.schedule.indices.contains(attempts) {
            let delay = max(Self.schedule[attempts], pause ?? 0)
            self = .waiting(StoredWait(since: now, until: now + delay), attempts: attempts)
        } else {
            self = .abandoned(now, attempts: attempts)
        }
        return pause.map { .pause(StoredWait(since: now, until: now + $0)) } ?? .nothing
    }
}
