// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

@testable import RelayAgent

@Suite(.serialized, .timeLimit(.minutes(10))) struct InstallTests {
    private let settings = ServiceManager.Settings(
        executable: "/opt/a \"b\"/relay",
        home: "/home/anna/100% $HOME\\",
        configuration: "/home/anna/<a&b>.yaml",
        configurationHome: "/home/anna/conf $1",
        isGraphical: true
    )

    @Test func pathsAreQuotedForSystemd() {
        let unit = ServiceManager.systemd.description(of: settings).split(separator: "\n")
        #expect(
            unit.contains(
                #"ExecStart="/opt/a \"b\"/relay" "agent" "--home" "/home/anna/100%% $$HOME\\" "--config" "/home/anna/<a&b>.yaml""#
            )
        )
        #expect(unit.contains(#"Environment="XDG_CONFIG_HOME=/home/anna/conf $1""#))
        #expect(unit.contains("WantedBy=graphical-session.target") && unit.contains("KillMode=process"))
        var other = settings
        other.isGraphical = false
        #expect(ServiceManager.systemd.description(of: other).contains("WantedBy=default.target"))
        #expect(!ServiceManager.systemd.description(of: other).contains("graphical"))
    }

    @Test func pathsAreQuotedForLaunchd() throws {
        let text = ServiceManager.launchd.description(of: settings)
        let list = try PropertyListSerialization.propertyList(from: Data(text.utf8), format: nil) as? [String: Any]
        #expect(
            list?["ProgramArguments"] as? [String] == [
                "/opt/a \"b\"/relay", "agent", "--home", "/home/anna/100% $HOME\\", "--config", "/home/anna/<a&b>.yaml",
            ]
        )
        #expect(list?["Label"] as? String == "org.device-relay.agent")
    }

    @Test func bothProgramsPrintTheirVersion() async throws {
        // The commit is unknown to a plain build.
        let version = #/(relayd?) ([0-9]+\.[0-9]+\.[0-9]+) \(commit [0-9a-z-]+, protocol [0-9]+\)/#
        // The line that the scripts read for packages.
        let stated = try #require(
            try Project.text("Sources/BuildVersion/BuildVersion.swift").firstMatch(of: /static let release = "([0-9.]+)"/)?.1
        )
        let relay = try await TestDevice().run(["--version"], withHome: false)
        #expect(relay.status == 0)
        for (name, text) in [
            ("relay", relay.text.trimmingCharacters(in: .newlines)), ("relayd", try await TestAccount().relay.run("--version")),
        ] {
            let match = try #require(text.wholeMatch(of: version), "\(text)")
            #expect(match.1 == name && match.2 == stated)
        }
        #expect(try Project.text("CHANGELOG.md").contains("\n## \(stated)\n"))
        #expect(try Project.text("docs/relay.md").contains("version=\"\(stated) (commit"))
    }

    #if os(Linux)
    @Test func serviceDescriptionIsPrintedInstalledAndRemoved() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        let printed = try await desk.relay("agent", "install", "--print")
        #expect(printed.status == 0)
        let relay = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "relay").resolvingSymlinksInPath()
        #expect(printed.text.contains(#"ExecStart="\#(relay.path)" "agent" "--home" "\#(desk.home)""#))
        #expect(printed.text.contains("WantedBy=default.target"))
        let file = try #require(try await desk.relay("agent", "install", "--print", "--json").json["file"] as? String)
        #expect(file == desk.directory.path + "/config/systemd/user/device-relay-agent.service")
        #expect(!FileManager.default.fileExists(atPath: file))
        #expect(try await desk.relay("agent", "uninstall").status == 4)
        // A new home has no running service manager.
        let installed = try await desk.relay("agent", "install", "--json")
        #expect(installed.status == 1)
        #expect(try installed.json["done"] as? Bool == false)
        #expect(
            try (installed.json["advice"] as? [String])?.first?.contains("systemctl --user enable --now device-relay-agent.service") == true
        )
        #expect(String(decoding: try #require(FileManager.default.contents(atPath: file)), as: UTF8.self) == printed.text + "\n")
        #expect(try await desk.relay("agent", "uninstall").status == 0)
        #expect(!FileManager.default.fileExists(atPath: file))
        // An agent that could not run is not installed.
        try desk.setAgent("nonsense: 1")
        #expect(try await desk.relay("agent", "install").status == 2)
        #expect(try await TestDevice().relay("agent", "install").status == 3)
        #expect(!FileManager.default.fileExists(atPath: file))
    }

    /// Stands for the manager of a user's services, of which a test has none: it starts what the unit says.
    private static let systemctl = """
        #!/bin/bash
        set -e
        case "$*" in
        '--user daemon-reload') ;;
        '--user enable --now device-relay-agent.service')
            eval "set -- $(sed -n 's/^ExecStart=//p' "$XDG_CONFIG_HOME/systemd/user/device-relay-agent.service")"
            setsid "$@" >"$HOME/agent.log" 2>&1 </dev/null &
            echo $! >"$HOME/agent.pid" ;;
        *) exit 64 ;;
        esac
        """

    @Test func linesOfTheAgentsPageWork() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        let lines = try Project.block(1, of: "docs/agent.md").split(separator: "\n").map(String.init)
        try #require(lines.count == 2)
        let programs = desk.directory.appending(path: "bin")
        try FileManager.default.createDirectory(at: programs, withIntermediateDirectories: false)
        try Data(Self.systemctl.utf8).write(to: programs.appending(path: "systemctl"))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: programs.appending(path: "systemctl").path)
        desk.variables = ["PATH": "\(programs.path):\(Project.products.path):/usr/bin:/bin", "DEVICE_RELAY_HOME": desk.home]
        func start(_ line: String) throws -> RelayProcess {
            try RelayProcess(["-c", "exec \(line)"], executable: URL(filePath: "/bin/bash"), environment: desk.environment, owner: desk)
        }
        for number in [SIGINT, SIGTERM] {
            let agent = try start(lines[0])
            _ = try await agent.line { $0.hasPrefix("ready") }
            agent.send(number)
            #expect(await agent.finish().status == 0, "signal \(number)")
        }
        let installed = await (try start(lines[1])).finish()
        #expect(installed.status == 0 && installed.text.contains("installed and started"), "\(installed.text) \(installed.errorText)")
        let written = try String(contentsOfFile: desk.directory.path + "/agent.pid", encoding: .utf8)
        let id = try #require(pid_t(written.trimmingCharacters(in: .newlines)))
        defer { kill(id, SIGKILL) }
        func isRunning() -> Bool { (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(id)/exe")) != nil }
        while (try? await AgentAPI.curl(desk, "/v1").status) != 200 {
            let log = try String(contentsOfFile: desk.directory.path + "/agent.log", encoding: .utf8)
            try #require(isRunning(), "\(log)")
            try await Task.sleep(for: .milliseconds(50))
        }
        kill(id, SIGTERM)
        while isRunning() { try await Task.sleep(for: .milliseconds(10)) }
    }
    #endif
}
