// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The decisions of a device that waits for its user to allow it (RFC 8628 §3.4, §3.5), without I/O. Times are milliseconds since the
/// issuer's answer to the first request.
struct DeviceGrantPolling: Hashable, Sendable {
    /// The intervals that are accepted. A longer one of an issuer is shortened.
    static let intervals: ClosedRange<Int64> = 1_000...60_000
    /// The longest time that the user gets.
    static let maximumLife: Int64 = 1_800_000

    /// The answer to a request for tokens.
    enum Answer: Hashable, Sendable {
        case granted
        case pending
        case slowDown
        case denied
        case expired
        /// There was no answer, or the issuer could not serve the request now.
        case unavailable
    }

    enum Step: Hashable, Sendable {
        /// Ask the issuer at this time.
        case ask(at: Int64)
        case end(Outcome)
    }

    enum Outcome: Hashable, Sendable {
        case granted, denied, expired
    }

    let ends: Int64
    private var interval: Int64
    /// The interval while the issuer is not available: it doubles with each request.
    private var patience: Int64

    /// - Parameters:
    ///   - life: `expires_in`, in seconds.
    ///   - interval: `interval`, in seconds; the default is that of the standard.
    init(life: Double, interval: Double?) {
        ends = Self.clamped(life, to: 0...Self.maximumLife)
        self.interval = Self.clamped(interval ?? 5, to: Self.intervals)
        patience = self.interval
    }

    /// Seconds as milliseconds. A value that is no number becomes the lower bound.
    private static func clamped(_ seconds: Double, to range: ClosedRange<Int64>) -> Int64 {
        guard seconds * 1_000 > Double(range.lowerBound) else { return range.lowerBound }
        return Int64(min(seconds * 1_000, Double(range.upperBound)))
    }

    /// The first step.
    func begin() -> Step { next(after: interval, now: 0) }

    mutating func answered(_ answer: Answer, now: Int64) -> Step {
        switch answer {
        case .granted: return .end(.granted)
        case .denied: return .end(.denied)
        case .expired: return .end(.expired)
        case .unavailable:
            patience = min(patience * 2, Self.intervals.upperBound)
            return next(after: patience, now: now)
        case .slowDown: interval = min(interval + 5_000, Self.intervals.upperBound)
        case .pending: break
        }
        patience = interval
        return next(after: interval, now: now)
    }

    private func next(after delay: Int64, now: Int64) -> Step {
        guard now < ends else { return .end(.expired) }
        // The last request is at the end, so that a late decision counts.
        return .ask(at: min(now + delay, ends))
    }
}
