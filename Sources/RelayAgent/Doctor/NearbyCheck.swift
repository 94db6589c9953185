// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Whether this device sees others on its network. It needs no relay, and is no failure: the way through the relay remains.
struct NearbyCheck: Sendable {
    let local: LocalDevice

    private static var permission: String {
        #if canImport(Darwin)
        "permit the local network to this program in System Settings, Privacy & Security, Local Network"
        #else
        "permit UDP port 5353, in and out, in the firewall of this machine; another program may hold the port for itself"
        #endif
    }

    /// - Returns: `nil` if the network is not used.
    func run() async -> Doctor.Check? {
        guard let view = await local.platform.nearbyView(for: local.account) else { return nil }
        guard !(await local.platform.knownEndpoints(for: local.account)).isEmpty else {
            return Doctor.Check(.nearby, .skipped, "this device knows no other one yet, so it looks for none")
        }
        guard view.knowsPeers else {
            return Doctor.Check(.nearby, .skipped, "the devices that this one knows cannot be reached directly: they run an older version")
        }
        guard !view.interfaces.isEmpty else {
            return Doctor.Check(
                .nearby,
                .warning,
                "this machine has no network interface for multicast",
                advice: "connect it to a network; until then only the relay leads to other devices"
            )
        }
        let names = view.interfaces.map(DisplayText.sanitized).joined(separator: ", ")
        guard view.isOpen else {
            return Doctor.Check(
                .nearby,
                .warning,
                "on \(names), this machine does not let multicast DNS be used",
                advice: Self.permission
            )
        }
        guard view.hearsItself ?? true else {
            return Doctor.Check(
                .nearby,
                .warning,
                "on \(names), what this device sends to its neighbours does not even come back to itself",
                advice: "permit UDP port 5353, in and out, in the firewall of this machine"
            )
        }
        let endpoints = local.platform.endpoints(for: local.account)
        if let other = endpoints.first(where: { view.otherHours[$0.record.endpointID] != nil }) {
            let ahead = view.otherHours[other.record.endpointID] ?? 0
            let size = ClockDifference.size(ofSeconds: abs(ahead) * 3_600)
            let name = DisplayText.quoted(other.record.name)
            return Doctor.Check(
                .nearby,
                .warning,
                "on \(names): \(name) is there, with a clock \(size) \(ahead > 0 ? "ahead of" : "behind") this one, so the devices do not recognise each other",
                advice: "correct the clock that is wrong, preferably with NTP: sudo timedatectl set-ntp true"
            )
        }
        let known = endpoints.filter { view.known.contains($0.record.endpointID) }
            .map { DisplayText.sanitized($0.record.name) }.sorted()
        let others = view.instances == 1 ? "1 device of this service is there" : "\(view.instances) devices of this service are there"
        let who = known.isEmpty ? "none that this one knows" : "of these it knows \(known.joined(separator: ", "))"
        return Doctor.Check(.nearby, .ok, view.instances == 0 ? "on \(names): no other device answers" : "on \(names): \(others), \(who)")
    }
}
