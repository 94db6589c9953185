// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import RelayProtocol
import Synchronization

/// The address on this machine that an issuer sends the browser to (RFC 8252 §7.3): it waits for one response. Other requests get an
/// error, and do not end it.
final class LoopbackRedirect: Sendable {
    static let path = "/signed-in"
    /// The time limit of a request, in milliseconds.
    static let requestTime: Int64 = 10_000
    /// The maximum number of connections at a time. A further one is closed.
    static let maximumConnections = 16

    enum Response: Hashable, Sendable {
        case code(Secret<String>)
        /// The value of `error`.
        case refused(String)
    }

    let uri: String
    private let server: any Channel
    private let answer: PendingAnswer<Response>

    private init(_ server: any Channel, _ answer: PendingAnswer<Response>, port: Int) {
        self.server = server
        self.answer = answer
        uri = "http://127.0.0.1:\(port)\(Self.path)"
    }

    /// Listens on a free port.
    /// - Parameter timeout: How long it waits for the response, in milliseconds.
    static func listen(for check: AuthorizationResponseCheck, timeout: Int64) async throws -> LoopbackRedirect {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let answer = PendingAnswer<Response>(on: loop, timeout: timeout)
        let counter = Counter()
        let server = try await ServerBootstrap(group: loop)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard counter.enter() else { throw ChannelError.alreadyClosed }
                    channel.closeFuture.whenComplete { _ in counter.leave() }
                    try channel.pipeline.syncOperations.addHandler(RedirectHandler(check: check, answer: answer))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        answer.whenEnded { server.close(promise: nil) }
        return LoopbackRedirect(server, answer, port: server.localAddress?.port ?? 0)
    }

    /// Waits for the response.
    func response() async throws(IssuerClientError) -> Response {
        do throws(RequestFailure) {
            return try await answer.value()
        } catch {
            throw error == .cancelled ? .cancelled : .expired
        }
    }

    /// Stops listening.
    func stop() { answer.end(.failure(.cancelled)) }
}

/// Counts the open connections.
private final class Counter: Sendable {
    private let open = Mutex(0)

    func enter() -> Bool {
        open.withLock { open in
            guard open < LoopbackRedirect.maximumConnections else { return false }
            open += 1
            return true
        }
    }

    func leave() { open.withLock { $0 -= 1 } }
}

private final class RedirectHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let check: AuthorizationResponseCheck
    private let answer: PendingAnswer<LoopbackRedirect.Response>
    private var reader: RedirectRequestReader?
    private var timer: Scheduled<Void>?

    init(check: AuthorizationResponseCheck, answer: PendingAnswer<LoopbackRedirect.Response>) {
        self.check = check
        self.answer = answer
    }

    func channelActive(context: ChannelHandlerContext) {
        reader = RedirectRequestReader(authority: "127.0.0.1:\(context.channel.localAddress?.port ?? 0)")
        let channel = context.channel
        timer = context.eventLoop.scheduleTask(in: .milliseconds(LoopbackRedirect.requestTime)) { channel.close(promise: nil) }
    }

    func channelInactive(context: ChannelHandlerContext) { timer?.cancel() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard let result = reader?.read(unwrapInboundIn(data).readableBytesView) else { return }
        switch result {
        case .incomplete: return
        case .invalid(let status): reply(status, context)
        case .target(let target):
            switch check.outcome(of: target) {
            case .other(let status): reply(status, context)
            case .code(let code): end(.code(code), "The app continues.", context)
            case .refused(let error): end(.refused(error), "The app was not allowed.", context)
            }
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func end(_ response: LoopbackRedirect.Response, _ text: String, _ context: ChannelHandlerContext) {
        let answer = answer
        reply(200, context, text) { answer.end(.success(response)) }
    }

    private func reply(
        _ status: Int,
        _ context: ChannelHandlerContext,
        _ text: String = "This is not the response that the app waits for.",
        then: @escaping @Sendable () -> Void = {}
    ) {
        reader = nil
        let reason =
            [200: "OK", 404: "Not Found", 405: "Method Not Allowed", 431: "Request Header Fields Too Large"][status] ?? "Bad Request"
        let page = "<!doctype html><title>Device Relay</title><p>\(text) You may close this window.</p>\n"
        let head = [
            "HTTP/1.1 \(status) \(reason)", "Content-Type: text/html; charset=utf-8", "Content-Length: \(page.utf8.count)",
            "Connection: close", "Cache-Control: no-store", "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'",
            "Referrer-Policy: no-referrer", "X-Content-Type-Options: nosniff",
        ]
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: head.joined(separator: "\r\n") + "\r\n\r\n" + page)))
            .whenComplete { _ in
                then()
                channel.close(promise: nil)
            }
    }
}
