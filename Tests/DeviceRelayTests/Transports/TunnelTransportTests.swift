// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayProtocol
import Testing

@testable import DeviceRelay

@Suite(.timeLimit(.minutes(10))) struct TunnelTransportTests {
    typealias Way = TestTunnelRelay.Way

    /// What came through a tunnel, once the text from the other side is there.
    static func exchange(_ relay: TestTunnelRelay, _ opener: [Way], _ target: [Way]) async throws -> [String] {
        let tunnel = relay.tunnel((opener, target))
        async let there = connect(tunnel.target)
        let here = try await connect(tunnel.opener)
        let other = try await there
        here.channel.writeAndFlush(ByteBuffer(string: "from the opener"), promise: nil)
        other.channel.writeAndFlush(ByteBuffer(string: "from the target"), promise: nil)
        let texts = [await other.text(), await here.text()]
        try await here.channel.close().get()
        try await other.channel.closeFuture.get()
        return texts
    }

    struct End {
        let channel: any Channel
        let bytes: AsyncStream<ByteBuffer>

        func text() async -> String {
            var text = ""
            for await more in bytes {
                text += String(buffer: more)
                if text.utf8.count >= 15 { break }
            }
            return text
        }
    }

    static func connect(_ transport: TunnelTransport, timeout: Duration = .seconds(10)) async throws(PeerTransportError) -> End {
        let (bytes, continuation) = AsyncStream.makeStream(of: ByteBuffer.self)
        let channel = try await transport.connect(timeout: timeout) { channel in
            try channel.pipeline.syncOperations.addHandler(Collector(continuation))
        }
        return End(channel: channel, bytes: bytes)
    }

    static func failure(_ transport: TunnelTransport, timeout: Duration = .seconds(10)) async -> PeerTransportError? {
        do throws(PeerTransportError) {
            _ = try await connect(transport, timeout: timeout)
            Issue.record("it connected")
            return nil
        } catch {
            return error
        }
    }

    @Test(arguments: [[Way.socket], [.webSocket], [.other("udp://:1"), .socket]], [[Way.socket], [.webSocket]])
    func bytesPassBothWays(_ opener: [Way], _ target: [Way]) async throws {
        let relay = try await TestTunnelRelay()
        #expect(try await Self.exchange(relay, opener, target) == ["from the opener", "from the target"])
        try await relay.whenAllClosed()
        await relay.stop()
    }

    @Test func nextCandidateIsTriedAfterAFailure() async throws {
        for behaviour in [TestTunnelRelay.Behaviour.hangUp, .silent] {
            let relay = try await TestTunnelRelay(socket: behaviour)
            #expect(try await Self.exchange(relay, [.socket, .webSocket], [.webSocket]) == ["from the opener", "from the target"])
            // The one that lost is closed too.
            try await relay.whenAllClosed()
            #expect(try await relay.counts.accepted == 3)
            await relay.stop()
        }
        // Nothing listens at this port.
        let relay = try await TestTunnelRelay()
        let nobody = try await TestTunnelRelay()
        await nobody.stop()
        let dead = Way.other("tcp://127.0.0.1:\(nobody.socketPort)")
        #expect(try await Self.exchange(relay, [dead, .socket], [dead, .webSocket]) == ["from the opener", "from the target"])
        await relay.stop()
    }

    @Test func tunnelStatusOfTheRelayIsReported() async throws {
        func relay(_ socket: Int, _ webSocket: Int) async throws -> TestTunnelRelay {
            try await TestTunnelRelay(socket: .refuse(socket), webSocket: .refuse(webSocket))
        }
        for (socket, webSocket, status) in [(1, 404, TunnelStatus.refused), (2, 504, .timedOut), (3, 410, .closed), (4, 409, .replaced)] {
            let relay = try await relay(socket, webSocket)
            #expect(await Self.failure(relay.tunnel(([.socket], [])).opener) == .refused(status))
            #expect(await Self.failure(relay.tunnel(([.webSocket], [])).opener) == .refused(status))
            try await relay.whenAllClosed()
            await relay.stop()
        }
        let other = try await relay(99, 503)
        #expect(await Self.failure(other.tunnel(([.socket], [])).opener) == .unreachable(.protocolError("no tunnel's answer")))
        #expect(await Self.failure(other.tunnel(([.webSocket], [])).opener) == .unreachable(.status(503, retryAfter: nil)))
        #expect(await Self.failure(other.tunnel(([.other("udp://:1"), .other("")], [])).opener) == .noCandidate)
        await other.stop()
        let closing = try await TestTunnelRelay(socket: .refuse(3), webSocket: .hangUp)
        // The relay's status wins over the errors of other candidates.
        #expect(await Self.failure(closing.tunnel(([.socket, .webSocket], [])).opener) == .refused(.closed))
        // A WebSocket that is closed without an answer was reached, and that counts more than a way that was not.
        let nobody = try await TestTunnelRelay()
        await nobody.stop()
        let dead = Way.other("tcp://127.0.0.1:\(nobody.socketPort)")
        #expect(await Self.failure(closing.tunnel(([.webSocket, dead], [])).opener) == .closed)
        #expect(await Self.failure(closing.tunnel(([dead, .webSocket], [])).opener) == .closed)
        await closing.stop()
    }

    @Test func tunnelOpeningTimesOutOrIsCancelled() async throws {
        let relay = try await TestTunnelRelay(socket: .silent, webSocket: .silent)
        let task = Task { await Self.failure(relay.tunnel(([.webSocket], [])).opener) }
        while try await relay.counts.accepted < 1 { await Task.yield() }
        #expect(await Self.failure(relay.tunnel(([.socket, .webSocket], [])).opener, timeout: .milliseconds(50)) == .timedOut)
        task.cancel()
        #expect(await task.value == .cancelled)
        try await relay.whenAllClosed()
        await relay.stop()
    }

    @Test func tunnelOverTLSRequiresThePinnedKey() async throws {
        let certificate = try TestCertificate()
        let server = try await TestRelayServer(certificate.security, .silent)
        var random = SystemRandomNumberGenerator()
        let entrance = TunnelEntrance(
            tunnel: TunnelID(using: &random),
            token: Secret(Blob([7])),
            urls: ["/v1/tunnels/x"]
        )
        let address = try RelayAddress(try #require(URL(string: "https://127.0.0.1:\(server.port)")))
        let transport = TunnelTransport(entrance, relay: address, trust: RelayTrust(relay: MachineBench.relay))
        #expect(await Self.failure(transport) == .unreachable(.untrusted(.otherKey(certificate.relayID))))
        await server.stop()
    }

    @Test func candidatesAreParsed() throws {
        let relay = try RelayAddress(try #require(URL(string: "https://Relay.example:8443/base/")))
        let plain = try RelayAddress(try #require(URL(string: "http://127.0.0.1")))
        func candidate(_ text: String) -> TunnelCandidate? { TunnelCandidate(text, relay: relay) }
        #expect(candidate("tcp://:9000") == .socket(host: "relay.example", port: 9_000))
        #expect(candidate("tcp://node2.example:9000") == .socket(host: "node2.example", port: 9_000))
        #expect(candidate("tcp://[::1]:9000") == .socket(host: "::1", port: 9_000))
        #expect(candidate("wss:///v1/tunnels/abc") == .webSocket(relay, path: "/base/v1/tunnels/abc"))
        #expect(candidate("/v1/tunnels/abc") == .webSocket(relay, path: "/base/v1/tunnels/abc"))
        #expect(TunnelCandidate("/v1/tunnels/abc", relay: plain) == .webSocket(plain, path: "/v1/tunnels/abc"))
        let other = try RelayAddress(try #require(URL(string: "https://node2.example/v1/tunnels/abc")))
        #expect(candidate("https://node2.example/v1/tunnels/abc") == .webSocket(other, path: "/v1/tunnels/abc"))
        for text in [
            "", "tcp://host", "tcp://:0", "tcp://:70000", "udp://host:1", "v1/tunnels", "https://", "http://user@host/", "::", "tcp://:x",
        ] {
            #expect(candidate(text) == nil, "\(text)")
        }
    }
}

private final class Collector: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private let continuation: AsyncStream<ByteBuffer>.Continuation

    init(_ continuation: AsyncStream<ByteBuffer>.Continuation) { self.continuation = continuation }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { continuation.yield(unwrapInboundIn(data)) }
    func channelInactive(context: ChannelHandlerContext) { continuation.finish() }
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
