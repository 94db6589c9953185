// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

@Suite(.serialized, .timeLimit(.minutes(10))) struct AgentServiceTests {
    private static let app = "TV/org.device-relay.agent"

    @Test func programsAnswerMessages() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let id = try #require(try await desk.relay("whoami", "--json").json["device"] as? String)
        let environment =
            #"printf '{"name":"%s","device":"%s","service":"%s"}' "$DEVICE_RELAY_DEVICE_NAME" "$DEVICE_RELAY_DEVICE" "$DEVICE_RELAY_SERVICE""#
        let agent = try await tv.agent(
            """
            services:
              cat: {command: [cat], devices: [\(id)]}
              other: {command: [cat], devices: [\(String(repeating: "a", count: 51))q]}
              deaf: {command: \(try Settings.shell("exec 0<&-; echo '{\"deaf\":true}'"))}
              who: {command: \(try Settings.shell(environment))}
              loud: {command: \(try Settings.shell("seq 1 1000 >&2; echo '{}'"))}
              lines:
                mode: lines
                command: \(try Settings.shell(#"n=0; while read -r line; do n=$((n+1)); echo "{\"n\":$n}"; done"#))
            """
        )
        let large = #"{"x":"\#(String(repeating: "é\\u2028", count: 30_000))"}"#
        let caller = try desk.startReading("call", Self.app, "cat", "-")
        try caller.write(large)
        try caller.endInput()
        #expect(await caller.finish().status == 0)
        #expect(try await desk.relay("call", Self.app, "other").status == 6)
        #expect(
            try await desk.relay("call", Self.app, "deaf", #"{"x":"\#(String(repeating: "x", count: 100_000))"}"#).text == #"{"deaf":true}"#
        )
        #expect(
            try JSON.object(try await desk.relay("call", Self.app, "who").text) as? [String: String] == [
                "name": "Desk", "device": id, "service": "who",
            ]
        )
        #expect(try await desk.relay("call", Self.app, "loud").status == 0)
        let stream = try desk.startReading("call", Self.app, "lines", "--stream")
        for n in 1...3 {
            try stream.write("{\"x\":\"\\u2028\"}\n")
            #expect(try await stream.line() == #"{"n":\#(n)}"#)
        }
        try stream.endInput()
        #expect(await stream.finish().status == 0)
        // Each connection has its own program.
        #expect(try await desk.relay("call", Self.app, "lines").text == #"{"n":1}"#)
        agent.send(SIGTERM)
        let end = await agent.finish()
        #expect(end.status == 0)
        let said = end.error.filter { $0.hasPrefix("loud: ") }
        #expect(said.count == 21 && said.last?.contains("left out") == true)
    }

    @Test func failuresOfAProgramAreReportedAndDoNotAffectOthers() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let pids = tv.directory.path + "/pids"
        let faults: [(name: String, script: String, code: String, says: String)] = [
            // Only programs that never answer get the short time limit of 2 s; the others must not time out on a slow machine.
            ("fails", "exit 3", "failure", "exit code 3"), ("crashes", "kill -SEGV $$", "failure", "signal 11"),
            ("hangs", "echo $$ >> '\(pids)'; sleep 600", "timedOut", "2 s"),
            ("hides", "exec 1>&- 2>&-; echo $$ >> '\(pids)'; trap '' TERM; while :; do sleep 600; done", "timedOut", "2 s"),
            ("babbles", "echo hello", "failure", "JSON"), ("lists", "echo '[1]'", "failure", "JSON"), ("says", "true", "failure", "JSON"),
            ("floods", "echo $$ >> '\(pids)'; head -c 20971520 /dev/zero | tr '\\0' x; sleep 600", "messageTooLarge", "16777216"),
        ]
        for mode in ["once", "lines"] {
            var settings = "services:\n  none: {command: [/no/such], mode: \(mode)}\n  cat: {command: [cat], mode: \(mode)}\n"
            for fault in faults {
                let timeout = fault.code == "timedOut" ? 2 : 300
                settings += "  \(fault.name): {command: \(try Settings.shell(fault.script)), timeout: \(timeout), mode: \(mode)}\n"
            }
            let agent = try await tv.agent(settings)
            for fault in faults {
                let output = try await desk.relay("call", Self.app, fault.name, "--json", "--timeout", "300")
                let error = try #require(try output.json["error"] as? [String: Any], "\(mode) \(fault.name)")
                // With one program for each connection, a closed output counts as the end of the program.
                let hasEnded = mode == "lines" && ["hides", "says"].contains(fault.name)
                #expect(error["code"] as? String == (hasEnded ? "failure" : fault.code), "\(mode) \(fault.name): \(error)")
                #expect(hasEnded || (error["message"] as? String)?.contains(fault.says) == true, "\(mode) \(fault.name): \(error)")
            }
            let none = try await desk.relay("call", Self.app, "none", "--json")
            #expect(try code(none) == "appUnavailable")
            #expect(!none.text.contains("/no/such"))
            #expect(try await desk.relay("call", Self.app, "cat", #"{"a":1}"#).text == #"{"a":1}"#)
            agent.send(SIGTERM)
            let end = await agent.finish()
            #expect(end.status == 0)
            #expect(end.errorText.contains("/no/such is not there"))
        }
        #expect(lines(of: pids).count >= 2)
        for pid in lines(of: pids).compactMap({ pid_t($0) }) { try await wait { kill(pid, 0) != 0 } }
    }

    @Test func programEndsWithItsCallerOrTheAgent() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let pids = tv.directory.path + "/pids"
        let hang = try Settings.shell(#"echo $$ >> "$1"; sleep 600"#, pids)
        let agent = try await tv.agent("services:\n  hang: {command: \(hang), timeout: 600}")
        let first = try desk.start("call", Self.app, "hang", "--timeout", "600")
        try await wait { lines(of: pids).count == 1 }
        first.send(SIGKILL)
        let one = try #require(pid_t(lines(of: pids)[0]))
        try await wait { kill(one, 0) != 0 }
        let second = try desk.start("call", Self.app, "hang", "--timeout", "600")
        try await wait { lines(of: pids).count == 2 }
        agent.send(SIGTERM)
        #expect(await agent.finish().status == 0)
        let two = try #require(pid_t(lines(of: pids)[1]))
        try await wait { kill(two, 0) != 0 }
        #expect(await second.finish().status != 0)
    }
}
