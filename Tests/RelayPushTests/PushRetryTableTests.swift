// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOHTTP1
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayPush

/// The retry table: each row by sockets, and as the documentation states it.
@Suite(.timeLimit(.minutes(5))) struct PushRetryTableTests {
    private let time = TestTime()

    private static func rows(of service: PushService) -> [PushRetryTable.Row] { PushRetryTable.rows.filter { $0.service == service } }

    private func wake() -> Wake { .test(1, expiry: Milliseconds(clamping: time.now.count + 60_000)) }

    /// The provider answers as the row says, without and with a pause.
    private func check(_ row: PushRetryTable.Row, _ send: (_ status: Int, _ reason: String, _ headers: HTTPHeaders) async -> PushOutcome)
        async
    {
        let reason = row.reason ?? "AnotherReason"
        for status in [row.statuses.lowerBound, row.statuses.upperBound] {
            let reply = PushReply(status: status, reason: reason)
            #expect(PushRetryTable.row(for: reply, from: row.service) == row, "another row is before it")
            let outcome = await send(status, reason, [:])
            #expect(outcome.name == row.meaning.outcome)
            let paused = await send(status, reason, ["Retry-After": "77"])
            switch row.meaning {
            case .throttled(let scope), .failed(let scope): #expect(paused == .throttled(scope: scope, wait: 77_000))
            case .paused(let scope, let wait): #expect(paused == .throttled(scope: scope, wait: wait))
            default: #expect(paused == outcome)
            }
        }
    }

    private func end(_ channel: any PushChannel, _ server: ScriptedServer) async {
        await channel.shutdown()
        await server.stop()
    }

    @Test(arguments: rows(of: .apns))
    func aRowOfAPNs(_ row: PushRetryTable.Row) async throws {
        let apns = try await ScriptedAPNs(time)
        let channel = try PushChannels.test(apns.http, time).channel(for: .test(apns: apns))
        await check(row) { status, reason, headers in
            apns.script(1, ScriptedAPNs.problem(status, reason, headers: headers))
            return await channel.send(wake(), to: .test(apns: ScriptedAPNs.token(1)))
        }
        await end(channel, apns.http)
    }

    @Test(arguments: rows(of: .fcm))
    func aRowOfFCM(_ row: PushRetryTable.Row) async throws {
        let fcm = try await ScriptedFCM(time)
        let channel = try PushChannels.test(fcm.http, time).channel(for: .testFCM())
        await check(row) { status, reason, headers in
            fcm.script("1", ScriptedFCM.problem(status, reason, headers: headers))
            return await channel.send(wake(), to: .test(fcm: "1"))
        }
        await end(channel, fcm.http)
    }

    @Test(arguments: rows(of: .tokenEndpoint))
    func aRowOfTheTokenEndpoint(_ row: PushRetryTable.Row) async throws {
        let fcm = try await ScriptedFCM(time)
        let channel = try PushChannels.test(fcm.http, time).channel(for: .testFCM())
        await check(row) { status, _, headers in
            fcm.scriptTokens(.reply(HTTPResponseStatus(statusCode: status), headers))
            return await channel.send(wake(), to: .test(fcm: "1"))
        }
        #expect(fcm.read { $0.accepted.isEmpty })
        await end(channel, fcm.http)
    }

    @Test(arguments: rows(of: .wns))
    func aRowOfWNS(_ row: PushRetryTable.Row) async throws {
        let wns = try await ScriptedWNS()
        let credential = WNSChannel.Credential(kind: .uwp, client: ScriptedWNS.client, secret: Secret(ScriptedWNS.secret))
        let channel = try PushChannels.test(wns.http, time).channel(for: .wns(credential))
        await check(row) { status, reason, headers in
            var headers = headers
            headers.add(name: status == 200 ? "X-WNS-Status" : "X-WNS-Error-Description", value: reason)
            wns.script("1", .reply(HTTPResponseStatus(statusCode: status), headers))
            return await channel.send(wake(), to: wns.channel("1"))
        }
        await end(channel, wns.http)
    }

    @Test(arguments: rows(of: .webPush))
    func aRowOfWebPush(_ row: PushRetryTable.Row) async throws {
        let push = try await ScriptedWebPush(time)
        let channel = try push.channel()
        await check(row) { status, _, headers in
            push.script("/1", .reply(HTTPResponseStatus(statusCode: status), headers))
            return await channel.send(wake(), to: push.registration("/1"))
        }
        await end(channel, push.http)
    }

    @Test func theDocumentationHasTheSameRows() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../docs/push.md").standardizedFileURL
        let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        let start = try #require(lines.firstIndex(of: "| service | status | reason | meaning |"))
        let documented = lines[(start + 2)...].prefix { $0.hasPrefix("|") }
        #expect(Array(documented) == PushRetryTable.rows.map(\.documentation))
    }

    @Test func aReasonThatIsNoNameIsNotKept() {
        for reason in ["", "a b", "https://example.org/secret", "a\u{301}", String(repeating: "a", count: 65)] {
            #expect(PushReply(status: 400, reason: reason).reason == nil)
        }
        #expect(PushReply(status: 400, reason: "BadTopic_1").reason == "BadTopic_1")
    }

    /// Whatever a device registers, and so whatever a push service of its choice answers, no credential is stopped for others.
    @Test func aWebPushServiceStopsNoCredential() {
        for status in 100...999 {
            for wait in [nil, 5_000] as [Int64?] {
                var retry = PushRetry()
                let outcome = PushRetryTable.outcome(of: PushReply(status: status, wait: wait), from: .webPush)
                if case .failed(scope: .credential, _) = outcome { Issue.record("\(status)") }
                for _ in 0..<10 {
                    switch retry.step(after: outcome, remaining: .max, random: { $0 }) {
                    case .stopCredential, .renewCredential, .pause(.credential, _, _): Issue.record("\(status)")
                    default: break
                    }
                }
            }
        }
    }
}

extension PushRetryTable.Meaning {
    fileprivate var outcome: String {
        switch self {
        case .accepted: "accepted"
        case .gone: "gone"
        case .credentialRejected: "credentialRejected"
        case .misconfigured: "misconfigured"
        case .mismatched: "mismatched"
        case .dropped: "dropped"
        case .throttled, .paused: "throttled"
        case .failed: "failed"
        }
    }
}

extension PushRetryTable.Row: CustomTestStringConvertible {
    /// The row of the documentation.
    public var testDescription: String { documentation }

    var documentation: String {
        let names: [PushService: String] = [
            .apns: "APNs", .fcm: "FCM", .wns: "WNS", .webPush: "Web Push", .tokenEndpoint: "token endpoint",
        ]
        let status = statuses.count == 1 ? "\(statuses.lowerBound)" : "\(statuses.lowerBound)–\(statuses.upperBound)"
        func text(_ scope: PushScope) -> String { scope == .credential ? "credential" : "registration" }
        let meaning =
            switch meaning {
            case .accepted: "accepted"
            case .gone: "gone"
            case .credentialRejected: "credential rejected"
            case .misconfigured: "misconfigured"
            case .mismatched: "mismatched"
            case .dropped: "dropped"
            case .throttled(let scope): "throttled (\(text(scope)))"
            case .paused(let scope, let time): "throttled (\(text(scope))), for \(time / 60_000) min"
            case .failed(let scope): "failed; throttled (\(text(scope))) with `Retry-After`"
            }
        return "| \(names[service] ?? "") | \(status) | \(reason.map { "`\($0)`" } ?? "") | \(meaning) |"
    }
}
