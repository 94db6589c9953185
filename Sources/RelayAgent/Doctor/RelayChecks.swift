// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// Checks of the relay and the path to it that need no sign-in.
struct RelayChecks: Sendable {
    let probe: RelayProbe
    let membership: Membership
    var environment = ProcessInfo.processInfo.environment

    func run() async -> [Doctor.Check] {
        let answer: RelayProbe.Answer
        do throws(ConnectionError) {
            answer = try await probe.get("/readyz")
        } catch {
            let advice = [Self.proxyAdvice(error, membership, environment), Self.advice(error, membership)].compactMap { $0 }
            return [Doctor.Check(.relay, failed: error, advice: advice.isEmpty ? nil : advice.joined(separator: ". Otherwise "))]
        }
        let own = Date.now
        guard answer.status == 200 else {
            let problem = answer.problem.map { ConnectionError(.relayRestarting, $0) } ?? ConnectionError(status: answer.status)
            return [Doctor.Check(.relay, failed: problem, advice: Self.advice(problem, membership))]
        }
        let trust = membership.relay.hasPrefix("https:") ? ", and its certificate is valid" : ""
        return [
            Doctor.Check(.relay, .ok, "it answers\(trust)"), await identity(), Self.clock(own: own, relay: answer.date), await tunnel(),
        ]
    }

    /// Other programs of this machine may reach the relay by a proxy that this one does not use.
    private static func proxyAdvice(_ problem: ConnectionError, _ membership: Membership, _ environment: [String: String]) -> String? {
        let names = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
        guard problem.code == .relayUnreachable, let name = names.first(where: { !(environment[$0] ?? "").isEmpty }) else { return nil }
        return "\(name) is set, but `relay` uses no HTTP proxy: the network has to let this machine connect to \(membership.relay) itself"
    }

    static func advice(_ problem: ConnectionError, _ membership: Membership) -> String? {
        switch problem.code {
        case .relayUnreachable: "check that relayd runs, that this machine has a network, and that no firewall blocks \(membership.relay)"
        case .relayNotTrusted:
            "if the relay has a new certificate of an authority that this machine does not know, run: relay join --ca-file FILE (keys and approvals stay). If the relay was set up again, run `relay leave` and join again. If neither, another server answers in its place: do not use this network"
        case .limitExceeded: "wait a minute; if it lasts, ask the operator which limit of the relay or its proxy it is"
        case .notARelay: "check what listens at \(membership.relay), and that a proxy in front of the relay forwards all requests to it"
        default: nil
        }
    }

    private func identity() async -> Doctor.Check {
        do throws(ConnectionError) {
            let relay = try await probe.identity()
            guard relay == membership.relayID else {
                throw ConnectionError(.relayNotTrusted, "another relay (\(relay.label)…) answers at this address")
            }
            return Doctor.Check(.identity, .ok, "it is the relay that was joined (\(relay.label)…)")
        } catch {
            let advice =
                error.code == .relayNotTrusted
                ? Self.advice(error, membership)
                : "a proxy in front of the relay has to forward WebSockets (Upgrade: websocket) at /v1/connect"
            return Doctor.Check(.identity, failed: error, advice: advice)
        }
    }

    /// - Parameter relay: Milliseconds since 1970, with a resolution of one second.
    static func clock(own: Date, relay: Int64?) -> Doctor.Check {
        guard let relay else { return Doctor.Check(.clock, .skipped, "the relay does not tell its time") }
        let milliseconds = Int64(max(-1e17, min(1e17, own.timeIntervalSince1970 * 1_000)))
        let difference = ClockDifference(own: Milliseconds(clamping: milliseconds), other: Milliseconds(clamping: relay))
        guard difference.status != .ok else { return Doctor.Check(.clock, .ok, "it agrees with the relay's clock") }
        var check = Doctor.Check(.clock, difference.status, "it is \(difference.text) the relay's", advice: ClockDifference.advice)
        guard difference.status == .failed else { return check }
        check.code = "clockSkew"
        check.exit = .failed
        return check
    }

    private func tunnel() async -> Doctor.Check {
        let (ports, isOpen) = await probe.tunnelPorts()
        if let port = isOpen.first { return Doctor.Check(.tunnel, .ok, "connections to devices go through TCP port \(port)") }
        let names = ports.map(String.init).joined(separator: ", ")
        do throws(ConnectionError) {
            try await probe.test(.webSocket)
            guard !ports.isEmpty else {
                return Doctor.Check(.tunnel, .ok, "connections to devices go through the relay's HTTP port; it offers no other")
            }
            return Doctor.Check(
                .tunnel,
                .warning,
                "TCP port \(names) of the relay is blocked; connections to devices go through its own port instead, and more slowly",
                advice: "open TCP port \(names) in the relay's firewall, or choose another with `relayd serve --tunnel-listen`"
            )
        } catch {
            let what = ports.isEmpty ? "" : "TCP port \(names) of the relay is blocked, and "
            return Doctor.Check(
                .tunnel,
                failed: ConnectionError(error.code, "\(what)its own port takes no tunnels: \(error.message)"),
                advice:
                    "a proxy in front of the relay has to forward WebSockets (Upgrade: websocket) at /v1/tunnels/, or its firewall has to open the TCP port"
            )
        }
    }
}
