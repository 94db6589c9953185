// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import CoreMetrics

/// The metrics of the transport.
package struct TransportMetrics: Sendable {
    private let factory: any MetricsFactory
    private let channels: Meter
    private let received: Counter
    private let sent: Counter
    private let rejectedCount: Counter
    private let heldCount: Counter
    private let helloTime: Timer
    private let requestTime: Timer

    package init(factory: any MetricsFactory = MetricsSystem.factory) {
        self.factory = factory
        self.channels = Meter(label: "relay_control_channels", factory: factory)
        self.received = Counter(label: "relay_control_messages_received_total", factory: factory)
        self.sent = Counter(label: "relay_control_messages_sent_total", factory: factory)
        self.rejectedCount = Counter(label: "relay_connections_rejected_total", factory: factory)
        self.heldCount = Counter(label: "relay_control_read_pauses_total", factory: factory)
        self.helloTime = Timer(label: "relay_hello_seconds", factory: factory)
        self.requestTime = Timer(label: "relay_http_request_seconds", factory: factory)
        channels.set(0)
    }

    /// Counts a welcomed endpoint.
    /// - Parameter time: Since its hello.
    func welcomed(after time: Duration) {
        channels.increment()
        helloTime.recordNanoseconds(time.nanoseconds)
    }
    /// Counts the end of a welcomed endpoint's channel.
    func left() { channels.decrement() }
    func receivedMessage() { received.increment() }
    func sentMessage() { sent.increment() }
    /// Counts a pause of reading from a channel because its account has too many pending store operations.
    func held() { heldCount.increment() }
    /// Counts a connection that was rejected because its address has too many.
    func rejectedConnection() { rejectedCount.increment() }

    /// - Parameter code: A code that this relay defines.
    func rejected(code: String) {
        Counter(label: "relay_hellos_rejected_total", dimensions: [("code", code)], factory: factory).increment()
    }
    func rejectedUpgrade(status: Int) {
        Counter(label: "relay_upgrades_rejected_total", dimensions: [("status", String(status))], factory: factory).increment()
    }
    /// Counts a response of the HTTP server.
    /// - Parameter time: Since the head of its request.
    func answered(status: Int, after time: Duration) {
        Counter(label: "relay_http_requests_total", dimensions: [("status", String(status))], factory: factory).increment()
        requestTime.recordNanoseconds(time.nanoseconds)
    }
    /// - Parameter code: A close code that this side chose.
    func closed(code: UInt16) {
        Counter(label: "relay_control_closed_total", dimensions: [("code", String(code))], factory: factory).increment()
    }
}
