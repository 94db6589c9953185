// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import DeviceRelay
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOWebSocket
import RelayProtocol
import SwiftASN1
import X509

/// A server with a configurable behaviour. It counts its open connections.
final class TestRelayServer: Sendable {
    enum Security: Sendable {
        case plain
        case tls(P256.Signing.PrivateKey, Certificate)
        /// TLS that has no certificate to show.
        case tlsWithoutCertificate
    }

    enum Behaviour: Sendable {
        /// Upgrades; then the closure gets each frame and the channel.
        case webSocket(
            subprotocol: String? = "device-relay.v1",
            onOpen: @Sendable (any Channel) -> Void,
            onFrame: @Sendable (WebSocketFrame, any Channel) -> Void
        )
        /// Sends these bytes as the answer to anything.
        case raw(String)
        /// Sends the closure's answer to the request, and closes. With `nil` it sends nothing and stays open. Requests for a control
        /// channel are told to the closure too, but if there is a relay, its challenge is sent to them.
        case answers(relay: RelayID? = nil, @Sendable (String) -> String?)
        /// Accepts connections, and sends nothing.
        case silent
        /// Goes as soon as something is asked, without an answer.
        case hangsUp(HangUp)
    }

    enum HangUp: CaseIterable {
        case close, reset
    }

    let port: Int
    private let channel: any Channel
    private let children = Shared<[any Channel]>([])
    private let accepted = Shared(0)

    /// - Parameter port: The port to listen on; any free one by default, which another server may get as soon as this one stops.
    init(_ security: Security = .plain, _ behaviour: Behaviour, port: Int = 0) async throws {
        let context = try Self.context(security)
        let (children, accepted) = (children, accepted)
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                children.withLock { $0.append(channel) }
                accepted.withLock { $0 += 1 }
                return channel.eventLoop.makeCompletedFuture {
                    if let context { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context)) }
                    try Self.add(behaviour, to: channel)
                }
            }
            .bind(host: "127.0.0.1", port: port).get()
        self.port = channel.localAddress?.port ?? 0
    }

    var connectionCount: Int { accepted.value }

    func stop() async {
        try? await channel.close()
        for child in children.value { try? await child.close() }
    }

    /// Waits until every client has hung up.
    func allConnectionsClosed() async {
        for child in children.value { try? await child.closeFuture.get() }
    }

    private static func context(_ security: Security) throws -> NIOSSLContext? {
        switch security {
        case .plain: return nil
        case .tls(let key, let certificate):
            let pem = try certificate.serializeAsPEM().pemString
            return try NIOSSLContext(
                configuration: .makeServerConfiguration(
                    certificateChain: [.certificate(try NIOSSLCertificate(bytes: Array(pem.utf8), format: .pem))],
                    privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.pemRepresentation.utf8), format: .pem))
                )
            )
        case .tlsWithoutCertificate:
            let key = P256.Signing.PrivateKey()
            return try NIOSSLContext(
                configuration: .makeServerConfiguration(
                    certificateChain: [],
                    privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.pemRepresentation.utf8), format: .pem))
                )
            )
        }
    }

    private static func add(_ behaviour: Behaviour, to channel: any Channel) throws {
        switch behaviour {
        case .silent: break
        case .hangsUp(let hangUp): try channel.pipeline.syncOperations.addHandler(HangUpHandler(hangUp: hangUp))
        case .answers(let relay, let answer):
            let handler = AnswerToRequest(answer: answer) { channel in
                guard let relay else { return false }
                try Self.add(.sending(.challenge(of: relay)), to: channel)
                return true
            }
            try channel.pipeline.syncOperations.addHandler(handler)
        case .raw(let text): try channel.pipeline.syncOperations.addHandler(RawAnswer(text: text))
        case .webSocket(let subprotocol, let onOpen, let onFrame):
            let upgrader = NIOWebSocketServerUpgrader(
                shouldUpgrade: { channel, head in
                    var headers = HTTPHeaders()
                    if let subprotocol, head.headers["Sec-WebSocket-Protocol"] == ["device-relay.v1"], head.uri.hasSuffix("/v1/connect") {
                        headers.add(name: "Sec-WebSocket-Protocol", value: subprotocol)
                    }
                    return channel.eventLoop.makeSucceededFuture(headers)
                },
                upgradePipelineHandler: { channel, _ in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(FrameReader(onFrame: onFrame))
                        channel.eventLoop.execute { onOpen(channel) }
                    }
                }
            )
            try channel.pipeline.syncOperations.configureHTTPServerPipeline(
                withServerUpgrade: (upgraders: [upgrader], completionHandler: { _ in })
            )
        }
    }
}

extension TestRelayServer.Behaviour {
    /// Sends these bytes, which need be no frames, once the WebSocket is open.
    static func bytes(_ bytes: [UInt8], thenClose: Bool = false) -> Self {
        .webSocket(
            onOpen: { channel in
                // Below the frame encoder.
                guard let context = try? channel.pipeline.syncOperations.context(handlerType: WebSocketFrameEncoder.self) else { return }
                context.writeAndFlush(NIOAny(ByteBuffer(bytes: bytes)), promise: nil)
                if thenClose { context.close(promise: nil) }
            },
            onFrame: { frame, channel in
                if frame.opcode == .connectionClose { channel.close(promise: nil) }
            }
        )
    }

    /// Sends this text as soon as the WebSocket is open.
    static func sending(_ text: String) -> Self {
        .webSocket(
            onOpen: { $0.writeAndFlush(WebSocketFrame(fin: true, opcode: .text, data: ByteBuffer(string: text)), promise: nil) },
            onFrame: { frame, channel in if frame.opcode == .connectionClose { channel.close(promise: nil) } }
        )
    }

    static let echo = Self.webSocket(
        onOpen: { _ in },
        onFrame: { frame, channel in
            switch frame.opcode {
            case .text, .binary:
                channel.writeAndFlush(WebSocketFrame(fin: true, opcode: .text, data: frame.unmaskedData), promise: nil)
            case .ping: channel.writeAndFlush(WebSocketFrame(fin: true, opcode: .pong, data: frame.unmaskedData), promise: nil)
            case .connectionClose:
                channel.writeAndFlush(WebSocketFrame(fin: true, opcode: .connectionClose, data: frame.unmaskedData), promise: nil)
            default: break
            }
        }
    )
}

extension String {
    /// The first message of a relay on a control channel.
    static func challenge(of relay: RelayID) throws -> String {
        let challenge = RelayMessage.challenge(
            .init(nonce: Blob([UInt8](repeating: 1, count: 32)), relay: relay, time: 1, versions: [1], features: [])
        )
        return String(buffer: try challenge.encode())
    }
}

private final class RawAnswer: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    private let text: String

    init(text: String) { self.text = text }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
        context.close(promise: nil)
    }
}

private final class HangUpHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private let hangUp: TestRelayServer.HangUp

    init(hangUp: TestRelayServer.HangUp) { self.hangUp = hangUp }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if hangUp == .reset { _ = (context.channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0)) }
        context.close(promise: nil)
    }
}

private final class AnswerToRequest: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundOut = ByteBuffer
    private let answer: @Sendable (String) -> String?
    /// Adds the handlers of a control channel after this one, if there are to be any.
    private let addControlChannel: (any Channel) throws -> Bool
    private var request = ""
    private var wasAnswered = false
    private var isControlChannel = false

    init(answer: @escaping @Sendable (String) -> String?, addControlChannel: @escaping (any Channel) throws -> Bool) {
        self.answer = answer
        self.addControlChannel = addControlChannel
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if isControlChannel { return context.fireChannelRead(data) }
        request += String(buffer: unwrapInboundIn(data))
        guard !wasAnswered, isWhole else { return }
        wasAnswered = true
        let text = answer(request)
        do {
            isControlChannel = try request.hasPrefix("GET /v1/connect ") && addControlChannel(context.channel)
        } catch {
            return context.close(promise: nil)
        }
        if isControlChannel { return context.fireChannelRead(Self.wrapInboundOut(ByteBuffer(string: request))) }
        guard let text else { return }
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
        context.close(promise: nil)
    }

    private var isWhole: Bool {
        guard let end = request.firstRange(of: "\r\n\r\n") else { return false }
        let length = request[..<end.lowerBound].firstMatch(of: /\r\n[Cc]ontent-[Ll]ength: *([0-9]+)/).flatMap { Int($0.1) } ?? 0
        return request[end.upperBound...].utf8.count >= length
    }
}

private final class FrameReader: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    private let onFrame: @Sendable (WebSocketFrame, any Channel) -> Void

    init(onFrame: @escaping @Sendable (WebSocketFrame, any Channel) -> Void) { self.onFrame = onFrame }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { onFrame(unwrapInboundIn(data), context.channel) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

/// Certificates as a relay, or an authority, makes them.
struct TestCertificate {
    let key = P256.Signing.PrivateKey()
    let certificate: Certificate

    /// Signed by itself unless there is an issuer.
    init(name: String = "relay", host: String? = nil, address: [UInt8]? = nil, isAuthority: Bool = false, issuer: TestCertificate? = nil)
        throws
    {
        let subject = try DistinguishedName { CommonName(name) }
        var names: [GeneralName] = []
        if let host { names.append(.dnsName(host)) }
        if let address { names.append(.ipAddress(.init(contentBytes: address[...]))) }
        certificate = try Certificate(
            version: .v3,
            serialNumber: Certificate.SerialNumber(),
            publicKey: .init(key.publicKey),
            notValidBefore: Date(timeIntervalSinceNow: -3600),
            notValidAfter: Date(timeIntervalSinceNow: 3600),
            issuer: issuer?.certificate.subject ?? subject,
            subject: subject,
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(isAuthority ? BasicConstraints.isCertificateAuthority(maxPathLength: nil) : .notCertificateAuthority)
                if !names.isEmpty { SubjectAlternativeNames(names) }
            },
            issuerPrivateKey: .init(issuer?.key ?? key)
        )
    }

    var relayID: RelayID { RelayID(SigningPublicKey(key.publicKey)) }
    var security: TestRelayServer.Security { .tls(key, certificate) }

    /// A TLS client that shows it, and believes anything.
    func clientConfiguration() throws -> TLSConfiguration {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .none
        let pem = try certificate.serializeAsPEM().pemString
        configuration.certificateChain = [.certificate(try NIOSSLCertificate(bytes: Array(pem.utf8), format: .pem))]
        configuration.privateKey = .privateKey(try NIOSSLPrivateKey(bytes: Array(key.pemRepresentation.utf8), format: .pem))
        return configuration
    }
}
