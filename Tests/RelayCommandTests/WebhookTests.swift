// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Webhooks of a running agent, with a receiver that verifies them by an independent implementation.
@Suite(
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(if: WebhookReceiver.isAvailable, "scripts/test sets DEVICE_RELAY_PYTHON to a Python that has standardwebhooks")
)
struct WebhookTests {
    @Test func commandIsTold() async throws {
        let (pair, receiver) = (try await AgentPair(), try await WebhookReceiver())
        let before = try await AgentAPI.launch(pair.desk, "https://films.example/before")
        while try await AgentAPI.curl(pair.desk, "/v1/commands/\(before)").json["ended"] as? Bool != true {}
        let webhook = try await AgentAPI.webhook(pair.desk, receiver.url)
        try await receiver.tell("secret \(webhook.secret)")
        try await receiver.tell("secret whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
        let command = try await AgentAPI.launch(pair.desk)
        let messages = try await receiver.messages { $0.isFinal }
        // Nothing from before, each verified, each with an id of its own, the outcome last.
        #expect(messages.allSatisfy { $0.command == command && $0.verified == [true, false] && $0.signatures == 1 })
        #expect(messages.allSatisfy { $0.path == "/hook?a=b" && $0.id.hasPrefix("msg_") })
        #expect(Set(messages.map(\.id)).count == messages.count)
        #expect(messages.first?.status == "stored" && messages.last?.status == "succeeded")
        #expect(messages.dropLast().allSatisfy { $0.type == "command.progress" })
        #expect(messages.last?.data["attestedBy"] as? String == "target")
        let device = try #require(try await pair.tv.relay("whoami", "--json").json["device"] as? String)
        #expect(messages.allSatisfy { $0.data["device"] as? String == device })
        // Ids and outcomes only.
        let names: Set = ["command", "status", "device", "endpoint", "app", "attestedBy"]
        #expect(messages.allSatisfy { names.isSuperset(of: $0.data.keys) })
        // The list says what came of them, and no secret.
        let listed = try await AgentAPI.curl(pair.desk, "/v1/webhooks")
        #expect(!listed.text.contains(webhook.secret) && !listed.text.contains("whsec_"))
        while try await AgentAPI.webhooks(pair.desk).first?["waiting"] as? Int != 0 {}
        let deliveries = try await AgentAPI.deliveries(pair.desk, of: webhook)
        #expect(Set(deliveries.compactMap { $0["id"] as? String }) == Set(messages.map(\.id)))
        #expect(
            deliveries.allSatisfy { $0["status"] as? Int == 204 && $0["state"] as? String == "delivered" && $0["attempts"] as? Int == 1 }
        )
        #expect(deliveries.allSatisfy { $0["time"] is String })
        let audit = try await pair.desk.relay("audit", "--json")
        #expect(audit.text.contains("webhook add") && !audit.text.contains("whsec_") && !audit.text.contains("/hook"))
    }

    @Test func uriIsToldIfAskedFor() async throws {
        let (pair, receiver) = (try await AgentPair(), try await WebhookReceiver())
        let webhook = try await AgentAPI.webhook(pair.desk, receiver.url, more: #", "includeURI": true"#)
        try await receiver.tell("secret \(webhook.secret)")
        _ = try await AgentAPI.launch(pair.desk, "https://films.example/42?a=%C3%BC")
        let message = try await receiver.next()
        #expect(message.data["uri"] as? String == "https://films.example/42?a=%C3%BC" && message.verified == [true])
    }

    /// A token learns of its own commands, and its webhook ends with it.
    @Test func tokenIsToldWhatItMayRead() async throws {
        let (pair, receiver) = (try await AgentPair(), try await WebhookReceiver())
        let secret = try #require(
            try await pair.desk.relay("token", "add", "hook", "--scope", "webhooks", "--scope", "launch").output.first
        )
        let bearer = "Authorization: Bearer \(secret)"
        // It may have no private address, so the owner's webhook looks in its place.
        let own = try await AgentAPI.webhook(pair.desk, "https://hooks.invalid/", bearer)
        let other = try await AgentAPI.webhook(pair.desk, receiver.url)
        #expect(try await AgentAPI.webhooks(pair.desk, "-H", bearer).map { $0["id"] as? String } == [own.id])
        #expect(try await AgentAPI.webhooks(pair.desk).count == 2)
        for (method, path) in [("GET", "/deliveries"), ("DELETE", "")] {
            #expect(try await AgentAPI.curl(pair.desk, "/v1/webhooks/\(other.id)\(path)", "-X", method, "-H", bearer).status == 404)
        }
        #expect(try await AgentAPI.post(pair.desk, "/v1/webhooks/\(other.id)/secret", "{}", bearer).status == 404)
        // The owner's command, then the token's.
        _ = try await AgentAPI.launch(pair.desk)
        _ = try await receiver.messages { $0.isFinal }
        let waiting = { try await AgentAPI.webhooks(pair.desk, "-H", bearer).first?["waiting"] as? Int }
        #expect(try await waiting() == 0)
        #expect(try await AgentAPI.deliveries(pair.desk, of: own).isEmpty)
        _ = try await AgentAPI.launch(pair.desk, "https://films.example/43", bearer)
        let messages = try await receiver.messages { $0.isFinal }
        // No answer of a name that has no address: all wait.
        #expect(try await waiting() == messages.count)
        // It has not the scope for devices, and another token has none for webhooks.
        let refused = try await AgentAPI.post(
            pair.desk,
            "/v1/webhooks",
            #"{"url": "https://hooks.example/", "types": ["device.changed"]}"#,
            bearer
        )
        #expect(refused.status == 403 && refused.code == "insufficientScope")
        let player = try #require(try await pair.desk.relay("token", "add", "player", "--scope", "launch").output.first)
        #expect(try await AgentAPI.curl(pair.desk, "/v1/webhooks", "-H", "Authorization: Bearer \(player)").status == 403)
        #expect(try await pair.desk.relay("token", "remove", "hook").status == 0)
        #expect(try await AgentAPI.webhooks(pair.desk).map { $0["id"] as? String } == [other.id])
    }

    /// A message that the receiver got and did not answer comes again with its id, and each change of each command has one id.
    @Test func killedAgentNeitherLosesNorDoubles() async throws {
        let (pair, receiver) = (try await AgentPair(), try await WebhookReceiver())
        let webhook = try await AgentAPI.webhook(pair.desk, receiver.url)
        try await receiver.tell("secret \(webhook.secret)")
        var agent = pair.agent
        var messages: [WebhookReceiver.Message] = []
        var commands: Set<String> = []
        for round in 0..<4 {
            try await receiver.tell("hold")
            for number in 0..<3 { commands.insert(try await AgentAPI.launch(pair.desk, "https://films.example/\(round)-\(number)")) }
            let held = try await receiver.next()
            messages.append(held)
            agent.send(SIGKILL)
            _ = await agent.finish()
            try await receiver.tell("release")
            agent = try await pair.desk.agent()
            // Its changes have gone on or not, but this message comes again.
            messages += try await receiver.messages { $0.id == held.id }
            // The next kill comes while others are sent.
            if round.isMultiple(of: 2) { messages.append(try await receiver.next()) }
        }
        // All have ended, and nothing waits.
        for command in commands { while try await AgentAPI.curl(pair.desk, "/v1/commands/\(command)").json["ended"] as? Bool != true {} }
        let missing = { Set(messages.filter(\.isFinal).compactMap(\.command)).count < commands.count }
        while missing() { messages.append(try await receiver.next()) }
        while try await AgentAPI.webhooks(pair.desk).first?["waiting"] as? Int != 0 {}
        let marker = try await AgentAPI.launch(pair.desk, "https://films.example/last")
        messages += try await receiver.messages { $0.command == marker && $0.isFinal }
        commands.insert(marker)
        #expect(messages.allSatisfy { $0.verified == [true] })
        let ids = Dictionary(grouping: messages, by: \.id)
        // At least the held ones came twice.
        #expect(ids.values.filter { $0.count > 1 }.count >= 4)
        for same in ids.values { #expect(Set(same.map { "\($0.type) \($0.command ?? "") \($0.status ?? "")" }).count == 1) }
        let changes = Dictionary(grouping: ids.values.compactMap(\.first)) { $0.command ?? "" }
        #expect(Set(changes.keys) == commands)
        for (command, changes) in changes {
            #expect(changes.filter(\.isFinal).map(\.status) == ["succeeded"], "\(command)")
            #expect(Set(changes.map { "\($0.type) \($0.status ?? "")" }).count == changes.count, "\(command)")
            #expect(changes.contains { $0.status == "stored" }, "\(command)")
        }
        #expect(try await AgentAPI.webhooks(pair.desk).first?["missed"] as? Int == 0)
        agent.send(SIGTERM)
        _ = await agent.finish()
    }

    /// The second attempt comes 5 s after the first.
    @Test func receiverMayBeDown() async throws {
        let pair = try await AgentPair()
        let port = try FreePort.take()
        let webhook = try await AgentAPI.webhook(pair.desk, "http://127.0.0.1:\(port)/", types: #"["command.final"]"#)
        let command = try await AgentAPI.launch(pair.desk)
        let failed = { try await AgentAPI.deliveries(pair.desk, of: webhook).first }
        while try await failed()?["state"] as? String != "waiting" {}
        let delivery = try #require(try await failed())
        #expect(delivery["status"] == nil && delivery["attempts"] as? Int == 1 && delivery["next"] is String)
        let receiver = try await WebhookReceiver(port: port)
        try await receiver.tell("secret \(webhook.secret)")
        let message = try await receiver.next()
        #expect(message.command == command && message.verified == [true] && message.id == delivery["id"] as? String)
    }

    /// What is no success comes again with the same id. A redirect leads nowhere, and a pause that is asked for is kept.
    @Test(arguments: ["302 Location=/elsewhere", "307 Location=/elsewhere", "500", "503 Retry-After=6"])
    func failureIsRepeated(answer: String) async throws {
        let (pair, receiver) = (try await AgentPair(), try await WebhookReceiver())
        let webhook = try await AgentAPI.webhook(pair.desk, receiver.url, types: #"["command.final"]"#)
        try await receiver.tell("secret \(webhook.secret)")
        try await receiver.tell("once \(answer)")
        let first = try await AgentAPI.launch(pair.desk)
        let failed = try await receiver.next()
        #expect(failed.command == first)
        while try await AgentAPI.deliveries(pair.desk, of: webhook).first?["state"] as? String != "waiting" {}
        let delivery = try #require(try await AgentAPI.deliveries(pair.desk, of: webhook).first)
        #expect(delivery["status"] as? Int == Int(answer.prefix(3)))
        let second = try await AgentAPI.launch(pair.desk)
        let (next, last) = (try await receiver.next(), try await receiver.next())
        #expect(next.path == "/hook?a=b" && last.path == "/hook?a=b")
        #expect(Set([next.command, last.command]) == [first, second])
        let again = next.command == first ? next : last
        #expect(again.id == failed.id && again.verified == [true])
        // A pause is for all messages.
        if answer.contains("Retry-After") { #expect(next.command == first) }
    }

    @Test func goneEndsIt() async throws {
        let (pair, receiver) = (try await AgentPair(), try await WebhookReceiver())
        let webhook = try await AgentAPI.webhook(pair.desk, receiver.url, types: #"["command.final"]"#)
        try await receiver.tell("secret \(webhook.secret)")
        try await receiver.tell("answer 410")
        _ = try await AgentAPI.launch(pair.desk)
        _ = try await receiver.next()
        while try await AgentAPI.webhooks(pair.desk).first?["ended"] as? String == nil {}
        let other = try await AgentAPI.webhook(pair.desk, receiver.url, types: #"["command.final"]"#)
        try await receiver.tell("secret \(other.secret)")
        try await receiver.tell("answer 204")
        let command = try await AgentAPI.launch(pair.desk)
        // Only the other one is told.
        let message = try await receiver.next()
        #expect(message.command == command && message.verified == [false, true])
        #expect(try await AgentAPI.deliveries(pair.desk, of: webhook).map { $0["status"] as? Int } == [410])
        #expect(try await AgentAPI.curl(pair.desk, "/v1/webhooks/\(webhook.id)", "-X", "DELETE").status == 200)
        #expect(try await AgentAPI.curl(pair.desk, "/v1/webhooks/\(webhook.id)", "-X", "DELETE").status == 404)
    }

    @Test func bothSecretsCountAfterAChange() async throws {
        let (pair, receiver) = (try await AgentPair(), try await WebhookReceiver())
        let webhook = try await AgentAPI.webhook(pair.desk, receiver.url, types: #"["command.final"]"#)
        try await receiver.tell("secret \(webhook.secret)")
        let answer = try await AgentAPI.post(pair.desk, "/v1/webhooks/\(webhook.id)/secret", "{}")
        let secret = try #require((try answer.json["webhook"] as? [String: Any])?["secret"] as? String)
        #expect(answer.status == 200 && secret != webhook.secret)
        try await receiver.tell("secret \(secret)")
        _ = try await AgentAPI.launch(pair.desk)
        let message = try await receiver.next()
        #expect(message.verified == [true, true] && message.signatures == 2)
        // The next change ends the first one.
        let next = try await AgentAPI.post(pair.desk, "/v1/webhooks/\(webhook.id)/secret", "{}")
        try await receiver.tell("secret \(try #require((try next.json["webhook"] as? [String: Any])?["secret"] as? String))")
        _ = try await AgentAPI.launch(pair.desk)
        #expect(try await receiver.next().verified == [false, true, true])
        #expect(!(try await AgentAPI.curl(pair.desk, "/v1/webhooks")).text.contains("whsec_"))
    }

    /// The address is looked up and checked first, and the certificate is for the name all the same.
    @Test(arguments: ["localhost", "other.example"]) func certificateIsForTheName(name: String) async throws {
        let pair = try await AgentPair()
        pair.agent.send(SIGTERM)
        _ = await pair.agent.finish()
        let file = pair.desk.directory.path + "/hook.pem"
        pair.desk.variables["SSL_CERT_FILE"] = file
        let receiver = try await WebhookReceiver(certificate: (name, file))
        let agent = try await pair.desk.agent()
        let url = "https://localhost:\(receiver.port)/"
        let webhook = try await AgentAPI.webhook(pair.desk, url, types: #"["command.final"]"#)
        try await receiver.tell("secret \(webhook.secret)")
        let command = try await AgentAPI.launch(pair.desk)
        if name == "localhost" {
            let message = try await receiver.next()
            #expect(message.command == command && message.verified == [true])
        } else {
            while try await AgentAPI.deliveries(pair.desk, of: webhook).first?["state"] as? String != "waiting" {}
            #expect(try await AgentAPI.deliveries(pair.desk, of: webhook).first?["status"] == nil)
        }
        agent.send(SIGTERM)
        _ = await agent.finish()
    }

    @Test func changedDeviceIsTold() async throws {
        let (pair, receiver) = (try await AgentPair(), try await WebhookReceiver())
        let webhook = try await AgentAPI.webhook(pair.desk, receiver.url, types: #"["device.changed"]"#)
        try await receiver.tell("secret \(webhook.secret)")
        let device = try #require(try await pair.tv.relay("whoami", "--json").json["device"] as? String)
        pair.host.send(SIGTERM)
        let message = try await receiver.messages { $0.data["device"] as? String == device }.last
        #expect(message?.type == "device.changed" && message?.verified == [true] && message?.data.count == 1)
    }
}
