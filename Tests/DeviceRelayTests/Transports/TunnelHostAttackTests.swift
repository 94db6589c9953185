// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import NIOPosix
import RelayProtocol
import Testing

@testable import DeviceRelay

/// A relay that wants its devices to connect to others than itself.
@Suite(.timeLimit(.minutes(10))) struct TunnelHostAttackTests {
    /// Something else that listens on the device's loopback.
    private static func listener(_ host: String, _ accepted: Shared<Int>) async throws -> any Channel {
        try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                accepted.withLock { $0 += 1 }
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            .bind(host: host, port: 0).get()
    }

    @Test func foreignTunnelHostsAreNotDialed() async throws {
        let relay = try await TestTunnelRelay()
        let accepted = Shared(0)
        let other = try await Self.listener("127.0.0.2", accepted)
        let port = try #require(other.localAddress?.port)
        let ways: [TestTunnelRelay.Way] = ["tcp://127.0.0.2:\(port)", "http://127.0.0.2:\(port)/", "ws://127.0.0.2:\(port)/v1/tunnels/a"]
            .map { .other($0) }
        #expect(await TunnelTransportTests.failure(relay.tunnel((ways, [])).opener) == .foreignHost)
        // Those that are the relay's are taken all the same.
        let texts = try await TunnelTransportTests.exchange(relay, ways + [.socket], ways + [.webSocket])
        #expect(texts == ["from the opener", "from the target"])
        #expect(accepted.value == 0)
        try await other.close()
        await relay.stop()
    }

    @Test func foreignHostErrorNamesTheCause() {
        let error = AppServiceError(transport: .foreignHost)
        #expect(error.code == .authenticationError)
        #expect(error.message.contains("hosts that are not its own"))
    }

    @Test func loopbackHostsOfARemoteRelayAreIgnored() throws {
        let address = try RelayAddress(try #require(URL(string: "https://relay.example")))
        let named = [
            "https://other.example:9000/base", "https://127.0.0.1", "https://127.1", "https://2130706433", "https://0x7f.1",
            "https://[::1]",
            "https://[::ffff:127.0.0.1]", "https://0.0.0.0", "https://localhost", "https://a.localhost", "nonsense", "https://192.0.2.7",
        ]
        let hosts = RelayHosts(dialled: [address], named: named)
        let all = [
            "relay.example", "other.example", "127.0.0.1", "127.1", "2130706433", "0x7f.1", "::1", "::ffff:127.0.0.1", "0.0.0.0",
            "localhost",
            "a.localhost", "192.0.2.7", "third.example", "",
        ]
        #expect(all.filter(hosts.contains) == ["relay.example", "other.example", "192.0.2.7"])
        // A relay on this device is one.
        let own = RelayHosts(dialled: [try RelayAddress(try #require(URL(string: "http://127.0.0.1:8080")))])
        #expect(own.contains("127.0.0.1"))
        #expect(!own.contains("127.0.0.2"))
    }
}
