// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import CoreMetrics

/// What the transport counts.
package struct TransportMetrics: Sendable {
    private let factory: any MetricsFactory
    private let channels: Meter
    private let received: Counter
    private let sent: Counter
    private let turnedAwayCount: Counter
    private let heldCount: Counter

    package init(factory: any MetricsFactory = MetricsSystem.factory) {
        self.factory = factory
        self.channels = Meter(label: "relay_control_channels", factory: factory)
        self.received = Counter(label: "relay_control_messages_received_total", factory: factory)
        self.sent = Counter(label: "relay_control_messages_sent_total", factory: factory)
        self.turnedAwayCount = Counter(label: "relay_connections_turned_away_total", factory: factory)
        self.heldCount = Counter(label: "relay_control_channels_held_total", factory: factory)
        channels.set(0)
    }

    /// An endpoint is in.
    func welcomed() { channels.increment() }
    /// An endpoint that was in is gone.
    func left() { channels.decrement() }
    func receivedMessage() { received.increment() }
    func sentMessage() { sent.increment() }
    /// A channel is not read for a while, since too much of its account waits for the store.
    func held() { heldCount.increment() }
    /// A connection of an address that has too many.
    func turnedAway() { turnedAwayCount.increment() }

    /// - Parameter code: one of this relay's own codes.
    func rejected(code: String) {
        Counter(label: "relay_hellos_rejected_total", dimensions: [("code", code)], factory: factory).increment()
    }
    func refusedUpgrade(status: Int) {
        Counter(label: "relay_upgrades_refused_total", dimensions: [("status", String(status))], factory: factory).increment()
    }
    /// - Parameter code: a close code that this side chose.
    func closed(code: UInt16) {
        Counter(label: "relay_control_closed_total", dimensions: [("code", String(code))], factory: factory).increment()
    }
}
