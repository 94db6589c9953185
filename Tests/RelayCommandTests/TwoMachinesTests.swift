// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

#if os(Linux)
/// The five lines of README.md on two machines, each with its own network, host name and home.
@Suite(
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(if: TestMachine.isPossible, "root alone makes networks, with iproute2 and nftables, which scripts/test installs")
)
struct TwoMachinesTests {
    private static func link(in text: String) throws -> String {
        String(try #require(text.firstMatch(of: /https:\/\/[^ ']+#relay=[^ ']+/)).0)
    }

    /// The command with a link on its standard input, as a person pastes it.
    private static func pasting(_ link: String, into command: String) -> String { "{ \(command)\n} <<< '\(link)'" }

    @Test(arguments: [false, true]) func fiveCommandsConnectTwoMachines(isTunnelPortBlocked: Bool) async throws {
        let (a, b) = try TestMachine.network()
        if isTunnelPortBlocked { try a.drop(port: 8_081) }
        let lines = Project.machineLines(of: try Project.block(2, of: "README.md"))
        try #require(lines.map(\.machine) == ["A", "A", "A", "B", "B"])

        let relay = try a.start(lines[0].command)
        let link = try Self.link(in: try await relay.line { $0.contains("#relay=") })
        // The machine has no display, so a program records the opened URIs.
        let home = a.directory.appending(path: ".local/state/device-relay")
        let opened = a.directory.path + "/opened"
        let command = try Settings.shell("printf '%s\\n' \"$2\" >> \"$1\"", opened, "{uri}")
        try FileManager.default.createDirectory(
            at: home,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        try Data("open:\n  command: \(command)\n".utf8).write(to: home.appending(path: "agent.yaml"))

        let joined = try await a.run(Self.pasting(link, into: lines[1].command))
        #expect(joined.text.contains("as pc"), "\(joined.errorText)")
        // There is no login session, so no service manager runs. The command installs the agent for the next session and prints
        // how to start it.
        #expect(joined.status == 1 && joined.text.contains("systemctl --user"), "\(joined.text)")
        let unit = a.directory.path + "/.config/systemd/user/device-relay-agent.service"
        #expect(FileManager.default.fileExists(atPath: unit))
        let agent = try a.start("relay agent")
        _ = try await agent.line { $0.hasPrefix("ready") }

        let invited = try await a.run(lines[2].command)
        #expect(invited.status == 0, "\(invited.errorText)")
        let second = try await b.run(Self.pasting(try Self.link(in: invited.text), into: lines[3].command))
        #expect(second.status == 0, "\(second.errorText)")
        #expect(second.text.contains("as laptop"), "\(second.text)")
        let launched = try await b.run(lines[4].command)
        #expect(launched.status == 0, "\(launched.errorText)")
        #expect(RelayCommandTests.lines(of: opened) == ["https://www.swift.org"])

        // The devices connect, over a tunnel or a WebSocket.
        let ping = try await b.run("relay ping pc --count 3 --interval 0.1")
        #expect(ping.status == 0, "\(ping.text) \(ping.errorText)")
        #expect(ping.output.contains("3 sent, 3 received, 0 lost"), "\(ping.text)")
        let doctor = try await b.run("relay doctor pc --json")
        let checks = try doctor.json["checks"] as? [[String: Any]] ?? []
        #expect(checks.first { $0["name"] as? String == "device" }?["status"] as? String == "ok", "\(doctor.text)")
        let tunnel = checks.first { $0["name"] as? String == "tunnel" }?["status"] as? String
        #expect(tunnel == (isTunnelPortBlocked ? "warning" : "ok"), "\(doctor.text)")
        if isTunnelPortBlocked { #expect(try await a.droppedPackets() > 0) }
    }

    /// A relay that begins with its own machine alone gets an address of the network by the command that the invitation names. The device
    /// there stays, and its next invitation leads to the network.
    @Test func invitationFromTheRelaysOwnMachineLeadsToTheNetwork() async throws {
        let (a, b) = try TestMachine.network()
        var relay = try a.start("relayd serve")
        let first = try #require(try await relay.line { $0.contains("#relay=") }.firstMatch(of: /http:\/\/[^ ']+#relay=[^ ']+/)?.0)
        #expect(try await a.run(Self.pasting(String(first), into: "relay join --name pc")).status == 0)
        let local = try await a.run("relay invite")
        #expect(local.text.hasPrefix("http://127.0.0.1:8080/#"), "\(local.text)")
        let advice = try #require(local.errorText.firstMatch(of: /relayd serve( --listen [0-9.:]+)+/)?.0)
        relay.send(SIGTERM)
        _ = await relay.finish()

        relay = try a.start(String(advice))
        let ready = try await relay.line { $0.contains("ready at ") }
        #expect(ready.contains("ready at https://") && ready.contains("http://127.0.0.1:8080"), "\(ready)")
        let invited = try await a.run("relay invite")
        let joined = try await b.run(Self.pasting(try Self.link(in: invited.text), into: "relay join --name laptop"))
        #expect(joined.status == 0, "\(joined.errorText)")
        let devices = try await b.run("relay devices --all --json")
        #expect(devices.text.contains(#""name":"pc""#), "\(devices.text)")
        // The operator's invitation, too.
        let operators = try await a.run("relayd invite anna")
        #expect(operators.text.hasPrefix("https://"), "\(operators.text) \(operators.errorText)")
        relay.send(SIGTERM)
        _ = await relay.finish()
    }
}
#endif
