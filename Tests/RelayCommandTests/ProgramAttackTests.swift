// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// What a service program must not get from the agent, and must not leave behind.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ProgramAttackTests {
    private static let app = "TV/org.device-relay.agent"

    @Test func programsDoNotGetTheSecretsOfTheAgent() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let opened = tv.directory.path + "/opened"
        let show = #"printf '{"v":"%s"}' "$MY_SECRET,$MY_SETTING,$LANG,$XDG_CONFIG_HOME,$DISPLAY""#
        try tv.setAgent(
            """
            environment: [MY_SETTING]
            open:
              command: \(try Settings.shell(#"echo "$MY_SECRET,$MY_SETTING,$DISPLAY" >> "$1""#, opened, "{uri}"))
            services:
              show: {command: \(try Settings.shell(show))}
            """
        )
        let added = ["MY_SECRET": "secret", "MY_SETTING": "setting", "LANG": "C.UTF-8", "DISPLAY": ":7"]
        let agent = try RelayProcess(["agent", "--home", tv.home], environment: tv.environment.merging(added) { $1 })
        _ = try await agent.line { $0.hasPrefix("ready") }
        let answer = try await desk.relay("call", Self.app, "show")
        let value = try JSON.object(answer.text)["v"] as? String
        #expect(value == ",setting,C.UTF-8,\(tv.directory.path)/config,", "\(answer.errorText)")
        #expect(try await desk.relay("launch", "TV", "https://films.example/1").status == 0)
        #expect(lines(of: opened) == [",setting,:7"])
    }

    #if os(Linux)
    @Test(arguments: ["once", "lines"]) func programInAnotherSessionEndsAtTheTimeout(mode: String) async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let pids = tv.directory.path + "/pids"
        // One process in another session whose parent has exited, and one that ignores SIGTERM.
        let script = #"""
            (setsid sh -c 'echo $$ >> "$0"; exec sleep 600' "$1" >/dev/null 2>&1 &)
            setsid sh -c 'trap "" TERM; echo $$ >> "$0"; while :; do sleep 1; done' "$1" >/dev/null 2>&1 &
            sleep 600
            """#
        let agent = try await tv.agent("services:\n  s: {command: \(try Settings.shell(script, pids)), timeout: 2, mode: \(mode)}")
        let output = try await desk.relay("call", Self.app, "s", "--json")
        #expect(try code(output) == "timedOut")
        try await wait { lines(of: pids).count == 2 }
        for pid in lines(of: pids).compactMap({ pid_t($0) }) { try await wait { kill(pid, 0) != 0 || isZombie(pid) } }
        // The processes also end with the agent.
        let call = try desk.start("call", Self.app, "s", "--json")
        try await wait { lines(of: pids).count == 4 }
        agent.send(SIGTERM)
        #expect(await agent.finish().status == 0)
        for pid in lines(of: pids).compactMap({ pid_t($0) }) { #expect(kill(pid, 0) != 0 || isZombie(pid)) }
        _ = await call.finish()
    }

    /// Whether the process has exited and its parent has not reaped it.
    private func isZombie(_ pid: pid_t) -> Bool {
        let status = FileManager.default.contents(atPath: "/proc/\(pid)/stat").map { String(decoding: $0, as: UTF8.self) } ?? ""
        return status.contains(") Z ")
    }
    #endif
}
