// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import NIOHTTP1
import NIOPosix
import NIOSSL

/// A single request.
package struct HTTPRequest: Sendable {
    package var method: HTTPMethod
    /// The absolute path, in visible ASCII.
    package var path: String
    package var headers: HTTPHeaders
    package var body: [UInt8]?

    package init(_ method: HTTPMethod, _ path: String, headers: HTTPHeaders = [:], body: [UInt8]? = nil) {
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
    }
}

/// A response with any status.
package struct HTTPAnswer: Sendable {
    package var status: Int
    package var headers: HTTPHeaders
    package var body: [UInt8]

    /// The server's clock: milliseconds since 1970.
    package var date: Int64? { headers.first(name: "Date").flatMap(HTTPDate.parse) }
}

/// Sends single requests, each on its own connection. It follows no redirects and stores no cookies.
package struct HTTPRequestClient: Sendable {
    private let group: any EventLoopGroup
    private let timeout: Int64
    private let connectTimeout: Int64
    private let maximumBodyBytes: Int?

    /// - Parameters:
    ///   - timeout: The time limit until the end of the response, in milliseconds.
    ///   - connectTimeout: The time limit of the connection, in milliseconds.
    ///   - maximumBodyBytes: The maximum size of a response body. A larger one is an error. With `nil` the response ends with its head.
    package init(
        group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        timeout: Int64 = 15_000,
        connectTimeout: Int64 = 15_000,
        maximumBodyBytes: Int? = 64 << 10
    ) {
        self.group = group
        self.timeout = timeout
        self.connectTimeout = connectTimeout
        self.maximumBodyBytes = maximumBodyBytes
    }

    /// Sends a request and returns the complete response. Cancelling the task closes the connection; the server may still have processed
    /// the request.
    /// - Parameters:
    ///   - place: The network address of the server; `nil` to look up its name.
    ///   - exchange: It begins when the request is sent, and from then on cancelling the task has no effect.
    package func send(
        _ request: HTTPRequest,
        to address: RelayAddress,
        at place: SocketAddress? = nil,
        trust: RelayTrust,
        exchange: UnstoredExchange? = nil
    ) async throws(RequestFailure) -> HTTPAnswer {
        let tls: NIOSSLContext?
        do throws(DialFailure) { tls = try RelayTLS.context(for: address) } catch { throw .failed(error) }
        let loop = group.next()
        let answer = PendingAnswer<HTTPAnswer>(on: loop, timeout: timeout)
        let limit = maximumBodyBytes
        let bootstrap = ClientBootstrap(group: loop)
            .connectTimeout(.milliseconds(min(timeout, connectTimeout)))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard answer.whenEnded({ RelayTLS.hangUp(channel) }) else { throw ChannelError.alreadyClosed }
                }
            }
        (place.map(bootstrap.connect(to:)) ?? bootstrap.connect(toHost: address.host, port: address.port))
            .whenComplete { result in
                switch result {
                // The request is written only now: of several addresses that are tried at once, exactly one gets it.
                case .success(let channel):
                    if let exchange {
                        guard answer.ignoreCancellation() else { return }
                        exchange.begin()
                    }
                    do {
                        try Self.begin(request, on: channel, tls, address, trust, limit, answer)
                    } catch {
                        answer.end(.failure(.failed(DialFailure(onChannel: error))))
                    }
                case .failure(let error): answer.end(.failure(.failed(DialFailure(connecting: error))))
                }
            }
        return try await answer.value()
    }

    /// Sends a request to a server on this machine that listens on a Unix socket, and returns the complete response.
    /// - Parameter path: The path of the socket, at most 103 bytes.
    package func send(_ request: HTTPRequest, toSocket path: String) async throws(RequestFailure) -> HTTPAnswer {
        let loop = group.next()
        let answer = PendingAnswer<HTTPAnswer>(on: loop, timeout: timeout)
        let limit = maximumBodyBytes
        ClientBootstrap(group: loop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard answer.whenEnded({ channel.close(promise: nil) }) else { throw ChannelError.alreadyClosed }
                }
            }
            .connect(unixDomainSocketPath: path)
            .whenComplete { result in
                switch result {
                case .success(let channel):
                    do {
                        try Self.write(request, to: "relay", on: channel, limit, answer)
                    } catch {
                        answer.end(.failure(.failed(DialFailure(onChannel: error))))
                    }
                case .failure(let error): answer.end(.failure(.failed(DialFailure(connecting: error))))
                }
            }
        return try await answer.value()
    }

    private static func begin(
        _ request: HTTPRequest,
        on channel: any Channel,
        _ tls: NIOSSLContext?,
        _ address: RelayAddress,
        _ trust: RelayTrust,
        _ limit: Int?,
        _ answer: PendingAnswer<HTTPAnswer>
    ) throws {
        if let tls {
            try channel.pipeline.syncOperations.addHandler(
                RelayTLS.handler(tls, address, trust) { answer.end(.failure(.failed(.untrusted($0)))) }
            )
        }
        try write(request, to: address.server.authority, on: channel, limit, answer)
    }

    private static func write(
        _ request: HTTPRequest,
        to host: String,
        on channel: any Channel,
        _ limit: Int?,
        _ answer: PendingAnswer<HTTPAnswer>
    ) throws {
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHTTPClientHandlers()
        try pipeline.addHandler(AnswerHandler(limit: limit, answer: answer))
        var headers = request.headers
        headers.replaceOrAdd(name: "Host", value: host)
        headers.replaceOrAdd(name: "Connection", value: "close")
        if request.method != .GET { headers.replaceOrAdd(name: "Content-Length", value: "\(request.body?.count ?? 0)") }
        let head = HTTPRequestHead(version: .http1_1, method: request.method, uri: request.path, headers: headers)
        channel.write(HTTPClientRequestPart.head(head)).whenFailure { answer.end(.failure(.failed(DialFailure(onChannel: $0)))) }
        if let body = request.body { channel.write(HTTPClientRequestPart.body(.byteBuffer(ByteBuffer(bytes: body))), promise: nil) }
        channel.writeAndFlush(HTTPClientRequestPart.end(nil), promise: nil)
    }
}

private final class AnswerHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    /// `nil` for an answer without its body.
    private let limit: Int?
    private let answer: PendingAnswer<HTTPAnswer>
    private var received: HTTPAnswer?

    init(limit: Int?, answer: PendingAnswer<HTTPAnswer>) {
        self.limit = limit
        self.answer = answer
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            let head = HTTPAnswer(status: Int(head.status.code), headers: head.headers, body: [])
            received = head
            if limit == nil { answer.end(.success(head)) }
        case .body(let part):
            guard let limit, let count = received?.body.count, part.readableBytes <= limit - count else {
                return fail(.protocolError("the answer is too long"))
            }
            received?.body.append(contentsOf: part.readableBytesView)
        case .end:
            guard let received else { return }
            answer.end(.success(received))
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        fail(.hungUp)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { fail(DialFailure(onChannel: error)) }

    private func fail(_ failure: DialFailure) { answer.end(.failure(.failed(failure))) }
}
