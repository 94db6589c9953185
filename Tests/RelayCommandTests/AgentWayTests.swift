// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

/// Commands by the running agent, and its API on the socket.
@Suite(.serialized, .timeLimit(.minutes(10))) struct AgentWayTests {
    /// Two devices: Desk runs the agent, and TV takes launches and calls.
    private struct Pair {
        let account: TestAccount
        let desk: TestDevice
        let tv: TestDevice
        let agent: RelayProcess
        let host: RelayProcess

        init(_ settings: String = "") async throws {
            account = try await TestAccount()
            desk = try await account.device(named: "Desk")
            tv = try await account.device(named: "TV")
            host = try await tv.host("--app", "com.example.player", "--scheme", "https")
            agent = try await desk.agent(settings)
            try await Self.isServed(desk)
        }

        static func isServed(_ device: TestDevice) async throws {
            try await wait { FileManager.default.fileExists(atPath: device.home + "/agent.json") }
        }
    }

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
        let pair = try await Pair()
        let id = "019a7c3e-0000-7000-8000-000000000000"
        let commands: [[String]] = [
            ["launch", "TV", "https://films.example/1"], ["launch", "TV", "https://films.example/ü", "--json"],
            ["launch", "TV", "https://films.example/2", "--no-wait"], ["launch", "TV/nothing", "https://films.example/3"],
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
        // The list has grown meanwhile, but is one list.
        let (one, other) = (try await pair.desk.relay("commands"), try await pair.desk.relay("commands", "--no-agent"))
        #expect(one.output == other.output && one.output.count > 6)
    }

    @Test func commandNeedsNothingButTheAgent() async throws {
        let pair = try await Pair()
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
        try await wait { (try? Self.curl(pair.desk, "/v1")) != nil }
        #expect(try Self.curl(pair.desk, "/v1").status == 200)
        next.send(SIGTERM)
        _ = await next.finish()
        #expect(!FileManager.default.fileExists(atPath: pair.desk.home + "/agent.json"))
        #expect(try await pair.desk.relay("devices").status == 0)
    }

    // MARK: The API itself

    private struct Answer {
        var status: Int
        var text: String
        var json: [String: Any] { get throws { try JSON.object(text) } }
        var code: String? { (try? json["code"]) as? String }
    }

    private static func curl(_ device: TestDevice, _ path: String, _ arguments: String...) throws -> Answer {
        try curl(device, path, arguments)
    }

    private static func post(_ device: TestDevice, _ path: String, _ body: String, _ headers: String...) throws -> Answer {
        try curl(device, path, headers.flatMap { ["-H", $0] } + ["-H", "Content-Type: application/json", "-d", body])
    }

    private static func curl(_ device: TestDevice, _ path: String, _ arguments: [String]) throws -> Answer {
        let file = try JSON.object(String(contentsOfFile: device.home + "/agent.json", encoding: .utf8))
        let socket = try #require(file["socket"] as? String)
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/curl")
        process.arguments = ["-s", "-w", "\n%{http_code}", "--path-as-is", "--unix-socket", socket, "http://relay\(path)"] + arguments
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let lines = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self).split(separator: "\n")
        process.waitUntilExit()
        guard process.terminationStatus == 0, let status = lines.last.flatMap({ Int($0) }) else { throw CocoaError(.fileReadUnknown) }
        return Answer(status: status, text: lines.dropLast().joined(separator: "\n"))
    }

    @Test func launchIsOneRequest() async throws {
        let pair = try await Pair()
        let body = #"{"device":"TV","uri":"https://films.example/42"}"#
        let stored = try Self.post(pair.desk, "/v1/launches", body)
        #expect(stored.status == 202)
        let command = try #require(try stored.json["command"] as? String)
        #expect(try JSON.object(try await pair.host.line())["uri"] as? String == "https://films.example/42")
        try await wait { try Self.curl(pair.desk, "/v1/commands/\(command)").json["status"] as? String == "succeeded" }
        let waited = try Self.post(pair.desk, "/v1/launches", body, "Prefer: wait=30")
        #expect(waited.status == 200)
        #expect((try waited.json["attested"] as? [String: Any])?["by"] as? String == "target")
    }

    @Test func keyMakesARepeatTheSameCommand() async throws {
        let pair = try await Pair()
        let body = #"{"device":"TV","uri":"https://films.example/42"}"#
        let first = try Self.post(pair.desk, "/v1/launches", body, "Idempotency-Key: one", "Prefer: wait=30")
        let again = try Self.post(pair.desk, "/v1/launches", body, "Idempotency-Key: one", "Prefer: wait=30")
        #expect(first.status == 200 && again.status == 200)
        #expect(try first.json["command"] as? String == again.json["command"] as? String)
        let other = try Self.post(pair.desk, "/v1/launches", #"{"device":"TV","uri":"x:1"}"#, "Idempotency-Key: one", "Prefer: wait=1")
        #expect(other.status == 422 && other.code == "submissionKeyReused")
        #expect((try await pair.desk.relay("commands", "--json").json["commands"] as? [Any])?.count == 1)
    }

    @Test func keyOutlivesTheAgent() async throws {
        let pair = try await Pair()
        _ = try await pair.account.relay.stop()
        let body = #"{"device":"TV","uri":"https://films.example/42"}"#
        let first = try Self.post(pair.desk, "/v1/launches", body, "Idempotency-Key: one")
        #expect(first.status == 202)
        pair.agent.send(SIGKILL)
        _ = await pair.agent.finish()
        _ = try await pair.account.relay.start()
        let agent = try await pair.desk.agent()
        try await wait { (try? Self.curl(pair.desk, "/v1")) != nil }
        let again = try Self.post(pair.desk, "/v1/launches", body, "Idempotency-Key: one", "Prefer: wait=30")
        #expect(again.status == 200)
        #expect(try first.json["command"] as? String == again.json["command"] as? String)
        // The next launch is the next event, so the first was opened once.
        _ = try Self.post(pair.desk, "/v1/launches", #"{"device":"TV","uri":"https://films.example/43"}"#, "Prefer: wait=30")
        #expect(try JSON.object(try await pair.host.line())["uri"] as? String == "https://films.example/42")
        #expect(try JSON.object(try await pair.host.line())["uri"] as? String == "https://films.example/43")
        agent.send(SIGTERM)
        _ = await agent.finish()
    }

    @Test func badRequestsAreRefused() async throws {
        let pair = try await Pair()
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
            let answer = try Self.post(pair.desk, "/v1/launches", body)
            #expect(answer.status == status && answer.code != nil, "\(body.prefix(60)): \(answer.status) \(answer.text.prefix(200))")
        }
        #expect(try Self.post(pair.desk, "/v1/launches", good, "Origin: https://evil.example").status == 403)
        #expect(try Self.curl(pair.desk, "/v1", "-H", "Origin: null").status == 403)
        #expect(try Self.curl(pair.desk, "/v1/launches", "-d", good).status == 415)
        #expect(try Self.post(pair.desk, "/v1/launches", good, "Prefer: wait=61").status == 400)
        #expect(try Self.post(pair.desk, "/v1/launches", good, "Idempotency-Key: \(String(repeating: "k", count: 256))").status == 400)
        #expect(
            try Self.post(pair.desk, "/v1/calls", #"{"device":"TV","service":"ping","message":{}}"#, "Idempotency-Key: a").status == 400
        )
        #expect(try Self.curl(pair.desk, "/v1/nothing").status == 404)
        #expect(try Self.curl(pair.desk, "/v1/commands/nonsense").status == 404)
        #expect(try Self.curl(pair.desk, "/v1/commands/..%2f..", "-X", "DELETE").status == 400)
        // Nothing of this was sent.
        #expect((try await pair.desk.relay("commands", "--json").json["commands"] as? [Any])?.isEmpty == true)
    }
}
