// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import CoreMetrics
import RelayProtocol

/// The metrics of tunnels.
package struct TunnelMetrics: Sendable {
    package enum Transport: String, CaseIterable, Sendable {
        case tcp, webSocket
    }

    private struct Traffic {
        let received: Counter
        let sent: Counter
    }

    private let factory: any MetricsFactory
    private let opened: Counter
    private let open: Meter
    private let entrants: Meter
    private let tcp: Traffic
    private let webSocket: Traffic

    package init(factory: any MetricsFactory) {
        func traffic(_ transport: Transport) -> Traffic {
            func counter(_ direction: String) -> Counter {
                let dimensions = [("transport", transport.rawValue), ("direction", direction)]
                return Counter(label: "relay_tunnel_bytes_total", dimensions: dimensions, factory: factory)
            }
            return Traffic(received: counter("in"), sent: counter("out"))
        }
        self.factory = factory
        self.opened = Counter(label: "relay_tunnels_opened_total", factory: factory)
        self.open = Meter(label: "relay_tunnels", factory: factory)
        self.entrants = Meter(label: "relay_tunnel_connections", factory: factory)
        self.tcp = traffic(.tcp)
        self.webSocket = traffic(.webSocket)
        open.set(0)
        entrants.set(0)
    }

    func wasOpened() { opened.increment() }
    func paired() { Counter(label: "relay_tunnels_paired_total", factory: factory).increment() }
    /// - Parameter entrants: the number of connections in tunnels.
    func are(open count: Int, entrants: Int) {
        open.set(count)
        self.entrants.set(entrants)
    }
    func failed(_ code: ControlErrorCode) {
        Counter(label: "relay_tunnels_failed_total", dimensions: [("reason", code.rawValue)], factory: factory).increment()
    }
    /// Counts a connection that was not admitted.
    func rejectedEntry() { Counter(label: "relay_tunnel_joins_rejected_total", factory: factory).increment() }
    func passed(received: Int, sent: Int, by transport: Transport) {
        let traffic = transport == .tcp ? tcp : webSocket
        traffic.received.increment(by: received)
        traffic.sent.increment(by: sent)
    }
}
