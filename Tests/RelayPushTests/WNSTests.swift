// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOHTTP1
import RelayProtocol
import Testing

@testable import RelayPush

@Suite(.timeLimit(.minutes(5))) struct WNSTests {
    private let time = TestTime()

    private func withChannel(
        _ kind: WNSChannel.Credential.Kind = .uwp,
        secret: String = ScriptedWNS.secret,
        timeout: Duration = .seconds(60),
        _ body: (ScriptedWNS, any PushChannel) async throws -> Void
    ) async throws {
        let wns = try await ScriptedWNS()
        let credential = WNSChannel.Credential(kind: kind, client: ScriptedWNS.client, secret: Secret(secret))
        let channel = try PushChannels.test(wns.http, time, timeout: timeout).channel(for: .wns(credential))
        let result: Result<Void, any Error>
        do { result = .success(try await body(wns, channel)) } catch { result = .failure(error) }
        await channel.shutdown()
        await wns.stop()
        try result.get()
    }

    private func wake(_ number: Int = 1, _ urgency: WakePayload.Urgency = .urgent) -> Wake {
        .test(number, urgency, expiry: Milliseconds(clamping: time.now.count + 60_000))
    }

    @Test(arguments: [(WakePayload.Urgency.urgent, "wns/toast"), (.background, "wns/raw")])
    func aWakeIsAccepted(_ urgency: WakePayload.Urgency, _ type: String) async throws {
        try await withChannel { wns, channel in
            #expect(await channel.send(wake(1, urgency), to: wns.channel("1")) == .accepted(id: "19D1C46D"))
            let request = try #require(wns.now.accepted.first)
            #expect(request.headers.first(name: "x-wns-type") == type)
            #expect(request.headers.first(name: "x-wns-ttl") == "60")
            let text = String(decoding: request.body, as: UTF8.self)
            #expect(text.contains(EndpointID.test(1).description))
            #expect(text.contains("deviceRelay"))
        }
    }

    @Test(arguments: [WNSChannel.Credential.Kind.uwp, .appSDK(tenant: ScriptedWNS.tenant)])
    func eachKindOfAppHasItsTokenEndpoint(_ kind: WNSChannel.Credential.Kind) async throws {
        try await withChannel(kind) { wns, channel in
            await withDiscardingTaskGroup { group in
                for number in 0..<20 { group.addTask { _ = await channel.send(wake(number), to: wns.channel("\(number)")) } }
            }
            #expect(wns.now.accepted.count == 20)
            #expect(wns.now.tokenRequests.count == 1)
            #expect(wns.now.violations.isEmpty)
            // A day later.
            time.advance(86_400_000)
            _ = await channel.send(wake(), to: wns.channel("1"))
            #expect(wns.now.tokenRequests.count == 2)
        }
    }

    @Test func aSecretThatIsWrongIsRejected() async throws {
        try await withChannel(secret: "wrong") { wns, channel in
            #expect(
                await channel.send(wake(), to: wns.channel("1")) == .credentialRejected(reason: "the token endpoint answered 400")
            )
        }
    }

    @Test func aTokenThatEndedIsRenewed() async throws {
        try await withChannel { wns, channel in
            _ = await channel.send(wake(), to: wns.channel("1"))
            wns.revokeTokens()
            #expect(await channel.send(wake(), to: wns.channel("1")) == .credentialRejected(reason: "status 401"))
            #expect(await channel.send(wake(), to: wns.channel("1")) == .accepted(id: "19D1C46D"))
            #expect(wns.now.tokenRequests.count == 2)
        }
    }

    static let rows: [Row] = [
        Row("dropped", .reply(.ok, ["X-WNS-Status": "dropped"]), .dropped(reason: "dropped")),
        Row("throttled channel", .reply(.ok, ["X-WNS-Status": "channelthrottled"]), .throttled(scope: .registration, wait: nil)),
        Row("403", .reply(.forbidden), .mismatched(reason: "status 403")),
        Row("404", .reply(.notFound), .gone(since: nil)),
        Row("410 domain blocked", .reply(.gone, ["X-WNS-Error-Description": "Domain Blocked"]), .misconfigured(reason: "DomainBlocked")),
        Row("410", .reply(.gone), .gone(since: nil)),
        Row("406", .reply(.notAcceptable, ["Retry-After": "120"]), .throttled(scope: .credential, wait: 120_000)),
        Row("406 without a time", .reply(.notAcceptable), .throttled(scope: .credential, wait: nil)),
        Row("413", .reply(.payloadTooLarge), .invalid(reason: "status 413")),
        Row("400", .reply(.badRequest, ["X-WNS-Error-Description": "no such type"]), .invalid(reason: "nosuchtype")),
        Row("405", .reply(.methodNotAllowed), .invalid(reason: "status 405")),
        Row("500", .reply(.internalServerError), .failed(scope: .registration, reason: "status 500")),
        Row("503", .reply(.serviceUnavailable), .failed(scope: .registration, reason: "status 503")),
        Row("503 with a time", .reply(.serviceUnavailable, ["Retry-After": "5"]), .throttled(scope: .credential, wait: 5_000)),
        Row(
            "503 with a date",
            .reply(.serviceUnavailable, ["Retry-After": "Mon, 24 Nov 2025 16:00:10 GMT"]),
            .throttled(scope: .credential, wait: 10_000)
        ),
        Row("redirect", .reply(.found, ["Location": "https://other.example/"]), .invalid(reason: "status 302")),
        Row("hangs up", .hangUp, .failed(scope: .registration, reason: "the connection to the provider failed")),
    ]

    @Test(arguments: rows)
    func anAnswerHasItsOutcome(_ row: Row) async throws {
        try await withChannel { wns, channel in
            wns.script("1", row.answer)
            #expect(await channel.send(wake(), to: wns.channel("1")) == row.outcome)
            #expect(await channel.sendUntilAnswered(wake(), to: wns.channel("2")) == .accepted(id: "19D1C46D"))
            #expect(wns.now.violations.isEmpty)
        }
    }

    @Test(arguments: [
        "https://evil.example/w/?token=1", "https://notify.windows.com.evil.example/", "http://db5p.notify.windows.com/w/?token=1",
        "https://evilnotify.windows.com/", "https://notify.windows.com/", "https://user@db5p.notify.windows.com/",
        "https://db5p.notify.windows.com:8443/", "https://evil.example\\.notify.windows.com/", "https://evil.example#.notify.windows.com/",
        "https://evil.example/.notify.windows.com", "file:///etc/passwd", "",
    ])
    func aTokenGoesToNoOtherHost(_ uri: String) async throws {
        let wns = try await ScriptedWNS()
        var channels = try PushChannels.test(wns.http, time)
        channels.addresses.wnsOrigin = nil
        let credential = WNSChannel.Credential(kind: .uwp, client: ScriptedWNS.client, secret: Secret(ScriptedWNS.secret))
        let channel = channels.channel(for: .wns(credential))
        #expect(await channel.send(wake(), to: .test(wns: uri)) == .forbidden(reason: "the channel URI is not at a host of WNS"))
        #expect(wns.http.received.isEmpty)
        await channel.shutdown()
        await wns.stop()
    }
}
