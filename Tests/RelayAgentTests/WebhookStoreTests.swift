// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import Testing

@testable import RelayAgent

/// Webhooks and their messages in the agent's database, without a connection.
@Suite final class WebhookStoreTests {
    private let folder = FileManager.default.temporaryDirectory.appending(path: "webhooks-\(UUID().uuidString)")
    private let store: AgentStore
    private let now = Date.now

    init() throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        store = try AgentStore(Home(folder.path))
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    private func sequence(_ number: Int64) -> CommandSequence { CommandSequence(rawValue: number) }

    private func token(_ name: String, life: Duration? = nil) async throws -> APIToken {
        let token = try APIToken(name: name, scopes: ["webhooks", "devices:read"], devices: nil, schemes: nil, services: nil, life: life)
        try await store.add(token, digest: APIToken.secret().digest)
        return token
    }

    private func webhook(
        _ types: [String] = ["command.final"],
        of principal: Principal = .owner,
        at position: Int64 = 0
    ) async throws -> Webhook {
        let webhook = try Webhook(url: "https://hooks.example/", types: types, includesURI: false, of: principal)
        try await store.add(webhook, WebhookSecret.new(), from: ["a": sequence(position)])
        return webhook
    }

    private func message(_ webhook: Webhook, _ text: String) throws -> WebhookMessage {
        try WebhookMessage(.final, to: webhook, ["command": text], at: now)
    }

    private func listed(_ webhook: Webhook) async throws -> Webhook? { try await store.webhooks().first { $0.id == webhook.id } }

    /// The next message, which is then being sent.
    private func sent(_ webhook: Webhook, at now: Date) async throws -> AgentStore.OutgoingMessage {
        guard case .send(let message) = try await store.nextStep(of: webhook.id, at: now) else { throw Nothing() }
        return message
    }

    private struct Nothing: Error {}

    /// The clock may be set back, and the token's time is not over then.
    @Test func webhookOfATokenThatHasEndedIsWaitedFor() async throws {
        #expect(try await !store.hasWebhooks())
        let webhook = try await webhook(of: .token(try await token("t", life: .seconds(10))))
        while try await !store.activeWebhookIDs().isEmpty { try await Task.sleep(for: .milliseconds(50)) }
        #expect(try await store.hasWebhooks())
        try await store.removeWebhook(webhook.id)
        #expect(try await !store.hasWebhooks())
    }

    @Test func messagesAndTheirPlaceAreOneTransaction() async throws {
        let webhook = try await webhook(at: 7)
        #expect(try await store.webhookPosition(of: "a") == sequence(7))
        #expect(try await store.webhookPosition(of: "b") == nil)
        let messages = [try message(webhook, "1"), try message(webhook, "2")]
        try await store.addMessages(messages, of: "a", from: sequence(7), to: sequence(9), at: now)
        // The same changes once more, as after a crash, and those of another place.
        try await store.addMessages(messages, of: "a", from: sequence(7), to: sequence(9), at: now)
        try await store.addMessages(messages, of: "b", from: sequence(0), to: sequence(2), at: now)
        #expect(try await store.webhookPosition(of: "a") == sequence(9))
        #expect(try await listed(webhook)?.waiting == 2)
        // In their order, the same in each attempt.
        let first = try await sent(webhook, at: now)
        #expect(first.body.contains(#""data":{"command":"1"}"#) && first.body.contains(#""type":"command.final""#))
        let again = try await sent(webhook, at: now)
        #expect(again.id == first.id && again.body == first.body)
        try await store.end(again, .status(200, retryAfter: nil), at: now)
        let second = try await sent(webhook, at: now)
        #expect(second.id != first.id && second.body.contains(#"{"command":"2"}"#))
        try await store.end(second, .nothing, at: now)
        guard case .wait(let pause) = try await store.nextStep(of: webhook.id, at: now) else { throw Nothing() }
        #expect(pause.map { abs($0 - 5) < 0.01 } == true)
        let list = try await store.deliveries(of: webhook.id, limit: 100)
        #expect(Set(list.map(\.id)) == [first.id, second.id])
        #expect(list.first { $0.id == first.id }?.status == 200 && list.first { $0.id == second.id }?.status == nil)
        #expect(list.first { $0.id == second.id }?.state == .waiting && list.first { $0.id == second.id }?.attempts == 1)
    }

    @Test func webhookGetsNothingFromBefore() async throws {
        let first = try await webhook(at: 3)
        // Another one does not move the place.
        _ = try await webhook(at: 8)
        #expect(try await store.webhookPosition(of: "a") == sequence(3))
        for webhook in try await store.webhooks() { try await store.removeWebhook(webhook.id) }
        // Nobody follows the changes any more, so the next one begins anew.
        try await store.addMessages([try message(first, "1")], of: "a", from: sequence(3), to: sequence(4), at: now)
        #expect(try await store.webhookPosition(of: "a") == nil)
        #expect(!(try await store.beginCommands(of: "a", at: sequence(4))))
        let next = try await webhook(at: 90)
        #expect(try await store.webhookPosition(of: "a") == sequence(90))
        #expect(try await store.beginCommands(of: "b", at: sequence(5)))
        #expect(try await store.webhookPosition(of: "b") == sequence(5))
        #expect(try await listed(next)?.waiting == 0)
    }

    @Test func tooManyMessagesAreCounted() async throws {
        let (webhook, other) = (try await webhook(), try await webhook())
        let messages = try (1...(Webhook.maximumWaiting + 5)).map { try message(webhook, "\($0)") }
        try await store.addMessages(messages + [try message(other, "1")], of: "a", from: sequence(0), to: sequence(1), at: now)
        #expect(try await listed(webhook)?.waiting == Webhook.maximumWaiting)
        #expect(try await listed(webhook)?.missed == 5)
        let next = try await sent(webhook, at: now)
        #expect(next.body.contains(#"{"command":"6"}"#))
        // One that is being sent may be dropped; its end changes nothing.
        try await store.addMessages([try message(webhook, "last")], of: "a", from: sequence(1), to: sequence(2), at: now)
        try await store.end(next, .status(200, retryAfter: nil), at: now)
        #expect(try await listed(webhook)?.missed == 6)
        #expect(try await listed(other)?.waiting == 1)
        #expect(try await listed(other)?.missed == 0)
        // Changes that are not kept any more.
        try await store.skipCommands(of: "a", from: sequence(2), to: sequence(12), missed: 10)
        #expect(try await listed(other)?.missed == 10)
        #expect(try await store.webhookPosition(of: "a") == sequence(12))
    }

    @Test func finishedMessagesAreKeptForTheListOnly() async throws {
        let webhook = try await webhook()
        let count = Webhook.kept + 20
        let messages = try (1...count).map { try message(webhook, "\($0)") }
        try await store.addMessages(messages, of: "a", from: sequence(0), to: sequence(1), at: now)
        var last = ""
        for number in 1...count {
            let message = try await sent(webhook, at: now + Double(number))
            last = message.id
            try await store.end(message, .status(204, retryAfter: nil), at: now + Double(number))
        }
        let list = try await store.deliveries(of: webhook.id, limit: 1_000)
        #expect(list.count == Webhook.kept && list.first?.id == last && list.allSatisfy { $0.state == .delivered })
    }

    @Test func deviceIsToldOnceUntilItIsRead() async throws {
        let webhook = try await webhook(["device.changed"])
        func change(_ device: String) throws -> WebhookMessage {
            try WebhookMessage(.device, to: webhook, device: device, ["device": device], at: now)
        }
        for device in ["x", "y", "x", "x"] { try await store.addMessages([try change(device)], at: now) }
        #expect(try await listed(webhook)?.waiting == 2)
        // One that is being sent may have been read already.
        let message = try await sent(webhook, at: now)
        try await store.addMessages([try change("x"), try change("x")], at: now)
        #expect(try await listed(webhook)?.waiting == 3)
        try await store.end(message, .status(200, retryAfter: nil), at: now)
        #expect(try await listed(webhook)?.waiting == 2)
    }

    @Test func pauseHoldsForAllMessages() async throws {
        let webhook = try await webhook()
        try await store.addMessages(
            [try message(webhook, "1"), try message(webhook, "2")],
            of: "a",
            from: sequence(0),
            to: sequence(1),
            at: now
        )
        try await store.end(try await sent(webhook, at: now), .status(429, retryAfter: 600), at: now)
        func left(at time: Date) async throws -> TimeInterval? {
            guard case .wait(let left) = try await store.nextStep(of: webhook.id, at: time) else { return nil }
            return left
        }
        #expect(try await left(at: now).map { abs($0 - 600) < 0.01 } == true)
        // The clock goes back: the pause begins anew.
        #expect(try await left(at: now - 10_000).map { abs($0 - 600) < 0.01 } == true)
        #expect(try await left(at: now - 9_900).map { abs($0 - 500) < 0.01 } == true)
        _ = try await sent(webhook, at: now - 9_400 + 0.01)
    }

    @Test func goneEndsTheWebhook() async throws {
        let webhook = try await webhook()
        try await store.addMessages(
            [try message(webhook, "1"), try message(webhook, "2")],
            of: "a",
            from: sequence(0),
            to: sequence(1),
            at: now
        )
        try await store.end(try await sent(webhook, at: now), .status(410, retryAfter: nil), at: now)
        #expect(try await store.activeWebhooks().isEmpty)
        let ended = try #require(try await listed(webhook))
        #expect(ended.ended != nil && ended.waiting == 0)
        guard case .end = try await store.nextStep(of: webhook.id, at: now) else { throw Nothing() }
        try await store.addMessages([try message(webhook, "3")], at: now)
        #expect(try await listed(webhook)?.waiting == 0)
    }

    @Test func webhookEndsWithItsToken() async throws {
        let token = try await token("hook")
        let (own, other) = (try await webhook(of: .token(token)), try await webhook())
        try await store.addMessages([try message(own, "1"), try message(other, "1")], of: "a", from: sequence(0), to: sequence(1), at: now)
        // When it expires.
        guard case .end = try await store.nextStep(of: own.id, at: token.expires) else { throw Nothing() }
        _ = try await sent(own, at: now)
        // When it is removed.
        #expect(try await store.removeToken("hook"))
        #expect(try await store.webhooks().map(\.id) == [other.id])
        guard case .end = try await store.nextStep(of: own.id, at: now) else { throw Nothing() }
        #expect(try await store.deliveries(of: own.id, limit: 10).isEmpty)
        _ = try await sent(other, at: now)
    }

    @Test func numberIsBounded() async throws {
        for _ in 1...Webhook.maximum { _ = try await webhook() }
        await #expect(throws: APIRefusal.self) { try await webhook() }
        let first = try #require(try await store.webhooks().first)
        try await store.removeWebhook(first.id)
        _ = try await webhook()
    }

    @Test func tokenReadsNoMoreThanItMay() throws {
        let device = String(repeating: "a", count: 52)
        let token = try APIToken(name: "t", scopes: ["webhooks"], devices: [device], schemes: nil, services: nil, life: nil)
        #expect(throws: APIRefusal.self) {
            try Webhook(url: "https://x.example", types: ["device.changed"], includesURI: false, of: .token(token))
        }
        for types in [[], ["command"], ["Command.final"], ["command.final", "command.fin\u{1B}al"]] {
            #expect(throws: AgentError.self) { try Webhook(url: "https://x.example", types: types, includesURI: false, of: .owner) }
        }
        let webhook = try Webhook(url: "https://x.example", types: ["command.final"], includesURI: false, of: .token(token))
        #expect(webhook.sees(device: device) && !webhook.sees(device: "b") && !webhook.sees(device: nil))
        #expect(try Webhook(url: "https://x.example", types: ["command.final"], includesURI: false, of: .owner).sees(device: nil))
        // A URI is told if asked for, and of the token's schemes alone.
        let films = try APIToken(name: "f", scopes: ["webhooks"], devices: nil, schemes: ["X-Film"], services: nil, life: nil)
        for (principal, asked, shown) in [
            (Principal.owner, false, []), (.owner, true, ["x-film:1", "https://x.example"]), (.token(films), false, []),
            (.token(films), true, ["x-film:1"]),
        ] as [(Principal, Bool, [String])] {
            let webhook = try Webhook(url: "https://x.example", types: ["command.final"], includesURI: asked, of: principal)
            #expect(try ["x-film:1", "https://x.example"].filter { webhook.shows(try LaunchURI($0)) } == shown)
        }
    }

    @Test func secretRotates() async throws {
        let webhook = try await webhook()
        let (first, second) = (try await store.rotateSecret(of: webhook.id, at: now), try await store.rotateSecret(of: webhook.id, at: now))
        #expect(second.text.hasPrefix("whsec_") && Base64.standard.decode(second.text.dropFirst(6))?.count == 32)
        #expect(second.previous?.bytes == first.bytes && first.text != second.text)
        func count(at time: Date) -> Int {
            second.signature(of: "{}", id: "msg_1", timestamp: 1_800_000_000, now: time).split(separator: " ").count
        }
        #expect(count(at: now) == 2 && count(at: now + 86_399) == 2 && count(at: now + 86_400) == 1)
        // Known from the specification's libraries.
        let known = WebhookSecret(bytes: try #require(Base64.standard.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")))
        #expect(
            known.signature(of: #"{"test": 2432232314}"#, id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1_614_265_330, now: now)
                == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        )
        await #expect(throws: AgentError.self) { try await store.rotateSecret(of: "wh_nothing", at: now) }
    }
}
