// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CryptoExtras
import NIOHTTP1
import RelayProtocol
import Testing

@testable import RelayPush

@Suite(.timeLimit(.minutes(5))) struct FCMTests {
    private let time = TestTime()

    private func withChannel(
        key: String? = nil,
        timeout: Duration = .seconds(60),
        _ body: (ScriptedFCM, any PushChannel) async throws -> Void
    ) async throws {
        let fcm = try await ScriptedFCM(time)
        let channel = try PushChannels.test(fcm.http, time, timeout: timeout).channel(for: .testFCM(key: key))
        let result: Result<Void, any Error>
        do { result = .success(try await body(fcm, channel)) } catch { result = .failure(error) }
        await channel.shutdown()
        await fcm.stop()
        try result.get()
    }

    private func wake(_ number: Int = 1, _ urgency: WakePayload.Urgency = .urgent) -> Wake {
        .test(number, urgency, expiry: Milliseconds(clamping: time.now.count + 60_000))
    }

    @Test(arguments: [(WakePayload.Urgency.urgent, "high"), (.background, "normal")])
    func aWakeIsAccepted(_ urgency: WakePayload.Urgency, _ priority: String) async throws {
        try await withChannel { fcm, channel in
            let outcome = await channel.send(wake(1, urgency), to: .test(fcm: "device"))
            #expect(outcome == .accepted(id: "projects/\(ScriptedFCM.project)/messages/0:1"))
            #expect(fcm.read { ($0.accepted.first?["android"] as? [String: String])?["priority"] } == priority)
            #expect(fcm.read { ($0.accepted.first?["android"] as? [String: String])?["ttl"] } == "60s")
            #expect(
                fcm.read { ($0.accepted.first?["data"] as? [String: String])?["deviceRelay"] } == wake(1, urgency).payload.json
            )
        }
    }

    @Test func wakesShareOneToken() async throws {
        try await withChannel { fcm, channel in
            await withDiscardingTaskGroup { group in
                for number in 0..<40 { group.addTask { _ = await channel.send(wake(number), to: .test(fcm: "\(number)")) } }
            }
            #expect(fcm.read { $0.accepted.count } == 40)
            #expect(fcm.read { $0.assertions } == 1)
            // It is renewed before it ends.
            time.advance(56 * 60_000)
            _ = await channel.send(wake(), to: .test(fcm: "1"))
            #expect(fcm.read { $0.assertions } == 2)
            // Revoked, it is renewed once for all.
            fcm.revokeTokens()
            await withDiscardingTaskGroup { group in
                for number in 0..<40 {
                    group.addTask {
                        let outcome = await channel.send(wake(number), to: .test(fcm: "\(number)"))
                        if outcome == .credentialRejected(reason: "UNAUTHENTICATED") {
                            _ = await channel.send(wake(number), to: .test(fcm: "\(number)"))
                        }
                    }
                }
            }
            #expect(fcm.read { $0.accepted.count } == 81)
            #expect(fcm.read { $0.assertions } == 3)
        }
    }

    static let rows: [Row] = [
        Row("404 UNREGISTERED", ScriptedFCM.problem(404, "UNREGISTERED", name: "NOT_FOUND"), .gone(since: nil)),
        Row("404 without a name", .reply(.notFound, [:], "<html>"), .mismatched(reason: "status 404")),
        Row("403 SENDER_ID_MISMATCH", ScriptedFCM.problem(403, "SENDER_ID_MISMATCH"), .mismatched(reason: "SENDER_ID_MISMATCH")),
        Row(
            "401 THIRD_PARTY_AUTH_ERROR",
            ScriptedFCM.problem(401, "THIRD_PARTY_AUTH_ERROR"),
            .mismatched(reason: "THIRD_PARTY_AUTH_ERROR")
        ),
        Row("401", ScriptedFCM.problem(401, "UNAUTHENTICATED"), .credentialRejected(reason: "UNAUTHENTICATED")),
        Row("403", ScriptedFCM.problem(403, "PERMISSION_DENIED"), .misconfigured(reason: "PERMISSION_DENIED")),
        Row("400", ScriptedFCM.problem(400, "INVALID_ARGUMENT"), .invalid(reason: "INVALID_ARGUMENT")),
        Row("429", ScriptedFCM.problem(429, "QUOTA_EXCEEDED"), .throttled(scope: .credential, wait: nil)),
        Row(
            "429 with a time",
            ScriptedFCM.problem(429, "QUOTA_EXCEEDED", headers: ["Retry-After": "30"]),
            .throttled(scope: .credential, wait: 30_000)
        ),
        Row("503", ScriptedFCM.problem(503, "UNAVAILABLE"), .failed(reason: "UNAVAILABLE")),
        Row(
            "503 with a time",
            ScriptedFCM.problem(503, "UNAVAILABLE", headers: ["Retry-After": "7"]),
            .throttled(scope: .credential, wait: 7_000)
        ),
        Row("500", ScriptedFCM.problem(500, "INTERNAL"), .failed(reason: "INTERNAL")),
        Row("no JSON", .reply(.badGateway, [:], "<html>"), .failed(reason: "status 502")),
        Row("hangs up", .hangUp, .failed(reason: "the connection to the provider failed")),
    ]

    @Test(arguments: rows)
    func anAnswerHasItsOutcome(_ row: Row) async throws {
        try await withChannel { fcm, channel in
            fcm.script("device", row.answer)
            #expect(await channel.send(wake(), to: .test(fcm: "device")) == row.outcome)
            #expect(
                await channel.sendUntilAnswered(wake(), to: .test(fcm: "other"))
                    == .accepted(id: "projects/\(ScriptedFCM.project)/messages/0:1")
            )
        }
    }

    static let tokenRows: [Row] = [
        Row("400", .reply(.badRequest, [:], "{}"), .credentialRejected(reason: "the token endpoint answered 400")),
        Row("429", .reply(.tooManyRequests, ["Retry-After": "9"]), .throttled(scope: .credential, wait: 9_000)),
        Row("503", .reply(.serviceUnavailable), .failed(reason: "the token endpoint answered 503")),
        Row("no token", .reply(.ok, [:], "{}"), .failed(reason: "the token endpoint's answer has no access token")),
        Row("hangs up", .hangUp, .failed(reason: "the token endpoint cannot be reached")),
        Row("a redirect", .reply(.found, ["Location": "/other"]), .failed(reason: "the token endpoint answered 302")),
    ]

    @Test(arguments: tokenRows)
    func anAnswerOfTheTokenEndpointHasItsOutcome(_ row: Row) async throws {
        try await withChannel { fcm, channel in
            fcm.scriptTokens(row.answer)
            #expect(await channel.send(wake(), to: .test(fcm: "device")) == row.outcome)
            #expect(
                await channel.sendUntilAnswered(wake(), to: .test(fcm: "device"))
                    == .accepted(id: "projects/\(ScriptedFCM.project)/messages/0:1")
            )
        }
    }

    @Test func aKeyThatIsNoneIsRejected() async throws {
        try await withChannel(key: "no key") { fcm, channel in
            let outcome = await channel.send(wake(), to: .test(fcm: "device"))
            #expect(outcome == .credentialRejected(reason: "the service account's key is no RSA key in PEM"))
            #expect(fcm.http.received.isEmpty)
        }
    }
}
