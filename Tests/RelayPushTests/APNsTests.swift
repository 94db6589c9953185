// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import NIOHTTP1
import RelayProtocol
import Testing

@testable import RelayPush

@Suite(.timeLimit(.minutes(5))) struct APNsTests {
    private let time = TestTime()

    /// A channel and Apple's service, both ended afterwards.
    private func withChannel(
        key: String? = nil,
        timeout: Duration = .seconds(60),
        _ body: (ScriptedAPNs, any PushChannel) async throws -> Void
    ) async throws {
        let apns = try await ScriptedAPNs(time)
        let channel = try PushChannels.test(apns.http, time, timeout: timeout).channel(for: .test(apns: apns, key: key))
        let result: Result<Void, any Error>
        do { result = .success(try await body(apns, channel)) } catch { result = .failure(error) }
        await channel.shutdown()
        await apns.stop()
        try result.get()
    }

    private func registration(_ number: Int) -> PushRegistration { .test(apns: ScriptedAPNs.token(number)) }

    private func wake(_ number: Int = 1, _ urgency: WakePayload.Urgency = .urgent, lifetime: Int64 = 60_000) -> Wake {
        .test(number, urgency, expiry: Milliseconds(clamping: time.now.count + lifetime))
    }

    @Test(arguments: WakePayload.Urgency.allCases)
    func aWakeIsAccepted(_ urgency: WakePayload.Urgency) async throws {
        try await withChannel { apns, channel in
            #expect(await channel.send(wake(1, urgency), to: registration(1)) == .accepted(id: "EC1BF194-B3B2-424A-89A9-5A918A6E6B4E"))
            let request = try #require(apns.now.accepted.first)
            #expect(request.isHTTP2)
            #expect(request.headers.first(name: "apns-collapse-id") == EndpointID.test(1).description)
            #expect(request.headers.first(name: "apns-expiration") == "\(time.now.count / 1_000 + 60)")
            let payload = try #require(try JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any])
            #expect((payload["deviceRelay"] as? [String: String])?["class"] == urgency.rawValue)
            #expect((payload["aps"] as? [String: Any])?["content-available"] as? Int == (urgency == .background ? 1 : nil))
            #expect(request.body.count <= WakePayload.maximumBytes)
        }
    }

    /// Names come from devices.
    @Test(
        arguments: [
            (WakeAlert.general, "ROME_CONNECT_TEXT_MANY", []),
            (.launch(device: "Ann's \"PC\" \\ 日本"), "ROME_REMOTE_LAUNCH", ["Ann's \"PC\" \\ 日本"]),
            (.launchFromApp(app: "Films", device: "Phone"), "ROME_REMOTE_LAUNCH_FROM_APP", ["Films", "Phone"]),
        ] as [(WakeAlert, String, [String])]
    )
    func anAlertHasItsKeyAndArguments(_ alert: WakeAlert, _ key: String, _ arguments: [String]) throws {
        let body = APNsChannel.body(Wake(wake().payload, alert: alert, expiry: 1))
        let payload = try #require(try JSONSerialization.jsonObject(with: Data(body)) as? [String: Any])
        let shown = try #require((payload["aps"] as? [String: Any])?["alert"] as? [String: Any])
        #expect(shown["loc-key"] as? String == key && shown["loc-args"] as? [String] ?? [] == arguments)
        // A background wake shows nothing.
        let silent = APNsChannel.body(Wake(wake(1, .background).payload, alert: alert, expiry: 1))
        #expect(!String(decoding: silent, as: UTF8.self).contains("loc-"))
    }

    @Test func aConnectionHasOneStreamUntilAPushWasAccepted() async throws {
        try await withChannel { apns, channel in
            for round in 0..<3 {
                let outcomes = await withTaskGroup(of: PushOutcome.self) { group in
                    for number in 0..<40 {
                        group.addTask { await channel.sendUntilAnswered(wake(number), to: registration(number)) }
                    }
                    return await group.reduce(into: []) { $0.append($1) }
                }
                #expect(outcomes.allSatisfy { if case .accepted = $0 { true } else { false } })
                // The next round begins with a new connection, where the rule holds anew.
                apns.script(99, .hangUp)
                _ = await channel.send(wake(99), to: registration(99))
                #expect(apns.http.connectionCount >= round + 1)
            }
            #expect(apns.now.violations.isEmpty)
            #expect(apns.now.tokens.count == 1)
        }
    }

    @Test func aTokenIsKeptForMostOfAnHour() async throws {
        try await withChannel { apns, channel in
            _ = await channel.send(wake(), to: registration(1))
            time.advance(49 * 60_000)
            _ = await channel.send(wake(), to: registration(1))
            #expect(apns.now.tokens.count == 1)
            time.advance(2 * 60_000)
            _ = await channel.send(wake(), to: registration(1))
            #expect(apns.now.tokens.count == 2)
            #expect(apns.now.accepted.count == 3)
        }
    }

    @Test func aRejectedTokenIsRenewedOnceForAllWhoUsedIt() async throws {
        try await withChannel { apns, channel in
            _ = await channel.send(wake(), to: registration(1))
            time.advance(25 * 60_000)
            for number in 0..<20 { apns.script(number, ScriptedAPNs.problem(403, "ExpiredProviderToken")) }
            let outcomes = await withTaskGroup(of: PushOutcome.self) { group in
                for number in 0..<20 { group.addTask { await channel.send(wake(number), to: registration(number)) } }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(outcomes == Array(repeating: .credentialRejected(reason: "ExpiredProviderToken"), count: 20))
            for number in 0..<20 { _ = await channel.send(wake(number), to: registration(number)) }
            #expect(apns.now.accepted.count == 21)
            #expect(apns.now.tokens.count == 2)
        }
    }

    @Test func aRejectedKeyLeadsToNoTokensInARow() async throws {
        try await withChannel(key: P256.Signing.PrivateKey().pemRepresentation) { apns, channel in
            for number in 0..<5 {
                #expect(
                    await channel.send(wake(number), to: registration(number)) == .credentialRejected(reason: "InvalidProviderToken")
                )
            }
            #expect(Set(apns.http.received.compactMap { $0.headers.first(name: "authorization") }).count == 1)
        }
        try await withChannel(key: "-----BEGIN PRIVATE KEY-----") { apns, channel in
            #expect(
                await channel.send(wake(), to: registration(1)) == .credentialRejected(reason: "the APNs key is not a P-256 key in PEM")
            )
            #expect(apns.http.received.isEmpty)
        }
    }

    static let rows: [Row] = [
        Row("410", ScriptedAPNs.problem(410, "Unregistered", timestamp: 1_763_999_000_000), .gone(since: 1_763_999_000_000)),
        Row("410 ExpiredToken", ScriptedAPNs.problem(410, "ExpiredToken"), .gone(since: nil)),
        Row("BadDeviceToken", ScriptedAPNs.problem(400, "BadDeviceToken"), .gone(since: nil)),
        Row("DeviceTokenNotForTopic", ScriptedAPNs.problem(400, "DeviceTokenNotForTopic"), .gone(since: nil)),
        Row("TopicDisallowed", ScriptedAPNs.problem(400, "TopicDisallowed"), .misconfigured(reason: "TopicDisallowed")),
        Row("UnrelatedKeyIdInToken", ScriptedAPNs.problem(403, "UnrelatedKeyIdInToken"), .misconfigured(reason: "UnrelatedKeyIdInToken")),
        Row("InvalidProviderToken", ScriptedAPNs.problem(403, "InvalidProviderToken"), .credentialRejected(reason: "InvalidProviderToken")),
        Row(
            "BadEnvironmentKeyIdInToken",
            ScriptedAPNs.problem(403, "BadEnvironmentKeyIdInToken"),
            .mismatched(reason: "BadEnvironmentKeyIdInToken")
        ),
        Row("no name", ScriptedAPNs.problem(400, "see https://x"), .invalid(reason: "status 400")),
        Row("400", ScriptedAPNs.problem(400, "BadPriority"), .invalid(reason: "BadPriority")),
        Row("404", ScriptedAPNs.problem(404, "BadPath"), .invalid(reason: "BadPath")),
        Row("405", ScriptedAPNs.problem(405, "MethodNotAllowed"), .invalid(reason: "MethodNotAllowed")),
        Row("413", ScriptedAPNs.problem(413, "PayloadTooLarge"), .invalid(reason: "PayloadTooLarge")),
        Row("429 of a device", ScriptedAPNs.problem(429, "TooManyRequests"), .throttled(scope: .registration, wait: nil)),
        Row(
            "429 of tokens",
            ScriptedAPNs.problem(429, "TooManyProviderTokenUpdates"),
            .throttled(scope: .credential, wait: 20 * 60_000)
        ),
        Row("500", ScriptedAPNs.problem(500, "InternalServerError"), .failed(reason: "InternalServerError")),
        Row("503", ScriptedAPNs.problem(503, "Shutdown"), .failed(reason: "Shutdown")),
        Row(
            "503 with a time",
            ScriptedAPNs.problem(503, "ServiceUnavailable", headers: ["Retry-After": "90"]),
            .throttled(scope: .credential, wait: 90_000)
        ),
        Row("no JSON", .reply(.badGateway, [:], "<html>"), .failed(reason: "status 502")),
        Row("redirect", .reply(.found, ["Location": "/3/device/1"]), .invalid(reason: "status 302")),
        Row("hangs up", .hangUp, .failed(reason: "the connection to the provider failed")),
        Row("GOAWAY", .goAway(#"{"reason":"Shutdown"}"#), .failed(reason: "the connection to the provider failed")),
    ]

    @Test(arguments: rows)
    func anAnswerHasItsOutcome(_ row: Row) async throws {
        try await withChannel { apns, channel in
            apns.script(1, row.answer)
            #expect(await channel.send(wake(), to: registration(1)) == row.outcome)
            // It works again at once.
            #expect(await channel.sendUntilAnswered(wake(2), to: registration(2)) == .accepted(id: "EC1BF194-B3B2-424A-89A9-5A918A6E6B4E"))
        }
    }

    @Test(arguments: [ScriptedServer.Answer.silence, .endlessBody])
    func anAnswerThatNeverEndsIsAFailure(_ answer: ScriptedServer.Answer) async throws {
        try await withChannel(timeout: shortTimeout) { apns, channel in
            for number in 0..<2 {
                apns.script(number, answer)
                #expect(
                    await channel.send(wake(number), to: registration(number)) == .failed(reason: "the provider did not answer in time")
                )
            }
        }
    }

    @Test func aTokenThatIsNoneIsNotSent() async throws {
        try await withChannel { apns, channel in
            for token in ["", "../3/device/0", "zz", String(repeating: "0", count: 201)] {
                #expect(await channel.send(wake(), to: .test(apns: token)) == .gone(since: nil))
            }
            #expect(apns.http.received.isEmpty)
        }
    }
}
