// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Running statistics of transit times. The times themselves are not kept.
struct TransitTimes {
    private(set) var sent = 0
    private(set) var received = 0
    private(set) var minimum = Double.infinity
    private(set) var maximum = 0.0
    private(set) var average = 0.0
    /// The sum of squared differences from the mean (Welford's algorithm).
    private var squares = 0.0

    mutating func add(_ milliseconds: Double) {
        sent += 1
        received += 1
        minimum = min(minimum, milliseconds)
        maximum = max(maximum, milliseconds)
        let distance = milliseconds - average
        average += distance / Double(received)
        squares += distance * (milliseconds - average)
    }

    var deviation: Double { received > 0 ? (squares / Double(received)).squareRoot() : 0 }

    mutating func addLost() { sent += 1 }

    func fill(_ summary: inout Ping.Event) {
        summary.sent = sent
        summary.received = received
        summary.lost = sent - received
        guard received > 0 else { return }
        summary.minimum = minimum
        summary.average = average
        summary.maximum = maximum
        summary.deviation = deviation
    }
}
