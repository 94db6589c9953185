// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOHTTP1

/// Filters HTTP requests and their responses.
///
/// If there are several `Host` fields, it removes all of them: a proxy in front of the relay may have used another one than the first,
/// which the relay would check (RFC 9112 §3.2).
///
/// An error is the last response of its connection: all bytes after such a request are ignored.
final class RequestHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// How long the client may take to read the last response. An immediate close could destroy it while the client is still sending.
    private static let closingTime = TimeAmount.seconds(2)

    private let reads: PreAuthReadThrottle
    private let ticket: UnauthenticatedConnections.Ticket
    private let metrics: TransportMetrics
    private var isLast = false
    /// When the request that is answered next began, or the response before it ended.
    private var begun = ContinuousClock.now
    /// How many responses are due.
    private var owed = 0
    private var status = 0

    init(reads: PreAuthReadThrottle, ticket: UnauthenticatedConnections.Ticket, metrics: TransportMetrics) {
        self.reads = reads
        self.ticket = ticket
        self.metrics = metrics
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isLast else { return }
        let part = Self.unwrapInboundIn(data)
        if case .head = part {
            if owed == 0 { begun = .now }
            owed += 1
        }
        if case .head(let head) = part, !ticket.requestBegins(forwardedFor: head.headers[TrustedProxies.header]) {
            return refuse(.tooManyConnections, context: context)
        }
        switch part {
        case .head(var head) where head.headers["host"].count > 1:
            head.headers.remove(name: "host")
            context.fireChannelRead(Self.wrapInboundOut(.head(head)))
        case .end:
            reads.renew()
            context.fireChannelRead(data)
        default:
            context.fireChannelRead(data)
        }
    }

    private func refuse(_ problem: ProblemDetails, context: ChannelHandlerContext) {
        for part in problem.http1 { write(context: context, data: Self.wrapOutboundOut(part), promise: nil) }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let part = Self.unwrapOutboundIn(data)
        switch part {
        case .head(let head): status = Int(head.status.code)
        case .body: break
        case .end: responseEnds()
        }
        switch part {
        case .head(var head) where head.status.code >= 400:
            isLast = true
            head.headers.replaceOrAdd(name: "connection", value: "close")
            context.write(Self.wrapOutboundOut(.head(head)), promise: promise)
        case .end where !isLast:
            ticket.requestEnds()
            context.write(data, promise: promise)
        case .end:
            let written = context.eventLoop.makePromise(of: Void.self)
            written.futureResult.cascade(to: promise)
            written.futureResult.assumeIsolated().whenComplete { _ in self.close(context: context) }
            context.writeAndFlush(data, promise: written)
        default:
            context.write(data, promise: promise)
        }
    }

    private func responseEnds() {
        metrics.answered(status: status, after: ContinuousClock.now - begun)
        begun = .now
        owed -= 1
    }

    private func close(context: ChannelHandlerContext) {
        context.close(mode: .output, promise: nil)
        context.eventLoop.assumeIsolated().scheduleTask(in: Self.closingTime) { context.close(promise: nil) }
    }
}
