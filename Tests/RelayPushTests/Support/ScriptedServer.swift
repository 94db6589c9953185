// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL
import SwiftASN1
import Synchronization
import X509

/// A provider's HTTP server at `localhost`, with TLS, which a test's closure answers for.
final class ScriptedServer: Sendable {
    struct Request: Sendable {
        /// Which connection it came by, counted from 0.
        let connection: Int
        let isHTTP2: Bool
        /// Requests that were under way by its connection when it came, itself included.
        let concurrency: Int
        let method: HTTPMethod
        /// With the query.
        let path: String
        let headers: HTTPHeaders
        let body: [UInt8]
    }

    enum Answer: Sendable {
        case reply(HTTPResponseStatus, HTTPHeaders = [:], String = "")
        /// Also lets the connection have more streams from now on.
        case replyAndAllowStreams(HTTPResponseStatus, HTTPHeaders)
        /// Nothing comes, and the connection stays.
        case silence
        /// The head of a reply and one byte of its body come, and no more.
        case endlessBody
        case hangUp
        /// HTTP/2's way to end a connection, with a reason.
        case goAway(String)
    }

    let certificate: [UInt8]
    private let requests = Mutex<[Request]>([])
    private let answer = Mutex<(@Sendable (Request) -> Answer)?>(nil)
    private let connections = Mutex<(count: Int, open: [any Channel])>((0, []))
    private let listener = Mutex<(any Channel)?>(nil)

    /// - Parameters:
    ///   - protocols: What is offered in ALPN.
    ///   - streams: How many streams a new HTTP/2 connection may have at a time.
    init(protocols: [String] = ["h2", "http/1.1"], streams: Int = 100, host: String = "localhost") async throws {
        let key = P256.Signing.PrivateKey()
        let name = try DistinguishedName { CommonName("localhost") }
        let certificate = try Certificate(
            version: .v3,
            serialNumber: Certificate.SerialNumber(),
            publicKey: .init(key.publicKey),
            notValidBefore: Date(timeIntervalSinceNow: -3600),
            notValidAfter: Date(timeIntervalSinceNow: 3600),
            issuer: name,
            subject: name,
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                SubjectAlternativeNames([
                    .dnsName("localhost"), .dnsName("push.example"), .dnsName("*.push.example"),
                    .ipAddress(.init(contentBytes: [127, 0, 0, 1])),
                ])
            },
            issuerPrivateKey: .init(key)
        )
        self.certificate = Array(try certificate.serializeAsPEM().pemString.utf8)
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: [.certificate(try NIOSSLCertificate(bytes: self.certificate, format: .pem))],
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.pemRepresentation.utf8), format: .pem))
        )
        configuration.applicationProtocols = protocols
        let context = try NIOSSLContext(configuration: configuration)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { [self] channel in
                let number = connections.withLock {
                    $0.open.append(channel)
                    $0.count += 1
                    return $0.count - 1
                }
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context))
                }.flatMap { self.configure(channel, number, streams) }
            }
            .bind(host: host, port: 0).get()
        listener.withLock { $0 = channel }
    }

    var port: Int { listener.withLock { $0?.localAddress?.port } ?? 0 }
    /// Whether `localhost` is 127.0.0.1 here.
    var isIPv4: Bool { listener.withLock { $0?.localAddress?.ipAddress } == "127.0.0.1" }
    var origin: String { "https://localhost:\(port)" }
    /// What trusts this server.
    var roots: NIOSSLTrustRoots {
        get throws { .certificates([try NIOSSLCertificate(bytes: certificate, format: .pem)]) }
    }
    var received: [Request] { requests.withLock { $0 } }
    var connectionCount: Int { connections.withLock { $0.count } }

    /// Sets what answers. Until then, the server hangs up.
    func serve(_ answer: @escaping @Sendable (Request) -> Answer) { self.answer.withLock { $0 = answer } }

    func stop() async {
        try? await listener.withLock { $0 }?.close()
        for channel in connections.withLock({ $0.open }) { try? await channel.close() }
    }

    private func configure(_ channel: any Channel, _ number: Int, _ streams: Int) -> EventLoopFuture<Void> {
        let counter = StreamCounter()
        return channel.configureHTTP2SecureUpgrade(
            h2ChannelConfigurator: { [self] channel in
                channel.configureHTTP2Pipeline(
                    mode: .server,
                    connectionConfiguration: {
                        var configuration = NIOHTTP2Handler.ConnectionConfiguration()
                        configuration.initialSettings = [
                            HTTP2Setting(parameter: .maxConcurrentStreams, value: streams),
                            HTTP2Setting(parameter: .maxHeaderListSize, value: 16 << 10),
                        ]
                        return configuration
                    }(),
                    streamConfiguration: .init()
                ) { stream in
                    stream.eventLoop.makeCompletedFuture {
                        try stream.pipeline.syncOperations.addHandler(HTTP2FramePayloadToHTTP1ServerCodec())
                        try stream.pipeline.syncOperations.addHandler(
                            RequestHandler(server: self, connection: number, parent: channel, counter: counter)
                        )
                    }
                }.map { _ in }
            },
            http1ChannelConfigurator: { [self] channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(
                        RequestHandler(server: self, connection: number, parent: nil, counter: counter)
                    )
                }
            }
        )
    }

    /// The requests under way by one connection.
    fileprivate final class StreamCounter: Sendable {
        private let value = Mutex(0)

        func begin() -> Int {
            value.withLock {
                $0 += 1
                return $0
            }
        }

        func end() { value.withLock { $0 -= 1 } }
    }

    fileprivate func answer(to request: Request) -> Answer {
        requests.withLock { $0.append(request) }
        return answer.withLock { $0 }?(request) ?? .hangUp
    }
}

private final class RequestHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let server: ScriptedServer
    private let connection: Int
    /// The HTTP/2 connection.
    private let parent: (any Channel)?
    private let counter: ScriptedServer.StreamCounter
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []
    private var concurrency = 0

    init(server: ScriptedServer, connection: Int, parent: (any Channel)?, counter: ScriptedServer.StreamCounter) {
        self.server = server
        self.connection = connection
        self.parent = parent
        self.counter = counter
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            body = []
            concurrency = counter.begin()
        case .body(let buffer): body += Array(buffer.readableBytesView)
        case .end:
            guard let head else { return }
            let request = ScriptedServer.Request(
                connection: connection,
                isHTTP2: parent != nil,
                concurrency: concurrency,
                method: head.method,
                path: head.uri,
                headers: head.headers,
                body: body
            )
            let answer = server.answer(to: request)
            counter.end()
            Self.send(answer, context.channel, parent)
        }
    }

    private static func send(_ answer: ScriptedServer.Answer, _ channel: any Channel, _ parent: (any Channel)?) {
        let version = parent == nil ? HTTPVersion.http1_1 : .http2
        func reply(_ status: HTTPResponseStatus, _ headers: HTTPHeaders, _ body: String) {
            var headers = headers
            headers.replaceOrAdd(name: "Content-Length", value: "\(body.utf8.count)")
            channel.write(HTTPServerResponsePart.head(.init(version: version, status: status, headers: headers)), promise: nil)
            // Clients take empty DATA frames in a row for an attack.
            if !body.isEmpty { channel.write(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(string: body))), promise: nil) }
            channel.writeAndFlush(HTTPServerResponsePart.end(nil), promise: nil)
        }
        switch answer {
        case .reply(let status, let headers, let body): reply(status, headers, body)
        case .replyAndAllowStreams(let status, let headers):
            let settings: HTTP2Settings = [HTTP2Setting(parameter: .maxConcurrentStreams, value: 100)]
            parent?.writeAndFlush(HTTP2Frame(streamID: .rootStream, payload: .settings(.settings(settings))), promise: nil)
            reply(status, headers, "")
        case .silence: break
        case .endlessBody:
            let headers: HTTPHeaders = ["Content-Length": "1000"]
            channel.write(HTTPServerResponsePart.head(.init(version: version, status: .ok, headers: headers)), promise: nil)
            channel.writeAndFlush(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(string: "{"))), promise: nil)
        case .hangUp: (parent ?? channel).close(promise: nil)
        case .goAway(let reason):
            let frame = HTTP2Frame.FramePayload.goAway(
                lastStreamID: .rootStream,
                errorCode: .noError,
                opaqueData: ByteBuffer(string: reason)
            )
            parent?.writeAndFlush(HTTP2Frame(streamID: .rootStream, payload: frame), promise: nil)
            (parent ?? channel).close(promise: nil)
        }
    }
}
