// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

/// What another device asks, answered through the agent.
@Suite(.serialized, .timeLimit(.minutes(10))) struct AgentAskTests {
    private static let settings = #"""
        open:
          ask: [x-note]
          command: [/bin/true, "{uri}"]
        """#

    /// The first open question of a device, once there is one.
    private func ask(_ device: TestDevice, after sequence: Int = 0) async throws -> [String: Any] {
        var sequence = sequence
        while true {
            let list = try await AgentAPI.curl(device, "/v1/asks?after=\(sequence)", "-H", "Prefer: wait=30").json
            if let first = (list["asks"] as? [[String: Any]])?.first { return first }
            sequence = try #require(list["sequence"] as? Int)
        }
    }

    /// Waits until a program counts as a person who can be asked.
    private func follower(_ device: TestDevice) throws -> RelayProcess { try device.start("asks", "--follow", "--json") }

    @Test func launchWaitsForAPersonAndNobodyElse() async throws {
        let pair = try await AgentPair(Self.settings, isMutual: true)
        // Nobody looks: the answer comes at once.
        let alone = try await pair.tv.relay("launch", "Desk", "x-note:1", "--json")
        #expect(alone.status == 6)
        let follower = try follower(pair.desk)
        _ = try await follower.line()
        for (answer, status) in [("once", Int32(0)), ("no", 6)] {
            let launch = try pair.tv.start("launch", "Desk", "x-note:2", "--json")
            let line = try JSON.object(try await follower.line { $0.contains("x-note:2") })
            let ask = try #require((line["asks"] as? [[String: Any]])?.first)
            let device = try #require(ask["device"] as? [String: Any])
            #expect(ask["kind"] as? String == "launch" && ask["uri"] as? String == "x-note:2" && ask["canAlways"] as? Bool == true)
            #expect(device["name"] as? String == "TV" && device["new"] as? Bool == false)
            let id = try #require(ask["id"] as? String)
            #expect(try await pair.desk.relay("asks", "answer", id, answer).status == 0)
            #expect(await launch.finish().status == status, "\(answer)")
            let late = try await AgentAPI.post(pair.desk, "/v1/asks/\(id)", #"{"answer":"once"}"#)
            #expect(late.status == 409 && late.code == "answered")
        }
        #expect(try await AgentAPI.post(pair.desk, "/v1/asks/nothing", #"{"answer":"once"}"#).status == 404)
        #expect(try await AgentAPI.post(pair.desk, "/v1/asks/nothing", #"{"answer":"maybe"}"#).status == 400)
        follower.send(SIGINT)
        _ = await follower.finish()
    }

    @Test func alwaysIsAGrantThatEnds() async throws {
        let pair = try await AgentPair(Self.settings, isMutual: true)
        let follower = try follower(pair.desk)
        _ = try await follower.line()
        let launch = try pair.tv.start("launch", "Desk", "x-note:1", "--json")
        let id = try #require(try await ask(pair.desk)["id"] as? String)
        for until in ["2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "soon"] {
            let answer = try await AgentAPI.post(pair.desk, "/v1/asks/\(id)", #"{"answer":"always","until":"\#(until)"}"#)
            #expect(answer.status == 400 && answer.code == "untilInvalid", "\(until)")
        }
        #expect(try await pair.desk.relay("asks", "answer", id, "always").status == 0)
        #expect(await launch.finish().status == 0)
        follower.send(SIGINT)
        _ = await follower.finish()
        // Without anybody who looks.
        #expect(try await pair.tv.relay("launch", "Desk", "x-note:2").status == 0)
        let grants = try #require(try await pair.desk.relay("grants", "--json").json["grants"] as? [[String: Any]])
        let grant = try #require(grants.first { $0["source"] as? String == "ask" })
        #expect(grant["scheme"] as? String == "x-note" && grant["uses"] as? Int == 1)
        // It outlives the agent.
        pair.agent.send(SIGKILL)
        _ = await pair.agent.finish()
        let agent = try await pair.desk.agent(Self.settings)
        #expect(try await pair.tv.relay("launch", "Desk", "x-note:3").status == 0)
        #expect(try await pair.desk.relay("grants", "remove", try #require(grant["id"] as? String)).status == 0)
        // A moment ago somebody looked, so the launch may wait for an answer that does not come.
        #expect(try await pair.tv.relay("launch", "Desk", "x-note:4").status == 6)
        // What the settings do not ask about has no grant.
        for arguments in [["--known", "--scheme", "https"], ["--known", "--transfer"], ["Nowhere", "--scheme", "x-note"]] {
            #expect(try await pair.desk.run(["grants", "add"] + arguments).status != 0, "\(arguments)")
        }
        #expect(try await pair.desk.relay("grants", "add", "TV", "--scheme", "x-note", "--expires", "1d").status == 0)
        #expect(try await pair.tv.relay("launch", "Desk", "x-note:5").status == 0)
        let audit = try #require(try await pair.desk.relay("audit", "--json").json["entries"] as? [[String: Any]])
        #expect(audit.contains { $0["action"] as? String == "launch" && ($0["principal"] as? String)?.hasPrefix("device:") == true })
        #expect(!"\(audit)".contains("x-note:5"), "no URI")
        agent.send(SIGTERM)
        _ = await agent.finish()
    }

    /// A token answers within its scopes and for its devices alone.
    @Test func tokensAnswerWithinTheirScopes() async throws {
        let pair = try await AgentPair(Self.settings, isMutual: true)
        func token(_ name: String, _ body: String) async throws -> String {
            let made = try await AgentAPI.post(pair.desk, "/v1/tokens", #"{"name":"\#(name)",\#(body)}"#)
            return "Authorization: Bearer \(try #require((try made.json["token"] as? [String: Any])?["token"] as? String))"
        }
        let other = String(repeating: "a", count: 52)
        let answers = try await token("answers", #""scopes":["asks"]"#)
        let blind = try await token("blind", #""scopes":["asks","grants"],"devices":["\#(other)"]"#)
        let none = try await token("none", #""scopes":["launch","grants"]"#)
        let follower = try follower(pair.desk)
        _ = try await follower.line()
        let launch = try pair.tv.start("launch", "Desk", "x-note:1", "--json")
        let id = try #require(try await ask(pair.desk)["id"] as? String)
        #expect(try await AgentAPI.curl(pair.desk, "/v1/asks", "-H", none).status == 403)
        #expect(try await AgentAPI.curl(pair.desk, "/v1/asks", "-H", blind).json["asks"] as? [String] == [])
        for (name, header, body, status) in [
            ("none", none, #"{"answer":"once"}"#, 403), ("answers", answers, #"{"answer":"always"}"#, 403),
        ] {
            #expect(try await AgentAPI.post(pair.desk, "/v1/asks/\(id)", body, header).status == status, "\(name)")
        }
        #expect(try await AgentAPI.post(pair.desk, "/v1/asks/\(id)", #"{"answer":"once"}"#, blind).status == 404)
        #expect(try await AgentAPI.post(pair.desk, "/v1/asks/\(id)", #"{"answer":"once"}"#, answers).status == 200)
        #expect(await launch.finish().status == 0)
        #expect(try await AgentAPI.post(pair.desk, "/v1/grants", #"{"known":true,"scheme":"x-note"}"#, blind).status == 403)
        #expect(try await AgentAPI.curl(pair.desk, "/v1/grants", "-H", answers).status == 403)
        follower.send(SIGINT)
        _ = await follower.finish()
    }

    /// A new device waits in the list until it is approved by its own route.
    @Test func newDeviceIsAnAsk() async throws {
        let pair = try await AgentPair()
        // TV itself is new to Desk, which joined before it.
        let ask = try await ask(pair.desk)
        #expect(ask["kind"] as? String == "newDevice" && ask["expires"] == nil)
        let id = try #require(ask["id"] as? String)
        #expect(try await AgentAPI.post(pair.desk, "/v1/asks/\(id)", #"{"answer":"once"}"#).status == 400)
        #expect(try await pair.desk.relay("approve", id).status == 0)
        while (try await AgentAPI.curl(pair.desk, "/v1/asks").json["asks"] as? [Any])?.isEmpty != true {}
    }
}
