// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOCore
import NIOPosix
import RelayProtocol
import RelayServer

extension RelayDoctor {
    /// Whether the addresses of the settings take connections, from this machine.
    func ports() async -> Check {
        let addresses = configuration.listen + configuration.tunnelAddresses + [configuration.metricsListen].compactMap(\.self)
        var open: [String] = []
        for address in addresses where address.port != 0 {
            guard await Self.takesConnections(address) else {
                return Check(
                    .ports,
                    .failed,
                    "nothing takes connections at \(address)",
                    advice: "see whether the relay runs with these settings: \(ShellText.command("ss -ltnp", "sport = :\(address.port)"))"
                )
            }
            open.append("\(address)")
        }
        return Check(.ports, .ok, "connections are taken at \(open.joined(separator: ", "))")
    }

    private static func takesConnections(_ address: ListenAddress) async -> Bool {
        // Every address of the machine includes that of loopback.
        let host = address.host == "0.0.0.0" ? "127.0.0.1" : address.host == "::" ? "::1" : address.host
        let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connectTimeout(.seconds(5))
        guard let channel = try? await bootstrap.connect(host: host, port: address.port).get() else { return false }
        try? await channel.close()
        return true
    }
}

/// Reaches the relay by one of its URLs, as a device does.
struct ServiceChecks: Sendable {
    /// Other requests come meanwhile. Only what happened at least as often can be its own.
    private static let proxyRequests = 3

    let origin: Origin
    let relay: RelayID
    let doctor: RelayDoctor

    init(_ origin: Origin, of relay: RelayID, _ doctor: RelayDoctor) {
        (self.origin, self.relay, self.doctor) = (origin, relay, doctor)
    }

    private typealias Check = RelayDoctor.Check

    func run() async -> [RelayDoctor.Check] {
        guard let url = URL(exactly: origin.description) else { return [] }
        let probe: RelayProbe
        let answer: RelayProbe.Answer
        do throws(ConnectionError) {
            probe = try RelayProbe(
                url,
                relayID: relay,
                allowsPlainHTTP: true,
                authorities: doctor.authorities.map { .file($0) } ?? .system
            )
            answer = try await probe.get("/readyz")
        } catch {
            return [Check(.url, .failed, "\(origin): \(error.message)", advice: advice(error))]
        }
        guard answer.status == 200 else {
            let reason = answer.problem ?? "it answers with HTTP status \(answer.status)"
            return [Check(.url, .failed, "\(origin): \(reason)", advice: "see the relay's log: journalctl --unit relayd --lines 20")]
        }
        return [await identity(probe), await tunnels(probe), clock(answer), await proxy(probe)].compactMap(\.self)
    }

    private func advice(_ error: ConnectionError) -> String {
        switch error.code {
        case .relayNotTrusted:
            doctor.authorities == nil
                ? "if this machine does not know the authority, name its certificate: relayd doctor --ca-file FILE. Otherwise renew the certificate, or correct its names (docs/https.md)"
                : "renew the certificate, or correct its names (docs/https.md)"
        case .notARelay:
            "see what answers: \(ShellText.command("curl -i", "\(origin)/readyz")); a proxy has to forward all requests to the relay"
        default:
            "see that the name leads to this machine (\(ShellText.command("getent hosts", origin.host))), and that the proxy and the firewall let port \(origin.port) in"
        }
    }

    /// A WebSocket, on which the relay says who it is.
    private func identity(_ probe: RelayProbe) async -> Check {
        do throws(ConnectionError) {
            let found = try await probe.identity()
            guard found == relay else {
                return Check(
                    .url,
                    .failed,
                    "\(origin) leads to another relay (\(found.label)…)",
                    advice: "correct the name's address, or what the proxy forwards to: \(ShellText.command("getent hosts", origin.host))"
                )
            }
            return Check(.url, .ok, "\(origin) leads to this relay, also as a WebSocket")
        } catch {
            return Check(
                .url,
                .failed,
                "\(origin) answers, but takes no WebSocket: \(error.message)",
                advice: "let the proxy forward `Upgrade: websocket` at /v1/connect (docs/operating.md has the whole file for nginx)"
            )
        }
    }

    private func tunnels(_ probe: RelayProbe) async -> Check? {
        let (named, open) = await probe.tunnelPorts()
        let closed = named.filter { !open.contains($0) }
        if let port = closed.first {
            return Check(
                .ports,
                .warning,
                "\(origin.host):\(port), the port for tunnels, is not reached from here; devices go through \(origin), and more slowly",
                advice: "open TCP port \(port) in the firewall, or offer none: --tunnel-listen off"
            )
        }
        do throws(ConnectionError) {
            try await probe.test(.webSocket)
            return nil
        } catch {
            return Check(
                .ports,
                open.isEmpty ? .failed : .warning,
                "\(origin) takes no tunnels: \(error.message)",
                advice: "let the proxy forward `Upgrade: websocket` at /v1/tunnels/ (docs/operating.md has the whole file for nginx)"
            )
        }
    }

    /// A proxy has a clock of its own.
    private func clock(_ answer: RelayProbe.Answer) -> Check? {
        guard let date = answer.date else { return nil }
        let difference = ClockDifference(own: RelayClock.system.now().time, other: Milliseconds(clamping: date))
        guard difference.status != .ok else { return nil }
        return Check(.clock, difference.status, "it is \(difference.text) that of \(origin)", advice: ClockDifference.advice)
    }

    // MARK: Proxies

    /// Asks the relay how the requests of this command have come to it.
    private func proxy(_ probe: RelayProbe) async -> Check? {
        guard let before = await counts() else {
            return Check(
                .proxy,
                .skipped,
                "the relay that runs does not say how requests come",
                advice: "restart it, so that it has the version of this command: systemctl restart relayd"
            )
        }
        for _ in 0..<Self.proxyRequests {
            do throws(ConnectionError) {
                _ = try await probe.get("/healthz")
            } catch {
                return Check(.proxy, .warning, "\(origin) does not always answer: \(error.message)", advice: "run the command again")
            }
        }
        guard let after = await counts() else { return nil }
        func grew(_ count: KeyPath<AdminForwarding, Int>) -> Bool { after[keyPath: count] - before[keyPath: count] >= Self.proxyRequests }
        if grew(\.untrusted), let address = after.lastUntrusted {
            return Check(
                .proxy,
                .failed,
                "requests to \(origin) come by a proxy at \(address) that the relay does not trust, so all its clients count as one address",
                advice: "restart the relay with: --trusted-proxy \(address) (RELAYD_TRUSTED_PROXIES=\(address))"
            )
        }
        if grew(\.named) { return Check(.proxy, .ok, "requests to \(origin) come by a trusted proxy, which names its clients") }
        if grew(\.unnamed) {
            return Check(
                .proxy,
                .failed,
                "requests to \(origin) come by a trusted proxy that does not name its clients, so they count as one address",
                advice: "in nginx: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; (Caddy's reverse_proxy does it by itself)"
            )
        }
        return Check(.proxy, .ok, "requests to \(origin) come without a proxy, or to another node")
    }

    private func counts() async -> AdminForwarding? {
        guard case .forwarding(let counts)? = try? await AdminSocket.ask(.countForwarding, in: doctor.configuration.dataDirectory) else {
            return nil
        }
        return counts
    }
}
