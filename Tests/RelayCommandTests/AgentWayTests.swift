// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Commands by the running agent.
@Suite(.serialized, .timeLimit(.minutes(10))) struct AgentWayTests {
    /// What differs between two runs of a command by its nature: ids, times and ages.
    private static func lasting(_ lines: [String]) -> [String] {
        lines.map {
            $0.replacing(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/, with: "ID")
                .replacing(/\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?/, with: "TIME")
                .replacing(/\d+ (s|min)\b/, with: "AGE")
                .replacing(/(connected|endpoint) for AGE|connected *$/, with: "connected")
        }
    }

    @Test func commandsAreTheSameBothWays() async throws {
        let pair = try await AgentPair()
        let id = "019a7c3e-0000-7000-8000-000000000000"
        let commands: [[String]] = [
            ["launch", "TV", "https://films.example/1"], ["launch", "TV", "https://films.example/ü", "--json"],
            ["launch", "TV/nothing", "https://films.example/3"],
            ["launch", "Nowhere", "https://films.example/3"], ["launch", "TV", "x-unknown:1"], ["launch", "TV", "x-unknown:1", "--json"],
            ["launch", "TV", "no uri"], ["launch", "TV", "x-unknown:1", "--fallback", "https://films.example/4", "--json"],
            ["devices"], ["devices", "--all"], ["devices", "--json"], ["devices", "--all", "--json"],
            ["call", "TV", "ping", #"{"a":12345678901234567,"b":{"$data":"AAE="},"c":[1.5,true,null]}"#],
            ["call", "TV", "ping", #"{"a":1}"#, "--json"], ["call", "TV", "nothing", "{}"], ["call", "Nowhere", "ping", "{}", "--json"],
            ["call", "TV", "ping", #"{"a":}"#], ["cancel", id], ["cancel", id, "--json"], ["cancel", "nonsense"],
        ]
        for command in commands {
            let (one, other) = (try await pair.desk.run(command), try await pair.desk.run(command + ["--no-agent"]))
            #expect(one.status == other.status, "\(command)")
            #expect(Self.lasting(one.output) == Self.lasting(other.output), "\(command)")
            #expect(Self.lasting(one.error) == Self.lasting(other.error), "\(command)")
        }
        // How far it has come differs by chance.
        for way in [[], ["--no-agent"]] {
            #expect(try await pair.desk.run(["launch", "TV", "https://films.example/2", "--no-wait"] + way).status == 0)
        }
        // The list has grown meanwhile, but is one list.
        let (one, other) = (try await pair.desk.relay("commands"), try await pair.desk.relay("commands", "--no-agent"))
        #expect(one.output == other.output && one.output.count > 6)
    }

    /// What changes the account, each time on a device of its own.
    @Test func decisionsAreTheSameBothWays() async throws {
        let pair = try await AgentPair()
        let others = [try await pair.account.device(named: "Phone"), try await pair.account.device(named: "Phone")]
        var ids: [String] = []
        for device in others { ids.append(try #require(try await device.relay("whoami", "--json").json["endpoint"] as? String)) }
        let own = try #require(try await pair.desk.relay("whoami", "--json").json["endpoint"] as? String)
        func compare(_ one: [String], _ other: [String]) async throws {
            let answers = (try await pair.desk.run(one), try await pair.desk.run(other + ["--no-agent"]))
            func lasting(_ lines: [String]) -> [String] { Self.lasting(lines.map { $0.replacing(/[a-z2-7]{52}/, with: "ID") }) }
            #expect(answers.0.status == answers.1.status, "\(one)")
            #expect(lasting(answers.0.output) == lasting(answers.1.output), "\(one)")
            #expect(lasting(answers.0.error) == lasting(answers.1.error), "\(one)")
        }
        for wrong in ["Phone", "nowhere", own, String(repeating: "a", count: 52), "abcd"] {
            for action in ["approve", "revoke"] { try await compare([action, wrong], [action, wrong]) }
        }
        try await compare(["approve", ids[0]], ["approve", ids[1]])
        try await compare(["approve", ids[0]], ["approve", ids[0]])
        try await compare(["revoke", ids[0]], ["revoke", ids[1]])
        let left = try #require(try await pair.desk.relay("devices", "--all", "--json").json["endpoints"] as? [[String: Any]])
        #expect(Set(left.compactMap { $0["name"] as? String }) == ["Desk", "TV"])
        // How long something takes differs by chance.
        func checks(_ way: [String]) async throws -> [String] {
            let result = try await pair.desk.run(["doctor", "TV", "--json"] + way)
            let checks = try #require(try result.json["checks"] as? [[String: Any]])
            return checks.map { "\($0["name"] ?? "") \($0["status"] ?? "")" }
        }
        let names = try await checks([])
        #expect(names == (try await checks(["--no-agent"])))
        #expect(names.contains("device ok"))
    }

    /// Ctrl-C ends the waiting and nothing else, and says what goes on.
    @Test(arguments: [[], ["--no-agent"]]) func interruptedWaitNamesTheLaunch(way: [String]) async throws {
        let pair = try await AgentPair()
        pair.host.send(SIGKILL)
        _ = await pair.host.finish()
        let launch = try pair.desk.startReading(["launch", "TV", "https://films.example/1", "--wait", "600", "--json"] + way)
        while ((try await pair.desk.relay("commands", "--json").json["commands"] as? [Any])?.count ?? 0) == 0 {}
        launch.send(SIGINT)
        let output = await launch.finish()
        #expect(output.status == 130)
        let failure = try #require(try output.json["error"] as? [String: Any])
        #expect(failure["code"] as? String == "pending")
        let list = try #require(try await pair.desk.relay("commands", "--json").json["commands"] as? [[String: Any]])
        #expect(list.first?["id"] as? String == failure["command"] as? String && list.first?["ended"] as? Bool == false)
    }

    /// Puts something in the place of the agent, which was killed.
    private static func replaceAgent(_ pair: AgentPair, version: String?) async throws -> RelayProcess {
        let about = try await AgentAPI.curl(pair.desk, "/v1").json
        let (instance, own) = (try #require(about["instance"] as? String), try #require(about["version"] as? String))
        let file = try JSON.object(String(contentsOfFile: pair.desk.home + "/agent.json", encoding: .utf8))
        pair.agent.send(SIGKILL)
        _ = await pair.agent.finish()
        let script = Project.root.appending(path: "scripts/other-agent.py").path
        let other = try RelayProcess(
            [script, try #require(file["socket"] as? String), instance, version ?? own],
            executable: URL(filePath: "/usr/bin/python3"),
            environment: [:]
        )
        _ = try await other.line { $0 == "ready" }
        return other
    }

    /// Beside an agent of another version, commands work by themselves, and ask it for nothing but its version.
    @Test func agentOfAnotherVersionIsNotUsed() async throws {
        let pair = try await AgentPair()
        let other = try await Self.replaceAgent(pair, version: "0.0.1")
        #expect(try await pair.desk.relay("launch", "TV", "https://films.example/1").status == 0)
        #expect(try await pair.desk.relay("devices").output.contains { $0.hasPrefix("TV") })
        let new = try await pair.desk.relay("asks")
        #expect(new.status != 0 && !new.error.isEmpty)
        other.send(SIGKILL)
        let requests = await other.finish().output
        #expect(!requests.isEmpty && requests.allSatisfy { $0 == "GET /v1 HTTP/1.1" }, "\(requests)")
    }

    /// What was sent to an agent that dies is never done a second time: `relay` says that it may have run.
    @Test func whatADyingAgentMayHaveDoneIsNotRepeated() async throws {
        let pair = try await AgentPair()
        let other = try await Self.replaceAgent(pair, version: nil)
        let commands = [
            ["launch", "TV", "https://films.example/1"], ["call", "TV", "ping", "{}"], ["invite"], ["devices"], ["commands"],
            ["cancel", "019a7c3e-0000-7000-8000-000000000000"],
        ]
        for command in commands {
            let output = try await pair.desk.run(command + ["--json"])
            let failure = try #require(try output.json["error"] as? [String: Any], "\(command)")
            #expect(output.status == 1 && failure["code"] as? String == "agentLost", "\(command): \(output.text)")
        }
        other.send(SIGKILL)
        let requests = await other.finish().output.filter { $0 != "GET /v1 HTTP/1.1" }
        #expect(requests.count == commands.count, "\(requests)")
        // The host got nothing before this one.
        #expect(try await pair.desk.relay("launch", "TV", "https://films.example/2", "--no-agent").status == 0)
        #expect(try JSON.object(try await pair.host.line())["uri"] as? String == "https://films.example/2")
    }

    /// What the agent says while others use its API has neither what they send nor what they prove themselves with.
    @Test func secretsOfTheAPIReachNoOutput() async throws {
        let pair = try await AgentPair()
        let canary = "canary-7f3e"
        let made = try await AgentAPI.post(pair.desk, "/v1/tokens", #"{"name":"script","scopes":["launch","call"]}"#)
        let token = try #require((try made.json["token"] as? [String: Any])?["token"] as? String)
        let headers = ["Prefer: wait=30", "Idempotency-Key: \(canary)", "Authorization: Bearer \(token)"]
        let body = #"{"device":"TV","uri":"https://films.example/\#(canary)"}"#
        #expect(try await AgentAPI.post(pair.desk, "/v1/launches", body, headers).status == 200)
        let call = #"{"device":"TV","service":"ping","message":{"text":"\#(canary)"}}"#
        #expect(try await AgentAPI.post(pair.desk, "/v1/calls", call, "Authorization: Bearer \(token)").status == 200)
        let wrong = try await AgentAPI.curl(pair.desk, "/v1/devices?\(canary)", "-H", "Authorization: Bearer drt_\(canary)")
        #expect(wrong.status == 401)
        #expect(try await AgentAPI.post(pair.desk, "/v1/launches", #"{"\#(canary)":1}"#).status == 400)
        let link = try #require(try await pair.desk.relay("console", "--print").output.first)
        let key = try #require(link.split(separator: "=").last.map(String.init))
        pair.agent.send(SIGTERM)
        let output = await pair.agent.finish()
        for secret in [canary, token, key] { #expect(!output.text.contains(secret)) }
    }

    /// `watch` follows the agent, and goes on when it ends, without a repetition.
    @Test func watchOutlivesTheAgent() async throws {
        let pair = try await AgentPair()
        let (watch, words) = (try pair.desk.start("watch", "--json"), try pair.desk.start("watch"))
        let added = try JSON.object(try await watch.line { $0.contains(#""event":"added""#) })
        #expect((added["device"] as? [String: Any])?["name"] as? String == "TV")
        #expect(try await words.line().hasPrefix("+ TV"))
        _ = try await watch.line { $0.contains("enumerationCompleted") }
        let radio = try await pair.account.device(named: "Radio")
        #expect(try await watch.line { $0.contains(#""event":"joined""#) }.contains("Radio"))
        #expect(try await words.line { $0.contains("joined") }.contains("Radio"))
        pair.agent.send(SIGKILL)
        _ = await pair.agent.finish()
        pair.host.send(SIGTERM)
        _ = await pair.host.finish()
        // A host that ends withdraws its app.
        let next = try await watch.line { $0.contains(#""event":"added""#) || $0.contains(#""event":"removed""#) }
        #expect(next.contains(#""event":"removed""#) && next.contains("TV"))
        #expect(try await words.line { $0.hasPrefix("+") || $0.hasPrefix("-") }.hasPrefix("- TV"))
        watch.send(SIGINT)
        words.send(SIGTERM)
        #expect(await watch.finish().status == 0)
        #expect(await words.finish().status == 0)
        _ = radio
    }

    @Test(arguments: [SIGINT, SIGTERM]) func watchOfTheAgentEndsWithASignal(signal: Int32) async throws {
        let pair = try await AgentPair()
        let watch = try pair.desk.start("watch", "--json")
        _ = try await watch.line { $0.contains("enumerationCompleted") }
        watch.send(signal)
        #expect(await watch.finish().status == 0)
    }

    @Test func commandNeedsNothingButTheAgent() async throws {
        let pair = try await AgentPair()
        try FileManager.default.moveItem(atPath: pair.desk.home + "/relay.json", toPath: pair.desk.home + "/away.json")
        #expect(try await pair.desk.relay("devices", "--no-agent").status == 3)
        #expect(try await pair.desk.relay("devices").output.contains { $0.hasPrefix("TV") })
        #expect(try await pair.desk.relay("launch", "TV", "https://films.example/1").status == 0)
        try FileManager.default.moveItem(atPath: pair.desk.home + "/away.json", toPath: pair.desk.home + "/relay.json")
        // An agent that was killed leaves its file and its socket. Commands then work by themselves.
        pair.agent.send(SIGKILL)
        _ = await pair.agent.finish()
        #expect(FileManager.default.fileExists(atPath: pair.desk.home + "/agent.json"))
        #expect(try await pair.desk.relay("devices").status == 0)
        // The next one replaces both.
        let next = try await pair.desk.agent()
        #expect(try await AgentAPI.curl(pair.desk, "/v1").status == 200)
        next.send(SIGTERM)
        _ = await next.finish()
        #expect(!FileManager.default.fileExists(atPath: pair.desk.home + "/agent.json"))
        #expect(try await pair.desk.relay("devices").status == 0)
    }
}
