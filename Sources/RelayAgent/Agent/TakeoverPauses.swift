// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The pauses of a host that a copy of it has replaced, before it connects again: 1 min, then twice the last one, up to 1 h. So two copies
/// do not take the place from each other all the time, and one that is left alone comes back.
struct TakeoverPauses {
    static let first = Duration.seconds(60)
    static let longest = Duration.seconds(3_600)

    private var last: (pause: Duration, end: ContinuousClock.Instant)?

    /// The pause after a takeover.
    mutating func next(at now: ContinuousClock.Instant) -> Duration {
        // A host that was left alone for long begins again.
        let pause = last.map { now - $0.end > Self.longest * 2 ? Self.first : min($0.pause * 2, Self.longest) } ?? Self.first
        last = (pause, now + pause)
        return pause
    }
}
