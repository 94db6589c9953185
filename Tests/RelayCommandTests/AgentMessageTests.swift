// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Messages that are stored, by the agent's API.
@Suite(.serialized, .timeLimit(.minutes(10))) struct AgentMessageTests {
    private static let ping = #"{"device":"TV","service":"ping","message":{"n":1}}"#

    @Test func messageIsAnswered() async throws {
        let pair = try await AgentPair()
        let waited = try await AgentAPI.post(pair.desk, "/v1/messages", Self.ping, "Prefer: wait=30")
        #expect(try waited.status == 200 && waited.json["status"] as? String == "succeeded", "\(waited.text)")
        #expect((try waited.json["answer"] as? [String: Any])?["n"] as? Int == 1, "\(waited.text)")
        #expect((try waited.json["attested"] as? [String: Any])?["by"] as? String == "target")
        let stored = try await AgentAPI.post(pair.desk, "/v1/messages", Self.ping)
        #expect(stored.status == 202)
        let command = try #require(try stored.json["command"] as? String)
        try await wait { try await AgentAPI.curl(pair.desk, "/v1/commands/\(command)").json["status"] as? String == "succeeded" }
        #expect(!(try await pair.desk.relay("audit", "--json").text.contains(#""n":1"#)))
    }

    @Test func keyMakesARepeatTheSameMessage() async throws {
        let pair = try await AgentPair()
        // It waits for a device that is off.
        pair.host.send(SIGKILL)
        _ = await pair.host.finish()
        let first = try await AgentAPI.post(pair.desk, "/v1/messages", Self.ping, "Idempotency-Key: one", "Prefer: wait=1")
        #expect(first.status == 202, "\(first.text)")
        let host = try await pair.tv.host("--app", "com.example.player", "--scheme", "https")
        let again = try await AgentAPI.post(pair.desk, "/v1/messages", Self.ping, "Idempotency-Key: one", "Prefer: wait=30")
        #expect(try again.status == 200 && again.json["command"] as? String == first.json["command"] as? String, "\(again.text)")
        let other = Self.ping.replacing("1", with: "2")
        #expect(try await AgentAPI.post(pair.desk, "/v1/messages", other, "Idempotency-Key: one").status == 422)
        #expect((try await pair.desk.relay("commands", "--json").json["commands"] as? [Any])?.count == 1)
        host.send(SIGTERM)
        _ = await host.finish()
    }

    @Test func badMessagesAreRefused() async throws {
        let pair = try await AgentPair()
        for (body, status) in [
            ("{}", 400), (#"{"device":"TV","service":"ping"}"#, 400), (#"{"device":"TV","service":"ping","message":1}"#, 400),
            (#"{"device":"TV","service":"ping","message":{},"timeout":1}"#, 400),
            (#"{"device":"TV","service":"ping","message":{},"ttl":0}"#, 400),
            (#"{"device":"TV","service":"nothing","message":{}}"#, 404), (#"{"device":"Nowhere","service":"ping","message":{}}"#, 404),
        ] {
            let answer = try await AgentAPI.post(pair.desk, "/v1/messages", body)
            #expect(answer.status == status && answer.code != nil, "\(body): \(answer.status) \(answer.text)")
        }
        let secret = try #require(try await pair.desk.relay("token", "add", "a", "--scope", "call", "--service", "echo").output.first)
        for service in ["ping", "files", "share"] {
            let body = #"{"device":"TV","service":"\#(service)","message":{}}"#
            let answer = try await AgentAPI.post(pair.desk, "/v1/messages", body, "Authorization: Bearer \(secret)")
            #expect(answer.status == 403 || service != "ping" && answer.status == 404, "\(service): \(answer.text)")
        }
        #expect((try await pair.desk.relay("commands", "--json").json["commands"] as? [Any])?.isEmpty == true)
    }
}
