// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import RelayProtocol
import Synchronization
import Testing

@testable import RelayPush

/// Users choose the push services of Web Push. None of them makes the relay reach into its own network.
@Suite(.timeLimit(.minutes(5))) struct PushAddressAttackTests {
    private let time = TestTime()

    private func withChannel(
        allowsPrivateAddresses: Bool = true,
        _ body: (ScriptedWebPush, any PushChannel) async throws -> Void
    ) async throws {
        try await ScriptedWebPush.run(time, allowsPrivateAddresses: allowsPrivateAddresses, body)
    }

    private func wake() -> Wake { .test(1, .urgent, expiry: Milliseconds(clamping: time.now.count + 60_000)) }

    private static let privateAddress = PushOutcome.forbidden(
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

    @Test func aNameThatDoesNotResolveIsAFailure() async throws {
        try await withChannel(allowsPrivateAddresses: false) { push, channel in
            let outcome = await channel.send(wake(), to: push.registration("/push/1", host: "no-such-name.invalid"))
            #expect(outcome == .failed(scope: .registration, reason: "the push service cannot be reached"))
        }
    }
}
