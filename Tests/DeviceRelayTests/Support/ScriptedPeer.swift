// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import NIOCore
import NIOSSL
import RelayProtocol

/// A peer with a valid key that sends the frames of a test and answers the frames of the other side.
struct ScriptedPeer: Sendable {
    let channel: any Channel
    /// The other side's session with it.
    let session: PeerSession

    /// - Parameters:
    ///   - certificate: The same certificate makes the same peer.
    ///   - answer: Its answer to a frame. It runs on the channel's loop.
    static func connect(
        _ relay: TestTunnelRelay,
        to target: SessionSide,
        as certificate: TestCertificate? = nil,
        answer: @escaping @Sendable (SessionFrame) -> [SessionFrame] = { _ in [] }
    ) async throws -> ScriptedPeer {
        let tunnel = relay.tunnel()
        async let accepted = target.connector.acceptSession(over: tunnel.target) { _ in true }
        let channel = try await enter(tunnel.opener, as: certificate ?? TestCertificate(), answer: answer)
        return ScriptedPeer(channel: channel, session: try await accepted)
    }

    /// Opens a session through one side of a tunnel.
    static func enter(
        _ transport: TunnelTransport,
        as certificate: TestCertificate,
        answer: @escaping @Sendable (SessionFrame) -> [SessionFrame]
    ) async throws -> any Channel {
        var configuration = try certificate.clientConfiguration()
        configuration.applicationProtocols = ["device-relay/1"]
        let context = try NIOSSLContext(configuration: configuration)
        let channel = try await transport.connect(timeout: .seconds(10)) { channel in
            try channel.pipeline.syncOperations.addHandler(NIOSSLClientHandler(context: context, serverHostname: nil))
            try channel.pipeline.syncOperations.addHandler(FrameHandler(answer))
        }
        channel.writeAndFlush(ByteBuffer(bytes: SessionTrustTests.settings), promise: nil)
        return channel
    }

    func send(_ frames: [SessionFrame]) { channel.writeAndFlush(FrameHandler.bytes(of: frames), promise: nil) }

    /// Opens connections 1, 3, 5 … to a service.
    func open(_ count: Int, to service: String = "test") {
        send((0..<count).map { Self.open($0, to: service) })
    }

    static func id(_ index: Int) -> SessionConnectionID { SessionConnectionID(UInt32(2 * index + 1)) }

    static func open(_ index: Int, to service: String) -> SessionFrame {
        SessionFrame(.open(SessionOpening(serviceName: service, appID: "com.example.app")), connection: id(index))
    }

    static func request(_ message: SessionFrame.Message, _ number: Int, on index: Int) -> SessionFrame {
        SessionFrame(.request(message, timeLeft: nil), connection: id(index), number: UInt32(number))
    }

    /// A granted message.
    static func data(_ message: ByteBuffer, for grant: SessionFrame) -> [SessionFrame] {
        var message = message
        var frames: [SessionFrame] = []
        while let slice = message.readSlice(length: min(message.readableBytes, 32 << 10)), slice.readableBytes > 0 {
            let payload = SessionFrame.Payload.data(slice, of: .request, isLast: message.readableBytes == 0)
            frames.append(SessionFrame(payload, connection: grant.connection, number: grant.number))
        }
        return frames
    }
}

/// Reads frames, and writes the answers.
private final class FrameHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    private var decoder = SessionFrameDecoder()
    private let answer: @Sendable (SessionFrame) -> [SessionFrame]

    init(_ answer: @escaping @Sendable (SessionFrame) -> [SessionFrame]) { self.answer = answer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        decoder.append(unwrapInboundIn(data))
        while let frame = try? decoder.next() {
            let frames = answer(frame)
            if !frames.isEmpty { context.writeAndFlush(wrapOutboundOut(Self.bytes(of: frames)), promise: nil) }
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    static func bytes(of frames: [SessionFrame]) -> ByteBuffer {
        var bytes = ByteBuffer()
        for frame in frames { SessionFrameEncoder.write(frame, to: &bytes) }
        return bytes
    }
}
