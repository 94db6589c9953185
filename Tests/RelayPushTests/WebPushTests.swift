// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

@testable import RelayPush

@Suite(.timeLimit(.minutes(5))) struct WebPushTests {
    private let time = TestTime()

    private func withChannel(
        timeout: Duration = .seconds(60),
        _ body: (ScriptedWebPush, any PushChannel) async throws -> Void
    ) async throws {
        try await ScriptedWebPush.run(time, timeout: timeout, body)
    }

    private func wake(_ number: Int = 1, _ urgency: WakePayload.Urgency = .urgent) -> Wake {
        .test(number, urgency, expiry: Milliseconds(clamping: time.now.count + 60_000))
    }

    @Test(arguments: [(WakePayload.Urgency.urgent, "high"), (.background, "normal")])
    func aWakeIsAccepted(_ urgency: WakePayload.Urgency, _ value: String) async throws {
        try await withChannel { push, channel in
            #expect(await channel.send(wake(1, urgency), to: push.registration("/push/1?secret=2")) == .accepted(id: nil))
            let request = try #require(push.now.accepted.first)
            #expect(request.path == "/push/1?secret=2")
            #expect(request.headers.first(name: "urgency") == value)
            #expect(request.headers.first(name: "ttl") == "60")
            #expect(push.now.contents == [#"{"deviceRelay":\#(wake(1, urgency).payload.json)}"#])
        }
    }

    /// `http_ece` and `py-vapid` share nothing with this project.
    @Test(.enabled(if: PythonScript.isAvailable, "scripts/test sets DEVICE_RELAY_PYTHON to a Python that has http_ece and py-vapid"))
    func independentImplementationsAgree() async throws {
        try await withChannel { push, channel in
            for number in 0..<10 {
                #expect(await channel.send(wake(number), to: push.registration("/push/\(number)")) == .accepted(id: nil))
            }
            let lines = try push.now.accepted.enumerated().map { number, request in
                let fields = [
                    "authorization": try #require(request.headers.first(name: "authorization")),
                    "body": Base64.url.encode(request.body),
                    "private": Base64.url.encode(Array(push.subscriber.rawRepresentation)),
                    "secret": Base64.url.encode(push.secret),
                    "content": #"{"deviceRelay":\#(wake(number).payload.json)}"#,
                    "audience": push.http.origin,
                    "contact": "mailto:admin@example.com",
                ]
                return String(decoding: try JSONEncoder().encode(fields), as: UTF8.self)
            }
            #expect(lines.count == 10)
            let input = FileManager.default.temporaryDirectory.appending(path: "webpush-\(UUID().uuidString).json")
            try Data(lines.joined(separator: "\n").utf8).write(to: input)
            defer { try? FileManager.default.removeItem(at: input) }
            #expect(try await PythonScript("webpush-exchange.py", [input.path]).end() == 0)
        }
    }

    static let rows: [Row] = [
        Row("404", .reply(.notFound), .gone(since: nil)),
        Row("410", .reply(.gone), .gone(since: nil)),
        Row("401", .reply(.unauthorized), .mismatched(reason: "status 401")),
        Row("403", .reply(.forbidden), .mismatched(reason: "status 403")),
        Row("413", .reply(.payloadTooLarge), .invalid(reason: "status 413")),
        Row("400", .reply(.badRequest), .invalid(reason: "status 400")),
        Row("429", .reply(.tooManyRequests, ["Retry-After": "5"]), .throttled(scope: .registration, wait: 5_000)),
        Row("429 without a time", .reply(.tooManyRequests), .throttled(scope: .registration, wait: nil)),
        Row("503", .reply(.serviceUnavailable), .failed(scope: .registration, reason: "status 503")),
        Row("503 with a time", .reply(.serviceUnavailable, ["Retry-After": "5"]), .throttled(scope: .registration, wait: 5_000)),
        Row("507 of ntfy", .reply(.insufficientStorage), .throttled(scope: .registration, wait: nil)),
        Row("500", .reply(.internalServerError), .failed(scope: .registration, reason: "status 500")),
        Row("redirect", .reply(.temporaryRedirect, ["Location": "http://127.0.0.1/"]), .invalid(reason: "status 307")),
        Row("hangs up", .hangUp, .failed(scope: .registration, reason: "the push service cannot be reached")),
    ]

    @Test(arguments: rows)
    func anAnswerHasItsOutcome(_ row: Row) async throws {
        try await withChannel { push, channel in
            push.script("/push/1", row.answer)
            #expect(await channel.send(wake(), to: push.registration("/push/1")) == row.outcome)
            #expect(await channel.sendUntilAnswered(wake(), to: push.registration("/push/2")) == .accepted(id: nil))
        }
    }

    @Test(arguments: [ScriptedServer.Answer.silence, .endlessBody])
    func anAnswerThatNeverEndsIsAFailure(_ answer: ScriptedServer.Answer) async throws {
        try await withChannel(timeout: shortTimeout) { push, channel in
            push.script("/push/1", answer)
            #expect(
                await channel.send(wake(), to: push.registration("/push/1"))
                    == .failed(scope: .registration, reason: "the push service cannot be reached")
            )
        }
    }

    /// The status is known, and nothing else of the answer is used.
    @Test func aLongBodyIsIgnored() async throws {
        try await withChannel { push, channel in
            let body = String(repeating: "a", count: ProviderClient.maximumReplyBytes + 1)
            push.script("/push/1", .reply(.created, [:], body), .reply(.gone, [:], body))
            #expect(await channel.send(wake(), to: push.registration("/push/1")) == .accepted(id: nil))
            #expect(await channel.sendUntilAnswered(wake(), to: push.registration("/push/1")) == .gone(since: nil))
        }
    }

    @Test func pushesToOneServiceShareAConnection() async throws {
        try await withChannel { push, channel in
            for number in 0..<10 {
                #expect(await channel.send(wake(number), to: push.registration("/push/\(number)")) == .accepted(id: nil))
            }
            #expect(push.http.connectionCount == 1)
        }
    }

    @Test func aFewClientsAreKept() async throws {
        let server = try await ScriptedServer(host: "127.0.0.1")
        server.serve { _ in .reply(.created) }
        let roots = try server.roots
        let clients = WebPushClients(maximum: 3) { place in
            ProviderClient(
                http1Only: true,
                group: MultiThreadedEventLoopGroup.singleton,
                roots: roots,
                addresses: [place.host: place.address],
                timeout: .seconds(60)
            )
        }
        func post(_ host: String) async throws -> Int {
            try await clients.use(.init(host: host, address: "127.0.0.1")) { client throws(ProviderClient.Failure) in
                try await client.post("https://\(host):\(server.port)/", headers: [:], body: [1]).status
            }
        }
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<20 { group.addTask { try await post("n\(number).push.example") } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses == Array(repeating: 201, count: 20))
        #expect(clients.count == 3)
        for number in 0..<10 { #expect(try await post("n\(number).push.example") == 201) }
        #expect(clients.count == 3)
        await clients.shutdown()
        // One that ended keeps none.
        #expect(try await post("n0.push.example") == 201)
        #expect(clients.count == 0)
        await server.stop()
    }

    @Test func aSubscriberWithoutAKeyIsGone() async throws {
        try await withChannel { push, channel in
            let registration = PushRegistration.webPush(
                endpoint: Secret("\(push.http.origin)/push/1"),
                publicKey: Blob(Array(repeating: 4, count: 65)),
                secret: Secret(Blob(push.secret))
            )
            #expect(await channel.send(wake(), to: registration) == .gone(since: nil))
            #expect(push.http.received.isEmpty)
        }
    }
}
