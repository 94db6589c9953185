// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import CryptoExtras
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix

/// A push service that accepts every push, with the requests of Firebase Cloud Messaging.
final class PushService: Sendable {
    struct Push: Sendable {
        /// Whom it is for.
        var token: String
        var data: [String: String]
    }

    let pushes: AsyncStream<Push>
    private let deliver: AsyncStream<Push>.Continuation
    private let listener: any Channel

    init() async throws {
        let (pushes, deliver) = AsyncStream.makeStream(of: Push.self)
        (self.pushes, self.deliver) = (pushes, deliver)
        listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Handler(deliver: deliver))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
    }

    deinit {
        listener.close(promise: nil)
        deliver.finish()
    }

    /// The flags of a relay that uses this service.
    var relayArguments: [String] {
        let origin = "http://127.0.0.1:\(listener.localAddress?.port ?? 0)"
        return ["--push-address", "fcm=\(origin)", "--push-address", "fcmToken=\(origin)/token"]
    }

    /// A service account, in the form of Google's console.
    func credential() throws -> Data {
        let account = [
            "project_id": "torture", "client_email": "relay@torture.iam.gserviceaccount.com",
            "private_key": try _RSA.Signing.PrivateKey(keySize: .bits2048).pemRepresentation,
        ]
        return try JSONEncoder().encode(account)
    }
}

private final class Handler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private struct Body: Decodable {
        struct Message: Decodable {
            var token: String
            var data: [String: String]
        }

        var message: Message
    }

    private let deliver: AsyncStream<PushService.Push>.Continuation
    private var path = ""
    private var body = Data()

    init(deliver: AsyncStream<PushService.Push>.Continuation) { self.deliver = deliver }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): (path, body) = (head.uri, Data())
        case .body(let buffer): body += buffer.readableBytesView
        case .end: answer(context.channel)
        }
    }

    private func answer(_ channel: any Channel) {
        var text = #"{"name":"projects/torture/messages/1"}"#
        if path == "/token" {
            text = #"{"access_token":"access","expires_in":3600,"token_type":"Bearer"}"#
        } else if let message = try? JSONDecoder().decode(Body.self, from: body).message {
            deliver.yield(.init(token: message.token, data: message.data))
        }
        let headers: HTTPHeaders = ["Content-Type": "application/json", "Content-Length": "\(text.utf8.count)"]
        channel.write(HTTPServerResponsePart.head(.init(version: .http1_1, status: .ok, headers: headers)), promise: nil)
        channel.write(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(string: text))), promise: nil)
        channel.writeAndFlush(HTTPServerResponsePart.end(nil), promise: nil)
    }
}
