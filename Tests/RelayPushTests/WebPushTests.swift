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
        allowsPrivateAddresses: Bool = true,
        timeout: Duration = .seconds(60),
        _ body: (ScriptedWebPush, any PushChannel) async throws -> Void
    ) async throws {
        let push = try await ScriptedWebPush(time)
        let channel = try push.channel(allowsPrivateAddresses: allowsPrivateAddresses, timeout: timeout)
        let result: Result<Void, any Error>
        do { result = .success(try await body(push, channel)) } catch { result = .failure(error) }
        await channel.shutdown()
        await push.http.stop()
        try result.get()
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
        Row("503", .reply(.serviceUnavailable), .failed(reason: "status 503")),
        Row("503 with a time", .reply(.serviceUnavailable, ["Retry-After": "5"]), .throttled(scope: .registration, wait: 5_000)),
        Row("507 of ntfy", .reply(.insufficientStorage), .throttled(scope: .registration, wait: nil)),
        Row("500", .reply(.internalServerError), .failed(reason: "status 500")),
        Row("redirect", .reply(.temporaryRedirect, ["Location": "http://127.0.0.1/"]), .invalid(reason: "status 307")),
        Row("hangs up", .hangUp, .failed(reason: "the push service cannot be reached")),
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
                await channel.send(wake(), to: push.registration("/push/1")) == .failed(reason: "the push service cannot be reached")
            )
        }
    }

    // MARK: Addresses

    static let privateAddress = PushOutcome.forbidden(
        reason: "the push endpoint is not at a public address; the operator can allow that"
    )

    /// Names and addresses that lead to this machine or a local network.
    @Test(arguments: [
        "localhost", "LOCALHOST", "127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1",
    ])
    func aPrivateAddressIsDialledOnlyIfAllowed(_ host: String) async throws {
        try await withChannel(allowsPrivateAddresses: false) { push, channel in
            #expect(await channel.send(wake(), to: push.registration("/push/1", host: host)) == Self.privateAddress)
            #expect(push.http.connectionCount == 0)
        }
    }

    @Test func aPrivateAddressCanBeAllowed() async throws {
        try await withChannel { push, channel in
            #expect(await channel.send(wake(), to: push.registration("/push/1")) == .accepted(id: nil))
            guard push.http.isIPv4 else { return }
            #expect(await channel.send(wake(), to: push.registration("/push/1", host: "127.0.0.1")) == .accepted(id: nil))
        }
    }

    @Test(arguments: [
        "http://push.example/1", "ftp://push.example/1", "https:///1", "https://user:password@push.example/1", "https://%6c%6fcalhost/1",
        "https://push.example:0/1", "https://push.example:99999/1", "", "x",
    ])
    func anEndpointThatIsNoneIsRefused(_ url: String) async throws {
        try await withChannel(allowsPrivateAddresses: false) { push, channel in
            let registration = PushRegistration.webPush(
                endpoint: Secret(url),
                publicKey: Blob(Array(push.subscriber.publicKey.x963Representation)),
                secret: Secret(Blob(push.secret))
            )
            let outcome = await channel.send(wake(), to: registration)
            guard case .forbidden = outcome else {
                Issue.record("\(outcome)")
                return
            }
        }
    }

    /// Posts to `push.example`, which no resolver of this machine knows.
    private func post(
        addresses: [String],
        allowsPrivateAddresses: Bool
    ) async throws -> (outcome: Result<Int, WebPushDialError>, resolutions: Int, received: Int) {
        let server = try await ScriptedServer(host: "127.0.0.1")
        server.serve { _ in .reply(.created) }
        let resolutions = Mutex(0)
        let dialer = WebPushDialer(
            .init(allowsPrivateAddresses: allowsPrivateAddresses),
            group: MultiThreadedEventLoopGroup.singleton,
            roots: try server.roots,
            timeout: .seconds(60),
            resolver: { _, port in
                resolutions.withLock { $0 += 1 }
                return addresses.compactMap { try? SocketAddress(ipAddress: $0, port: port) }
            }
        )
        let target = try #require(DialTarget("https://push.example:\(server.port)/1"))
        let outcome: Result<Int, WebPushDialError>
        do throws(WebPushDialError) {
            outcome = .success(try await dialer.post(target, headers: [:], body: [1]).status)
        } catch {
            outcome = .failure(error)
        }
        let received = server.received.count
        await dialer.shutdown()
        await server.stop()
        return (outcome, resolutions.withLock { $0 }, received)
    }

    @Test func aNameIsResolvedOnceAndItsCheckedAddressIsDialled() async throws {
        let (outcome, resolutions, received) = try await post(addresses: ["127.0.0.1"], allowsPrivateAddresses: true)
        #expect(outcome == .success(201))
        #expect(resolutions == 1)
        #expect(received == 1)
    }

    @Test func anAddressThatDoesNotAnswerIsFollowedByTheNext() async throws {
        // Nothing listens at the first one.
        let (outcome, _, received) = try await post(addresses: ["127.0.0.9", "127.0.0.1"], allowsPrivateAddresses: true)
        #expect(outcome == .success(201))
        #expect(received == 1)
    }

    @Test(arguments: [["8.8.8.8", "127.0.0.1"], ["2606:4700::1111", "fe80::1"], ["8.8.8.8", "::ffff:127.0.0.1"]])
    func aNameWithOnePrivateAddressIsRefused(_ addresses: [String]) async throws {
        let (outcome, _, received) = try await post(addresses: addresses, allowsPrivateAddresses: false)
        guard case .failure(.forbidden) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(received == 0)
    }

    @Test func aPublicAddressIsNeverDialledByHTTP() async throws {
        let dialer = WebPushDialer(
            .init(allowsPrivateAddresses: true),
            group: MultiThreadedEventLoopGroup.singleton,
            roots: .default,
            timeout: .seconds(60),
            resolver: { _, port in (try? SocketAddress(ipAddress: "192.0.1.1", port: port)).map { [$0] } }
        )
        let target = try #require(DialTarget("http://push.example/1"))
        await #expect(throws: WebPushDialError.forbidden("the push endpoint is not https")) {
            try await dialer.post(target, headers: [:], body: [1])
        }
        await dialer.shutdown()
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

    @Test func aNameThatDoesNotResolveIsAFailure() async throws {
        try await withChannel(allowsPrivateAddresses: false) { push, channel in
            let outcome = await channel.send(wake(), to: push.registration("/push/1", host: "no-such-name.invalid"))
            #expect(outcome == .failed(reason: "the push service cannot be reached"))
        }
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
