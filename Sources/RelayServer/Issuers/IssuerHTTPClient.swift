// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import RelayProtocol

/// Sends the relay's own requests, to issuers and to its own URLs, each on a connection of its own. Follows no redirect, because a redirect
/// could lead into the relay's network.
struct IssuerHTTPClient: Sendable {
    struct Answer: Sendable {
        var status: Int
        var headers: HTTPHeaders
        var body: [UInt8]
        /// Where it came from.
        var reach = NetworkReach.loopback
    }

    /// Why there is no answer. It contains nothing of the answer.
    enum Failure: Error, Hashable {
        case timedOut, tooLong, closed, status(Int), malformed
        /// The issuer does not accept the relay's client id and secret.
        case credentialsRefused
        /// An address that the issuer names is nearer than the issuer itself: on this machine, or in its network.
        case addressNotAllowed
        /// The issuer's metadata does not name an address that is needed, or not a permitted one.
        case addressMissing
        /// The relay stops.
        case cancelled
    }

    /// Why a request failed, for people. It contains nothing of the answer.
    static func reason(_ error: any Error) -> String {
        switch error {
        case Failure.timedOut: "no answer within \(timeout.nanoseconds / 1_000_000_000) s"
        case Failure.tooLong: "the answer has more than \(maximumBytes >> 10) KiB"
        case Failure.closed: "the server closed the connection"
        case let error as NIOConnectionError:
            error.connectionErrors.isEmpty ? "the name \(error.host) has no address" : "no connection to \(error.host):\(error.port)"
        case let error as NIOSSLError:
            if case .handshakeFailed = error { "the certificate is not trusted, or TLS failed" } else { "TLS failed" }
        case is NIOSSLExtraError: "the certificate is not for this name"
        case is HTTPParserError: "the answer is not HTTP"
        default: "the connection failed"
        }
    }

    /// The limit of an answer's body.
    static let maximumBytes = 256 << 10
    /// The limit of the whole request.
    static let timeout = TimeAmount.seconds(10)

    /// Tells addresses of the public Internet from others.
    var isPublic: @Sendable (IPAddress) -> Bool = { $0.isPublic }

    /// - Parameters:
    ///   - form: The body of a POST request; without it, the request is a GET.
    ///   - nearest: How near the server may be. A nearer one gets no byte.
    func send(
        to url: IssuerURL,
        authorization: Secret<String>? = nil,
        form: Secret<String>? = nil,
        nearest: NetworkReach = .loopback
    ) async throws -> Answer {
        let loop = EventLoops.connections.next()
        let promise = loop.makePromise(of: Answer.self)
        let tls = url.origin.isEncrypted ? try NIOSSLContext(configuration: .makeClientConfiguration()) : nil
        let name = url.origin.host
        let timer = loop.scheduleTask(in: Self.timeout) { promise.fail(Failure.timedOut) }
        promise.futureResult.whenComplete { _ in timer.cancel() }
        ClientBootstrap(group: loop)
            .connectTimeout(Self.timeout)
            .connect(host: name, port: url.origin.port)
            .whenComplete { result in
                switch result {
                // Only now: of several addresses that are tried at once, one gets the request.
                case .success(let channel):
                    promise.futureResult.whenComplete { _ in channel.close(promise: nil) }
                    let reach = NetworkReach(of: IPAddress(channel.remoteAddress), isPublic: isPublic)
                    guard reach >= nearest else { return promise.fail(Failure.addressNotAllowed) }
                    do {
                        let pipeline = channel.pipeline.syncOperations
                        if let tls { try pipeline.addHandler(Self.tlsHandler(tls, name)) }
                        try pipeline.addHTTPClientHandlers()
                        try pipeline.addHandler(AnswerHandler(promise, from: reach))
                    } catch {
                        return promise.fail(error)
                    }
                    Self.write(url, authorization, form, to: channel)
                case .failure(let error): promise.fail(error)
                }
            }
        return try await withTaskCancellationHandler {
            try await promise.futureResult.get()
        } onCancel: {
            promise.fail(Failure.cancelled)
        }
    }

    private static func tlsHandler(_ context: NIOSSLContext, _ host: String) throws -> NIOSSLClientHandler {
        // An address is no server name; it is verified all the same.
        let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
        return try NIOSSLClientHandler(context: context, serverHostname: isAddress ? nil : host)
    }

    private static func write(_ url: IssuerURL, _ authorization: Secret<String>?, _ form: Secret<String>?, to channel: any Channel) {
        var headers: HTTPHeaders = ["host": url.origin.authority, "accept": "application/json", "connection": "close"]
        if let authorization { headers.add(name: "authorization", value: authorization.exposed) }
        if let form {
            headers.add(name: "content-type", value: "application/x-www-form-urlencoded")
            headers.add(name: "content-length", value: "\(form.exposed.utf8.count)")
        }
        let path = url.path.isEmpty ? "/" : url.path
        let head = HTTPRequestHead(version: .http1_1, method: form == nil ? .GET : .POST, uri: path, headers: headers)
        channel.write(HTTPClientRequestPart.head(head), promise: nil)
        if let form { channel.write(HTTPClientRequestPart.body(.byteBuffer(ByteBuffer(string: form.exposed))), promise: nil) }
        channel.writeAndFlush(HTTPClientRequestPart.end(nil), promise: nil)
    }
}

private final class AnswerHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    private let promise: EventLoopPromise<IssuerHTTPClient.Answer>
    private let reach: NetworkReach
    private var answer: IssuerHTTPClient.Answer?

    init(_ promise: EventLoopPromise<IssuerHTTPClient.Answer>, from reach: NetworkReach) {
        self.promise = promise
        self.reach = reach
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): answer = IssuerHTTPClient.Answer(status: Int(head.status.code), headers: head.headers, body: [], reach: reach)
        case .body(let part):
            guard let count = answer?.body.count, part.readableBytes <= IssuerHTTPClient.maximumBytes - count else {
                return promise.fail(IssuerHTTPClient.Failure.tooLong)
            }
            answer?.body.append(contentsOf: part.readableBytesView)
        case .end:
            if let answer { promise.succeed(answer) }
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        promise.fail(IssuerHTTPClient.Failure.closed)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { promise.fail(error) }
}
