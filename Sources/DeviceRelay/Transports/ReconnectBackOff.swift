// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Decides when to dial the relay again. It uses full jitter: a random part of the time since the relay was lost. So the endpoints do not
/// reconnect all at once, and each reconnects within twice the relay's absence. A pause that the relay has requested takes its place.
struct ReconnectBackOff: Hashable, Sendable {
    static let ceilings: ClosedRange<Int64> = 500...15_000
    /// After this time without the relay, it is dialled less often.
    static let longAbsence: Int64 = 5 * 60_000
    /// The maximum pause after `longAbsence`.
    static let ceilingAfterLongAbsence: Int64 = 60_000
    /// A connection that lasts for less does not reset the pauses.
    static let steady: Int64 = 30_000
    /// The maximum pause that a relay can request.
    static let maximumWait: Int64 = 3_600_000

    /// When the relay was lost.
    private var absence: Int64?
    /// The earliest time that the relay has requested for the next attempt.
    private var notBefore: Int64?

    /// Records that the relay has requested a pause.
    /// - Parameter spread: A random part of this time is added to the pause.
    mutating func asked(after: Int64, spread: Int64 = 0, now: Int64, random: inout some RandomNumberGenerator) {
        let spread = Int64.random(in: 0...min(max(spread, 0), Self.maximumWait), using: &random)
        let wait = min(min(max(after, 0), Self.maximumWait) + spread, Self.maximumWait)
        notBefore = max(notBefore ?? .min, now + wait)
    }

    /// Records that an attempt failed or a connection ended.
    /// - Parameter connected: When the connection was established; `nil` if it was not.
    /// - Returns: When to dial.
    mutating func failed(connected: Int64?, now: Int64, random: inout some RandomNumberGenerator) -> Int64 {
        if let connected, now - connected >= Self.steady { self = ReconnectBackOff(notBefore: notBefore) }
        let absence = absence ?? now
        self.absence = absence
        // What the relay asks for is different for each endpoint, or follows arrivals that were.
        if let notBefore, notBefore > now { return notBefore + Int64.random(in: 0...Self.ceilings.lowerBound, using: &random) }
        let away = max(0, now - absence)
        let ceiling =
            away >= Self.longAbsence ? Self.ceilingAfterLongAbsence : min(max(away, Self.ceilings.lowerBound), Self.ceilings.upperBound)
        return now + Int64.random(in: 0...ceiling, using: &random)
    }

    /// Records a change of the network, which may have removed the obstacle. A pause that the relay requested still applies.
    mutating func networkChanged(now: Int64) -> Int64 {
        absence = nil
        return max(now, notBefore ?? .min)
    }

    init() {}

    private init(notBefore: Int64?) { self.notBefore = notBefore }
}
