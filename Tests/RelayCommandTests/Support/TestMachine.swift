// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting

#if os(Linux)
/// A separate machine: a network namespace, a host name and a home. Only root can create namespaces.
final class TestMachine {
    struct Failed: Error {
        var message: String
    }

    static let isPossible = (try? network()) != nil

    let name: String
    let directory: URL
    private let namespace = "relay-\(UUID().uuidString.prefix(8))"

    init(named name: String) throws {
        self.name = name
        directory = FileManager.default.temporaryDirectory.appending(path: "machine-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        try Self.run("ip", "netns", "add", namespace)
        try ip("link", "set", "lo", "up")
    }

    deinit {
        // What was started in the background.
        try? Self.run("sh", "-c", "ip netns pids \(namespace) | xargs -r kill -9")
        try? Self.run("ip", "netns", "delete", namespace)
        try? FileManager.default.removeItem(at: directory)
    }

    /// Two machines that are connected by a cable only.
    static func network() throws -> (TestMachine, TestMachine) {
        let machines = (try TestMachine(named: "study"), try TestMachine(named: "laptop"))
        try machines.0.ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", machines.1.namespace)
        for (machine, address) in [(machines.0, "10.20.30.1/24"), (machines.1, "10.20.30.2/24")] {
            try machine.ip("address", "add", address, "dev", "eth0")
            try machine.ip("link", "set", "eth0", "up")
            try run("ip", "netns", "exec", machine.namespace, "nft", "list", "ruleset")
        }
        return machines
    }

    /// Machines at one switch, which has the address 10.20.30.1. It ends when they do.
    static func bridge(_ names: String...) throws -> (switch: TestMachine, machines: [TestMachine]) {
        let hub = try TestMachine(named: "switch")
        try hub.ip("link", "add", "br0", "type", "bridge")
        try hub.ip("address", "add", "10.20.30.1/24", "dev", "br0")
        try hub.ip("link", "set", "br0", "up")
        let machines = try names.enumerated().map { index, name in
            let machine = try TestMachine(named: name)
            try hub.ip("link", "add", "port\(index)", "type", "veth", "peer", "name", "eth0", "netns", machine.namespace)
            try hub.ip("link", "set", "port\(index)", "master", "br0", "up")
            try machine.ip("address", "add", "10.20.30.\(index + 2)/24", "dev", "eth0")
            try machine.ip("link", "set", "eth0", "up")
            return machine
        }
        return (hub, machines)
    }

    /// Passes no multicast on to a machine at this switch, as many wireless networks do. Broadcasts, which IPv4 needs, arrive.
    func filterMulticast(port: Int) throws { try ip("link", "set", "dev", "port\(port)", "type", "bridge_slave", "mcast_flood", "off") }

    /// Puts a machine at this switch into another network, whose router the switch is.
    /// - Parameter network: The first three bytes of its addresses.
    func route(from machine: TestMachine, in network: String, to other: TestMachine) throws {
        try Self.run("ip", "netns", "exec", namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        try ip("address", "add", "\(network).1/24", "dev", "br0")
        try machine.ip("address", "flush", "dev", "eth0", "scope", "global")
        try machine.ip("address", "add", "\(network).3/24", "dev", "eth0")
        try machine.ip("route", "add", "10.20.30.0/24", "via", "\(network).1")
        try other.ip("route", "add", "\(network).0/24", "via", "10.20.30.1")
    }

    /// Waits until `relay doctor` sees this number of devices, pc among them.
    func sees(_ count: Int, environment: String = "") async throws {
        let text = count == 1 ? "1 device of this service is there" : "\(count) devices of this service are there"
        while true {
            let checks = try await run("\(environment) relay doctor --json").json["checks"] as? [[String: Any]] ?? []
            let nearby = checks.first { $0["name"] as? String == "nearby" }?["message"] as? String ?? ""
            if nearby.contains(text), nearby.contains("of these it knows pc") { return }
            try Task.checkCancellation()
        }
    }

    /// Takes the cable out, or puts it in.
    func setCable(_ isIn: Bool) throws { try ip("link", "set", "eth0", isIn ? "up" : "down") }

    /// Connects two machines by a cable of its own, and leads packets for an address of the other one over it.
    /// - Parameter network: The first three bytes of its addresses.
    func connect(to other: TestMachine, network: String, for address: String) throws {
        let port = "cable\(UUID().uuidString.prefix(8))"
        try ip("link", "add", "eth1", "type", "veth", "peer", "name", port, "netns", other.namespace)
        try other.ip("address", "add", "\(network).1/24", "dev", port)
        try other.ip("link", "set", port, "up")
        try ip("address", "add", "\(network).2/24", "dev", "eth1")
        try ip("link", "set", "eth1", "up")
        try ip("route", "add", address, "via", "\(network).1")
    }

    /// Connects this machine to a switch by a second cable.
    func connect(toSwitch hub: TestMachine, address: String) throws {
        try hub.ip("link", "add", "second", "type", "veth", "peer", "name", "eth2", "netns", namespace)
        try hub.ip("link", "set", "second", "master", "br0", "up")
        try ip("address", "add", address, "dev", "eth2")
        try ip("link", "set", "eth2", "up")
    }

    /// Gives this machine another address, at no cable or at that of an interface.
    func add(address: String, at interface: String = "lo") throws { try ip("address", "add", address, "dev", interface) }

    /// Gives another machine a name on this one.
    func name(_ address: String, _ name: String) throws {
        try Data("127.0.0.1 localhost\n\(address) \(name)\n".utf8).write(to: directory.appending(path: "hosts"))
    }

    /// Starts a command line on the machine.
    /// - Parameter hasInput: Whether its standard input gets what `write` writes.
    func start(_ line: String, hasInput: Bool = false) throws -> RelayProcess {
        let set = #"hostname "$0"; [ ! -e hosts ] || mount --bind hosts /etc/hosts; exec bash -c "$1""#
        return try RelayProcess(
            ["netns", "exec", namespace, "unshare", "--uts", "--mount", "bash", "-c", set, name, line],
            executable: URL(filePath: Self.search("ip")),
            environment: ["HOME": directory.path, "USER": "anna", "PATH": "\(Project.products.path):\(Self.path)", "TZ": "UTC"],
            directory: directory,
            hasInput: hasInput
        )
    }

    /// Starts a command line at a terminal of the machine, which shows both of its outputs.
    func startAtTerminal(_ line: String) throws -> RelayProcess {
        let file = directory.appending(path: "terminal-\(UUID().uuidString)")
        try Data(line.utf8).write(to: file)
        // util-linux's `script` provides the terminal.
        return try start("exec script -qefc 'bash \(file.path)' /dev/null", hasInput: true)
    }

    func run(_ line: String) async throws -> CommandOutput { try await start(line).finish() }

    /// Drops incoming packets of a port.
    func drop(port: Int) throws {
        for rule in ["table inet filter", "chain inet filter input { type filter hook input priority 0; }"] {
            try Self.run("ip", "netns", "exec", namespace, "nft", "add \(rule)")
        }
        try Self.run("ip", "netns", "exec", namespace, "nft", "add rule inet filter input tcp dport \(port) counter drop")
    }

    /// The number of dropped packets.
    func droppedPackets() async throws -> Int {
        let rules = try await run("nft list ruleset").text
        return rules.firstMatch(of: /counter packets ([0-9]+)/).flatMap { Int($0.1) } ?? 0
    }

    private func ip(_ arguments: String...) throws { try Self.run(["ip", "-n", namespace] + arguments) }

    private static let path = "/usr/sbin:/usr/bin:/sbin:/bin"

    private static func search(_ program: String) -> String {
        path.split(separator: ":").map { "\($0)/\(program)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
            ?? "/bin/\(program)"
    }

    private static func run(_ command: String...) throws { try run(command) }

    private static func run(_ command: [String]) throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["PATH=\(path)"] + command
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try ProcessStart.alone { try process.run() }
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failed(message: "\(command) ended with \(process.terminationStatus)") }
    }
}
#endif
