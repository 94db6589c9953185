// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

#if os(Linux)
/// The code for Apple's DNS-SD service, over Avahi's library and daemon. Avahi's library has neither shared connections nor hosts of one's
/// own, so both remain untested. `scripts/check-dnssd` builds and runs it.
@Suite(
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(if: ProcessInfo.processInfo.environment["DEVICE_RELAY_DNSSD"] != nil, "scripts/check-dnssd builds with Avahi's library"),
    .enabled(if: TestMachine.isPossible, "root alone makes networks, with iproute2, which scripts/test installs")
)
struct SystemNearbyTests {
    /// Where each machine's Avahi is found. When its daemon ends, Avahi's library calls a function whose address it has not set if a question is
    /// open. So new memory is filled with zeros.
    private static let bus =
        "DBUS_SYSTEM_BUS_ADDRESS=unix:path=$HOME/bus AVAHI_COMPAT_NOWARN=1 GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.perturb=255"

    private static func startBus(on machine: TestMachine) async throws -> RelayProcess {
        let bus = try machine.start("exec dbus-daemon --session --nofork --nopidfile --print-address=1 --address=unix:path=$HOME/bus")
        _ = try await bus.line()
        return bus
    }

    private static func startAvahi(on machine: TestMachine) async throws -> RelayProcess {
        let lines = [
            "export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$HOME/bus",
            "printf '[server]\\nuse-ipv4=yes\\nuse-ipv6=yes\\n[rlimits]\\n' > avahi.conf",
            "mkdir -p /run/avahi-daemon",
            "mount -t tmpfs tmpfs /run/avahi-daemon",
            "exec avahi-daemon --no-drop-root --no-chroot --no-rlimits -f avahi.conf",
        ]
        try Data(lines.joined(separator: "\n").utf8).write(to: machine.directory.appending(path: "avahi.sh"))
        let avahi = try machine.start("exec bash avahi.sh")
        _ = try await avahi.errorLine { $0.contains("Server startup complete") }
        return avahi
    }

    @Test(.enabled(if: PythonScript.isAvailable, "scripts/test sets DEVICE_RELAY_PYTHON to a Python that has zeroconf"))
    func devicesFindEachOtherByTheDaemon() async throws {
        var world = try await NearbyTests.World(Self.bus)
        await world.loseRelay()
        // The agent runs already, and finds the daemon that starts later.
        let buses = [try await Self.startBus(on: world.pc), try await Self.startBus(on: world.phone)]
        let avahi = try await Self.startAvahi(on: world.pc)
        let phoneAvahi = try await Self.startAvahi(on: world.phone)
        // The advertisement as others see it.
        let zeroconf = try world.neighbour.start(Python.script("nearby-zeroconf.py", "10.20.30.4"))
        let found = try await zeroconf.line { $0.hasPrefix("found 10.20.30.2 ") }
        let form = /found 10\.20\.30\.2 port=[0-9]+ v=1 n=12 t0=32 ([a-z2-7]{16})/
        let label = try #require(found.wholeMatch(of: form), "\(found)").1
        try await world.phone.sees(2, environment: Self.bus)
        let ping = try await world.phone.run("\(Self.bus) relay ping pc --count 3 --interval 0.1")
        #expect(ping.status == 0 && ping.output.contains("3 sent, 3 received, 0 lost"), "\(ping.text) \(ping.errorText)")
        // A daemon that ends says goodbye, and one that starts again has all of it.
        avahi.send(SIGTERM)
        _ = await avahi.finish()
        _ = try await zeroconf.line { $0.hasPrefix("gone \(label).") }
        let again = try await Self.startAvahi(on: world.pc)
        _ = try await zeroconf.line { $0.hasPrefix("found 10.20.30.2 ") }
        let back = try await world.phone.run("\(Self.bus) relay ping pc --count 1")
        #expect(back.status == 0, "\(back.text) \(back.errorText)")
        // The end of an instance.
        zeroconf.send(SIGTERM)
        _ = await zeroconf.finish()
        try await world.phone.sees(1, environment: Self.bus)
        for daemon in [again, phoneAvahi] + buses { daemon.send(SIGKILL) }
    }

    /// A network whose cable was out gets new names.
    @Test(.enabled(if: PythonScript.isAvailable, "scripts/test sets DEVICE_RELAY_PYTHON to a Python that has zeroconf"))
    func anotherAttachmentHasAnotherName() async throws {
        let world = try await NearbyTests.World(Self.bus)
        let bus = try await Self.startBus(on: world.pc)
        let avahi = try await Self.startAvahi(on: world.pc)
        let zeroconf = try world.neighbour.start(Python.script("nearby-zeroconf.py", "10.20.30.4"))
        var seen: Set<Substring> = []
        for _ in 0..<2 {
            let found = try await zeroconf.line { $0.hasPrefix("found 10.20.30.2 ") }
            let match = try #require(found.wholeMatch(of: /found 10\.20\.30\.2 port=([0-9]+) .* ([a-z2-7]{16})/), "\(found)")
            #expect(seen.insert(match.1).inserted && seen.insert(match.2).inserted, "\(found) \(seen)")
            try world.pc.setCable(false)
            // The agent has left the network. Avahi itself has a connection to the bus.
            while try await world.pc.run("ss -xH state connected | grep -c \"$HOME/bus\"").output != ["1"] { try Task.checkCancellation() }
            try world.pc.setCable(true)
        }
        for process in [zeroconf, avahi, bus] { process.send(SIGKILL) }
    }
}
#endif
