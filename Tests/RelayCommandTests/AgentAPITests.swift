// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// The agent's API.
@Suite(.serialized, .timeLimit(.minutes(10))) struct AgentAPITests {
    @Test func launchIsOneRequest() async throws {
        let pair = try await AgentPair()
        let body = #"{"device":"TV","uri":"https://films.example/42"}"#
        let stored = try await AgentAPI.post(pair.desk, "/v1/launches", body)
        #expect(stored.status == 202)
        let command = try #require(try stored.json["command"] as? String)
        #expect(try JSON.object(try await pair.host.line())["uri"] as? String == "https://films.example/42")
        while try await AgentAPI.curl(pair.desk, "/v1/commands/\(command)").json["status"] as? String != "succeeded" {}
        let waited = try await AgentAPI.post(pair.desk, "/v1/launches", body, "Prefer: wait=30")
        #expect(waited.status == 200)
        #expect((try waited.json["attested"] as? [String: Any])?["by"] as? String == "target")
    }

    @Test func versionIsToldEverywhere() async throws {
        let pair = try await AgentPair()
        let stated = try #require(try await pair.desk.run(["--version"], withHome: false).output.first)
        let version = try #require(stated.firstMatch(of: /^relay ([0-9]+\.[0-9]+\.[0-9]+) \(/)?.1)
        let about = try await AgentAPI.curl(pair.desk, "/v1")
        #expect(try (about.json["version"] as? String)?.hasPrefix(version) == true, "\(about.text)")
        // The relay tells its own in the greeting.
        let checks = try await pair.desk.relay("doctor", "--json").json["checks"] as? [[String: Any]]
        let relay = try #require(checks?.first { $0["name"] as? String == "login" }?["message"] as? String)
        #expect(relay.contains("(version \(version))"), "\(relay)")
        #expect(try await RelaydProcess.run(["--version"]).output.hasPrefix("relayd \(version) ("))
    }

    @Test func keyMakesARepeatTheSameCommand() async throws {
        let pair = try await AgentPair()
        let body = #"{"device":"TV","uri":"https://films.example/42"}"#
        let first = try await AgentAPI.post(pair.desk, "/v1/launches", body, "Idempotency-Key: one", "Prefer: wait=30")
        let again = try await AgentAPI.post(pair.desk, "/v1/launches", body, "Idempotency-Key: one", "Prefer: wait=30")
        #expect(first.status == 200 && again.status == 200)
        #expect(try first.json["command"] as? String == again.json["command"] as? String)
        let other = try await AgentAPI.post(
            pair.desk,
            "/v1/launches",
            #"{"device":"TV","uri":"x:1"}"#,
            "Idempotency-Key: one",
            "Prefer: wait=1"
        )
        #expect(other.status == 422 && other.code == "submissionKeyReused")
        #expect((try await pair.desk.relay("commands", "--json").json["commands"] as? [Any])?.count == 1)
    }

    @Test func keyOutlivesTheAgent() async throws {
        let pair = try await AgentPair()
        _ = try await pair.account.relay.stop()
        let body = #"{"device":"TV","uri":"https://films.example/42"}"#
        let first = try await AgentAPI.post(pair.desk, "/v1/launches", body, "Idempotency-Key: one")
        #expect(first.status == 202)
        pair.agent.send(SIGKILL)
        _ = await pair.agent.finish()
        _ = try await pair.account.relay.start()
        let agent = try await pair.desk.agent()
        let again = try await AgentAPI.post(pair.desk, "/v1/launches", body, "Idempotency-Key: one", "Prefer: wait=30")
        #expect(again.status == 200)
        #expect(try first.json["command"] as? String == again.json["command"] as? String)
        // The next launch is the next event, so the first was opened once.
        _ = try await AgentAPI.post(pair.desk, "/v1/launches", #"{"device":"TV","uri":"https://films.example/43"}"#, "Prefer: wait=30")
        #expect(try JSON.object(try await pair.host.line())["uri"] as? String == "https://films.example/42")
        #expect(try JSON.object(try await pair.host.line())["uri"] as? String == "https://films.example/43")
        agent.send(SIGTERM)
        _ = await agent.finish()
    }

    @Test func badRequestsAreRefused() async throws {
        let pair = try await AgentPair()
        let good = #"{"device":"TV","uri":"https://films.example/42"}"#
        let bad: [(body: String, status: Int)] = [
            ("", 400), ("[]", 400), (#"{"device":"TV"}"#, 400), (#"{"device":"TV","uri":1}"#, 400),
            (#"{"device":"TV","uri":"no uri"}"#, 400),
            (#"{"device":"TV","uri":"https://x.example","ttl":"1"}"#, 400), (#"{"device":"TV","uri":"https://x.example","ttl":0}"#, 400),
            (#"{"device":"TV","uri":"https://x.example","uri":"https://y.example"}"#, 400),
            (#"{"device":"TV","uri":"https://x.example","fallbak":"https://y.example"}"#, 400),
            (#"{"device":"Nowhere","uri":"https://x.example"}"#, 404), (#"{"device":"TV","uri":"x-unknown:1"}"#, 404),
            (String(repeating: "[", count: 100_000), 400),
        ]
        for (body, status) in bad {
            let answer = try await AgentAPI.post(pair.desk, "/v1/launches", body)
            #expect(answer.status == status && answer.code != nil, "\(body.prefix(60)): \(answer.status) \(answer.text.prefix(200))")
        }
        #expect(try await AgentAPI.post(pair.desk, "/v1/launches", good, "Origin: https://evil.example").status == 403)
        #expect(try await AgentAPI.curl(pair.desk, "/v1", "-H", "Origin: null").status == 403)
        #expect(try await AgentAPI.curl(pair.desk, "/v1/launches", "-d", good).status == 415)
        #expect(try await AgentAPI.post(pair.desk, "/v1/launches", good, "Prefer: wait=61").status == 400)
        #expect(
            try await AgentAPI.post(pair.desk, "/v1/launches", good, "Idempotency-Key: \(String(repeating: "k", count: 256))").status == 400
        )
        #expect(
            try await AgentAPI.post(pair.desk, "/v1/calls", #"{"device":"TV","service":"ping","message":{}}"#, "Idempotency-Key: a").status
                == 400
        )
        #expect(try await AgentAPI.curl(pair.desk, "/v1/nothing").status == 404)
        #expect(try await AgentAPI.curl(pair.desk, "/v1/commands/nonsense").status == 404)
        #expect(try await AgentAPI.curl(pair.desk, "/v1/commands/..%2f..", "-X", "DELETE").status == 400)
        // Nothing of this was sent.
        #expect((try await pair.desk.relay("commands", "--json").json["commands"] as? [Any])?.isEmpty == true)
    }

    @Test func tokenMayDoWhatItsScopesSay() async throws {
        let pair = try await AgentPair("api: {listen: \"127.0.0.1:\(try FreePort.take())\"}")
        let device = try #require(try await pair.tv.relay("whoami", "--json").json["device"] as? String)
        let made = try await pair.desk.relay("token", "add", "player", "--scope", "launch", "--scheme", "https", "--device", device)
        #expect(made.status == 0 && made.output.count == 1)
        let secret = try #require(made.output.first)
        let bearer = "Authorization: Bearer \(secret)"
        let body = #"{"device":"TV","uri":"https://films.example/42"}"#
        // The same on the socket and on TCP, where nothing goes without a token.
        let address = try #require(
            try String(contentsOfFile: pair.desk.home + "/agent.yaml", encoding: .utf8).firstMatch(of: /127[.0-9:]+/)?.output
        )
        #expect(try await AgentAPI.curl(url: "http://\(address)/v1").status == 401)
        #expect(try await AgentAPI.curl(url: "http://\(address)/v1", "-H", bearer).status == 200)
        #expect(try await AgentAPI.curl(url: "http://\(address)/v1", "-H", bearer, "-H", "Host: evil.example").status == 421)
        #expect(try await AgentAPI.curl(url: "http://\(address)/v1", "-H", bearer, "-H", "Origin: http://\(address)").status == 403)
        let launched = try await AgentAPI.post(pair.desk, "/v1/launches", body, bearer, "Prefer: wait=30")
        #expect(launched.status == 200)
        let command = try #require(try launched.json["command"] as? String)
        // Its own command, and no other.
        let other = try #require(try await AgentAPI.post(pair.desk, "/v1/launches", body, "Prefer: wait=30").json["command"] as? String)
        #expect(try await AgentAPI.curl(pair.desk, "/v1/commands/\(command)", "-H", bearer).status == 200)
        #expect(try await AgentAPI.curl(pair.desk, "/v1/commands/\(other)", "-H", bearer).status == 404)
        #expect((try await AgentAPI.curl(pair.desk, "/v1/commands", "-H", bearer).json["commands"] as? [Any])?.count == 1)
        // Beyond its limits.
        let refused: [(String, String)] = [
            ("/v1/launches", #"{"device":"TV","uri":"x-film:1"}"#), ("/v1/launches", #"{"device":"Desk","uri":"https://films.example/1"}"#),
            ("/v1/launches", #"{"device":"TV","uri":"https://films.example/1","fallback":"x-film:1"}"#),
            ("/v1/calls", #"{"device":"TV","service":"ping","message":{}}"#), ("/v1/invitations", "{}"),
            ("/v1/tokens", #"{"name":"a","scopes":["launch"]}"#),
        ]
        for (path, body) in refused {
            let answer = try await AgentAPI.post(pair.desk, path, body, bearer)
            #expect(answer.status == 403 && answer.code == "insufficientScope", "\(path) \(body): \(answer.status) \(answer.text)")
        }
        for path in ["/v1/devices", "/v1/devices/TV", "/v1/audit", "/v1/tokens"] {
            #expect(try await AgentAPI.curl(pair.desk, path, "-H", bearer).status == 403, "\(path)")
        }
        for wrong in ["Bearer drt_x", "Bearer", "Basic \(secret)", "\(secret)", "Bearer \(secret)x"] {
            #expect(try await AgentAPI.curl(pair.desk, "/v1", "-H", "Authorization: \(wrong)").status == 401, "\(wrong.prefix(10))")
        }
        // The list has no secret, the audit neither, and both know the token.
        let list = try await pair.desk.relay("token", "list")
        #expect(list.output.contains { $0.contains("player") } && !list.text.contains(secret))
        let audit = try await pair.desk.relay("audit", "--json")
        #expect(!audit.text.contains(secret) && !audit.text.contains("films.example"))
        let entries = try #require(try audit.json["entries"] as? [[String: Any]])
        #expect(entries.contains { ($0["principal"] as? String)?.hasPrefix("token:") == true && $0["answer"] as? String == "succeeded" })
        #expect(entries.contains { $0["action"] as? String == "launch" && $0["answer"] as? String == "insufficientScope" })
        // A removed token ends at once.
        #expect(try await pair.desk.relay("token", "remove", "player").status == 0)
        #expect(try await pair.desk.relay("token", "remove", "player").status == 4)
        #expect(try await AgentAPI.curl(pair.desk, "/v1", "-H", bearer).status == 401)
        // Scopes that decide for a person need one.
        #expect(try await pair.desk.relay("token", "add", "robot", "--scope", "asks").status == 2)
        #expect(try await pair.desk.relay("token", "add", "robot").status == 2)
        // Without the agent there is no API.
        pair.agent.send(SIGTERM)
        _ = await pair.agent.finish()
        let missing = try await pair.desk.relay("token", "list", "--json")
        #expect(try missing.status == 5 && code(missing) == "agentMissing")
    }

    @Test func eventsTellWhatHappens() async throws {
        let pair = try await AgentPair()
        let stream = try AgentAPI.stream(pair.desk)
        _ = try await stream.line { $0.hasPrefix(":") }
        let launched = try await AgentAPI.post(
            pair.desk,
            "/v1/launches",
            #"{"device":"TV","uri":"https://films.example/42"}"#,
            "Prefer: wait=30"
        )
        let command = try #require(try launched.json["command"] as? String)
        let line = try await stream.line { $0.contains(command) && $0.contains("succeeded") }
        #expect(line.hasPrefix("data: {") && !line.contains("films.example"))
        pair.host.send(SIGTERM)
        _ = try await stream.line { $0.contains(#""event":"updated""#) || $0.contains(#""event":"removed""#) }
        // The stream of a token ends with the token, and the others with the agent.
        let secret = try #require(try await pair.desk.relay("token", "add", "reader", "--scope", "commands").output.first)
        let reader = try AgentAPI.stream(pair.desk, "-H", "Authorization: Bearer \(secret)")
        _ = try await reader.line { $0.hasPrefix(":") }
        #expect(try await pair.desk.relay("token", "remove", "reader").status == 0)
        #expect(await reader.finish().status == 0)
        pair.agent.send(SIGTERM)
        #expect(await pair.agent.finish().status == 0)
        _ = await stream.finish()
    }
}
