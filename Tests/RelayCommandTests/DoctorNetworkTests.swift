// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

#if os(Linux)
/// `relay doctor DEVICE` between two machines on one network, of which something is broken.
@Suite(
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(if: TestMachine.isPossible, "root alone makes networks, with iproute2 and nftables, which scripts/test installs")
)
struct DoctorNetworkTests {
    /// A relay at the switch, an agent on the PC, and a phone that knows it.
    private struct World {
        let hub: TestMachine
        let pc: TestMachine
        let phone: TestMachine
        let relay: RelayProcess
        let agent: RelayProcess

        /// - Parameters:
        ///   - fault: What is broken: command lines of the switch, before a device uses the network.
        ///   - variables: For the PC's agent.
        init(switch fault: String? = nil, variables: String = "") async throws {
            let (hub, machines) = try TestMachine.bridge("pc", "phone")
            (self.hub, pc, phone) = (hub, machines[0], machines[1])
            if let fault { try await DoctorNetworkTests.expect(hub, fault) }
            relay = try hub.start("exec relayd serve --listen 10.20.30.1")
            let link = try DoctorNetworkTests.link(in: try await relay.line { $0.contains("#relay=") })
            try await DoctorNetworkTests.expect(pc, "{ relay join --name pc --yes\n} <<< '\(link)'")
            agent = try pc.start("exec env \(variables) relay agent")
            _ = try await agent.line { $0.hasPrefix("ready") }
            let invited = try DoctorNetworkTests.link(in: try await pc.run("relay invite").text)
            try await DoctorNetworkTests.expect(phone, "{ relay join --name phone --yes\n} <<< '\(invited)'")
            // The PC knows the phone now.
            try await DoctorNetworkTests.expect(phone, "relay ping pc --count 1")
        }

        struct Check: Decodable {
            var name: String
            var status: String
            var message: String
            var advice: String?
        }

        /// The checks of the phone, by name.
        func doctor(exit: Int32 = 0) async throws -> [String: Check] {
            struct Report: Decodable { var checks: [Check] }
            let output = try await phone.run("relay doctor pc --json")
            #expect(output.status == exit, "\(output.text) \(output.errorText)")
            let checks = try JSONDecoder().decode(Report.self, from: Data(output.text.utf8)).checks
            return Dictionary(uniqueKeysWithValues: checks.map { ($0.name, $0) })
        }
    }

    fileprivate static func expect(_ machine: TestMachine, _ line: String) async throws {
        let output = try await machine.run(line)
        try #require(output.status == 0, "\(line): \(output.text) \(output.errorText)")
    }

    fileprivate static func link(in text: String) throws -> String {
        String(try #require(text.firstMatch(of: /https:\/\/[^ ']+#relay=[^ ']+/)).0)
    }

    /// Drops incoming packets.
    private static func dropping(_ rule: String) -> String {
        let chain = "nft add chain inet doctor input '{ type filter hook input priority 0; }'"
        return "nft add table inet doctor && \(chain) && nft add rule inet doctor input '\(rule) drop'"
    }

    private static let names = ["multicast", "outgoing", "incoming", "clocks"]

    private func statuses(_ checks: [String: World.Check]) -> [String?] { Self.names.map { checks[$0]?.status } }

    @Test func healthyNetworkIsWell() async throws {
        let world = try await World()
        let checks = try await world.doctor()
        #expect(statuses(checks) == ["ok", "ok", "ok", "ok"], "\(checks)")
        #expect(checks["network"] == nil)
        // Without the relay the devices test the same over a direct session. The PC dials once in 10 s.
        world.relay.send(SIGKILL)
        _ = await world.relay.finish()
        let alone = try await world.doctor(exit: 5)
        #expect(alone["relay"]?.status == "failed")
        #expect(alone["multicast"]?.status == "ok" && alone["outgoing"]?.status == "ok", "\(alone)")
        #expect(alone["network"] == nil)
        // Now no path is left.
        world.agent.send(SIGKILL)
        _ = await world.agent.finish()
        let absent = try await world.doctor(exit: 5)
        #expect(Self.names.allSatisfy { absent[$0] == nil })
        #expect(absent["network"]?.message.hasPrefix("\"pc\" is not seen on ") ?? false, "\(absent)")
    }

    @Test func firewallAgainstMulticastIsNamed() async throws {
        let world = try await World()
        try await Self.expect(world.pc, Self.dropping("udp dport 5353"))
        let there = try await world.doctor()
        #expect(statuses(there) == ["warning", "ok", "ok", "ok"], "\(there)")
        let multicast = try #require(there["multicast"])
        #expect(multicast.message.hasPrefix("\"pc\" does not hear") && multicast.message.contains("firewall"), "\(multicast)")
        #expect(multicast.advice?.contains("on \"pc\"") ?? false && multicast.advice?.contains("5353") ?? false)
    }

    @Test func ownFirewallAgainstMulticastIsNamed() async throws {
        let world = try await World()
        try await Self.expect(world.phone, Self.dropping("udp dport 5353"))
        let here = try await world.doctor()
        #expect(here["multicast"]?.status == "warning" && here["nearby"]?.status == "warning", "\(here)")
        #expect(here["multicast"]?.message.hasPrefix("this device does not hear") ?? false, "\(here)")
        #expect(here["outgoing"]?.status == "ok", "\(here)")
    }

    @Test(arguments: [true, false]) func switchThatFiltersMulticastIsNamed(inBothDirections: Bool) async throws {
        let ports = inBothDirections ? ["port0", "port1"] : ["port0"]
        let lines = ["ip link set br0 type bridge mcast_snooping 0"] + ports.map { "bridge link set dev \($0) mcast_flood off" }
        let world = try await World(switch: lines.joined(separator: " && "))
        let checks = try await world.doctor()
        #expect(statuses(checks) == ["warning", "ok", "ok", "ok"], "\(checks)")
        let message = try #require(checks["multicast"]?.message)
        let start = inBothDirections ? "this device and \"pc\" do not hear" : "\"pc\" does not hear the multicast DNS of this device"
        #expect(message.hasPrefix(start) && message.contains("connect directly"), "\(message)")
    }

    @Test func clientIsolationIsNamed() async throws {
        let world = try await World(switch: "bridge link set dev port0 isolated on && bridge link set dev port1 isolated on")
        let checks = try await world.doctor()
        #expect(statuses(checks) == ["warning", "warning", "warning", "ok"], "\(checks)")
        for name in ["outgoing", "incoming"] { #expect(checks[name]?.message.contains("keeps its clients apart") ?? false, "\(checks)") }
        #expect(checks["multicast"]?.message.contains("nothing passes") ?? false, "\(checks)")
        #expect(checks["device"]?.status == "ok")
    }

    @Test func firewallAgainstConnectionsIsNamed() async throws {
        let world = try await World()
        try await Self.expect(world.pc, Self.dropping("tcp flags & (syn | ack) == syn"))
        let checks = try await world.doctor()
        #expect(statuses(checks) == ["ok", "warning", "ok", "ok"], "\(checks)")
        let outgoing = try #require(checks["outgoing"])
        #expect(outgoing.message.contains("TCP port") && outgoing.message.contains("firewall on \"pc\""), "\(outgoing)")
        #expect(outgoing.advice?.contains("10.20.30.0/24") ?? false, "\(outgoing)")
    }

    @Test(
        .enabled(
            if: FileManager.default.isExecutableFile(atPath: "/usr/bin/faketime"),
            "another clock needs faketime, which scripts/test installs"
        )
    )
    func wrongClockIsNamed() async throws {
        let world = try await World()
        // While the relay is there, its clock counts.
        world.relay.send(SIGKILL)
        _ = await world.relay.finish()
        world.agent.send(SIGKILL)
        _ = await world.agent.finish()
        let agent = try world.pc.start("exec env DONT_FAKE_MONOTONIC=1 faketime -f +5h relay agent")
        _ = try await agent.errorLine { $0.contains("not connected") }
        // It advertises itself a moment later.
        var nearby: World.Check?
        while nearby?.status != "warning" {
            try Task.checkCancellation()
            nearby = try await world.doctor(exit: 5)["nearby"]
        }
        #expect(nearby?.message.contains("\"pc\" is there, with a clock 5 h ahead of this one") ?? false, "\(String(describing: nearby))")
        agent.send(SIGKILL)
    }

    @Test func deviceThatCannotHelpIsNamed() async throws {
        let world = try await World(variables: "DEVICE_RELAY_NEARBY=off")
        let off = try await world.doctor()
        #expect(
            off["network"]?.status == "warning" && off["network"]?.message.contains("does not use the local network") ?? false,
            "\(off)"
        )
        #expect(Self.names.allSatisfy { off[$0] == nil })
        world.agent.send(SIGTERM)
        _ = await world.agent.finish()
        let stopped = try await world.doctor(exit: 5)
        #expect(stopped["device"]?.status == "failed", "\(stopped)")
        #expect(stopped["network"]?.message.contains("is not seen on") ?? false, "\(stopped)")
        #expect(Self.names.allSatisfy { stopped[$0] == nil }, "\(stopped)")
    }
}
#endif
