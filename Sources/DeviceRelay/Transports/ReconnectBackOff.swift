// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// When to dial the relay again. Full jitter: a random part of the time for which the relay has been away, so that its endpoints do
/// not all come back at once, and yet each comes before it has been away for twice as long.
struct ReconnectBackOff: Hashable, Sendable {
    static let ceilings: ClosedRange<Int64> = 500...15_000
    /// After so long without the relay…
    static let longAbsence: Int64 = 5 * 60_000
    /// …it is dialled less often.
    static let ceilingAfterLongAbsence: Int64 = 60_000
    /// A connection that lasts for less is no success.
    static let steady: Int64 = 30_000
    /// No relay keeps an endpoint away for longer, whatever it asks for.
    static let maximumWait: Int64 = 3_600_000

    /// Since when there is no relay.
    private var absence: Int64?
    /// The relay asked not to be dialled before this.
    private var notBefore: Int64?

    /// The relay asked for time.
    /// - Parameter spread: And for a random part of this, on top.
    mutating func asked(after: Int64, spread: Int64 = 0, now: Int64, random: inout some RandomNumberGenerator) {
        let spread = Int64.random(in: 0...min(max(spread, 0), Self.maximumWait), using: &random)
        let wait = min(min(max(after, 0), Self.maximumWait) + spread, Self.maximumWait)
        notBefore = max(notBefore ?? .min, now + wait)
    }

    /// An attempt failed, or a connection ended.
    /// - Parameter connected: Since when it was connected; `nil` if it never was.
    /// - Returns: When to dial.
    mutating func failed(connected: Int64?, now: Int64, random: inout some RandomNumberGenerator) -> Int64 {
        if let connected, now - connected >= Self.steady { self = ReconnectBackOff(notBefore: notBefore) }
        let absence = absence ?? now
        self.absence = absence
        let away = max(0, now - absence)
        let ceiling =
            away >= Self.longAbsence ? Self.ceilingAfterLongAbsence : min(max(away, Self.ceilings.lowerBound), Self.ceilings.upperBound)
        let jitter = Int64.random(in: 0...ceiling, using: &random)
        // On top of what the relay asked for, since it may have asked everybody for the same.
        return max(now, notBefore ?? .min) + jitter
    }

    /// The network changed: what was in the way may be gone. What the relay asked for still counts.
    mutating func networkChanged(now: Int64) -> Int64 {
        absence = nil
        return max(now, notBefore ?? .min)
    }

    init() {}

    private init(notBefore: Int64?) { self.notBefore = notBefore }
}
