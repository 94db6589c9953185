// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayTesting
import Testing

/// Another user of the machine, and clients that hold on to what they get, at the agent's socket and port.
@Suite(.serialized, .timeLimit(.minutes(10))) struct AgentSocketAttackTests {
    private static func curl(asUser user: Int, _ arguments: [String]) async throws -> CommandOutput {
        let identity = ["--reuid", "\(user)", "--regid", "\(user)", "--clear-groups", "--"]
        return await
            (try RelayProcess(
                identity + ["/usr/bin/curl", "-s", "-m", "10", "-w", "\n%{http_code}"] + arguments,
                executable: URL(filePath: "/usr/bin/setpriv"),
                environment: [:]
            )).finish()
    }

    @Test(.enabled(if: geteuid() == 0, "needs root, for processes of other users"))
    func anotherUserGetsNothing() async throws {
        let pair = try await AgentPair()
        let path = try #require(
            try JSON.object(String(contentsOfFile: pair.desk.home + "/agent.json", encoding: .utf8))["socket"] as? String
        )
        // Even where the files let everybody through.
        var folder = URL(filePath: path)
        chmod(path, 0o777)
        while folder.path != "/" {
            folder.deleteLastPathComponent()
            if folder.path.hasPrefix(pair.desk.directory.path) { chmod(folder.path, 0o755) }
        }
        for user in [1, 65_534] {
            let output = try await Self.curl(asUser: user, ["--unix-socket", path, "http://relay/v1/devices"])
            #expect(output.status != 0 && output.output.last == "000", "user \(user): \(output.text)")
        }
        #expect(try await AgentAPI.curl(pair.desk, "/v1/devices").status == 200)
        // The console's port is open to all users, and says nothing without a session.
        let url = try #require(try await pair.desk.relay("console", "--print").output.first?.split(separator: "#").first.map(String.init))
        let output = try await Self.curl(asUser: 65_534, [url + "v1/devices"])
        #expect(output.output.last == "401")
    }

    /// More connections than the listener takes: those that are there go on, and later ones are served once some have ended.
    @Test func connectionsAreBounded() async throws {
        let pair = try await AgentPair("api: {listen: \"127.0.0.1:\(try FreePort.take())\"}")
        let made = try await AgentAPI.post(pair.desk, "/v1/tokens", #"{"name":"many","scopes":["devices:read"]}"#)
        let token = try #require((try made.json["token"] as? [String: Any])?["token"] as? String)
        let settings = try String(contentsOfFile: pair.desk.home + "/agent.yaml", encoding: .utf8)
        let address = try #require(settings.split(separator: "\"").dropFirst().first.map(String.init))
        var streams: [RelayProcess] = []
        // A token has eight streams, so the others are refused at once.
        for number in 0..<10 {
            let stream = try RelayProcess(
                ["-sN", "-w", "%{http_code}", "http://\(address)/v1/events", "-H", "Authorization: Bearer \(token)"],
                executable: AgentAPI.executable,
                environment: [:]
            )
            if number < 8 {
                _ = try await stream.line { $0.hasPrefix(":") }
                streams.append(stream)
            } else {
                let refused = await stream.finish()
                #expect(refused.output.last?.hasSuffix("429") == true, "\(refused.text)")
            }
        }
        streams.removeFirst().send(SIGKILL)
        // The place is free once the agent has seen the end.
        while true {
            let stream = try RelayProcess(
                ["-sN", "-m", "2", "-w", "%{http_code}", "http://\(address)/v1/events", "-H", "Authorization: Bearer \(token)"],
                executable: AgentAPI.executable,
                environment: [:]
            )
            if await stream.finish().output.last?.hasSuffix("200") == true { break }
        }
        for stream in streams { stream.send(SIGKILL) }
        for stream in streams { _ = await stream.finish() }
    }
}
#endif
