// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import HTTPTypes
import NIOCore
import NIOHTTP1
import RelayProtocol

/// How a request for a tunnel is answered, when it is known what becomes of it.
struct TunnelUpgrade {
    /// Puts handlers in the place of HTTP.
    var accept: ([any ChannelHandler]) throws -> Void
    var refuse: (ProblemDetails) -> Void
}

/// Decides, after the HTTP decoder, what a connection's first request makes of it, and then leaves the pipeline. NIO's own
/// upgrade handlers lose the request that no upgrader takes.
final class UpgradeHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private enum State {
        case awaitingRequest
        /// The head of an upgrade is here, its end is not.
        case awaitingEnd(Upgrade)
        /// A tunnel's other side is awaited.
        case awaitingTunnel
        /// The codec is asked to leave.
        case upgraded
        /// The decoder hands over what it still holds: bytes behind the request.
        case receivingLeftovers
        case done
    }

    private enum Upgrade {
        case controlChannel(accept: String)
        case tunnel(accept: String, TunnelID, token: Secret<[UInt8]>)
    }

    /// What the handler does to the pipeline around it.
    struct Outcomes {
        /// Whether the client of a request may have one more connection.
        var requestBegins: (HTTPRequestHead) -> Bool
        /// Adds the HTTP server's handlers behind this one.
        var serveHTTP: (ChannelHandlerContext) throws -> Void
        /// Adds the control channel's handlers behind this one.
        var serveControlChannel: (ChannelHandlerContext) throws -> Void
        /// Lets a connection into a tunnel; says whether it was let in.
        var enterTunnel: (TunnelID, Secret<[UInt8]>, any Channel, TunnelUpgrade) -> Bool
        /// Nothing came of the connection.
        var finished: () -> Void
    }

    private let origins: OwnOrigins
    private let patience: TimeAmount
    private let codec: [any RemovableChannelHandler]
    private let metrics: TransportMetrics
    private let outcomes: Outcomes
    private var state = State.awaitingRequest
    private var timeout: Scheduled<Void>?

    /// - Parameters:
    ///   - patience: how long the first request's head may take, the TLS handshake before it included.
    ///   - codec: encoder and decoder, in the order in which they leave.
    init(
        origins: OwnOrigins,
        patience: TimeAmount,
        codec: [any RemovableChannelHandler],
        metrics: TransportMetrics,
        outcomes: Outcomes
    ) {
        self.origins = origins
        self.patience = patience
        self.codec = codec
        self.metrics = metrics
        self.outcomes = outcomes
    }

    func handlerAdded(context: ChannelHandlerContext) {
        timeout = context.eventLoop.assumeIsolated().scheduleTask(in: patience) {
            // What the decoder makes of half a request is not answered.
            self.state = .done
            context.close(promise: nil)
        }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        timeout?.cancel()
        timeout = nil
        // Without an HTTP server behind us, whoever waits for one must not wait for ever.
        outcomes.finished()
    }

    func channelInactive(context: ChannelHandlerContext) {
        timeout?.cancel()
        outcomes.finished()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch state {
        case .awaitingRequest:
            guard case .head(let head) = Self.unwrapInboundIn(data) else { return }
            decide(head, context: context)
        case .awaitingEnd(.controlChannel(let accept)):
            guard case .end = Self.unwrapInboundIn(data) else { return }
            upgrade(accept: accept, to: UpgradeDecision.controlSubprotocol, context: context, serve: outcomes.serveControlChannel)
        case .awaitingEnd(.tunnel(let accept, let tunnel, let token)):
            guard case .end = Self.unwrapInboundIn(data) else { return }
            enter(tunnel, token, accept: accept, context: context)
        case .upgraded, .awaitingTunnel:
            // Were the decoder of another mind than we on what an upgrade is, it would read bytes behind it as a request.
            state = .done
            context.close(promise: nil)
        case .receivingLeftovers:
            context.fireChannelRead(data)
        case .done:
            break
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if case .awaitingRequest = state, context.channel.isActive, error is HTTPParserError {
            refuse(ProblemDetails(.badRequest, "This is not an HTTP/1.1 request."), context: context)
        } else {
            context.close(promise: nil)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is ChannelShouldQuiesceEvent:
            context.close(promise: nil)
        case ChannelEvent.inputClosed:
            // No request will come, but the answer to one may still be on its way.
            switch state {
            case .awaitingRequest, .awaitingTunnel: context.close(promise: nil)
            case .awaitingEnd, .upgraded, .receivingLeftovers, .done: break
            }
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }

    private func decide(_ head: HTTPRequestHead, context: ChannelHandlerContext) {
        guard outcomes.requestBegins(head) else { return refuse(.tooManyConnections, context: context) }
        let address = context.localAddress
        let decision = UpgradeDecision(
            head: head,
            isOwnHost: { origins.allows(host: $0, on: address) },
            isOwnOrigin: { origins.allows(origin: $0, on: address) }
        )
        switch decision {
        case .ordinary: serveHTTP(head, context: context)
        case .controlChannel(let accept): state = .awaitingEnd(.controlChannel(accept: accept))
        case .tunnel(let accept, let tunnel, let token): state = .awaitingEnd(.tunnel(accept: accept, tunnel, token: token))
        case .refused(let problem): refuse(problem, context: context)
        }
    }

    private func serveHTTP(_ head: HTTPRequestHead, context: ChannelHandlerContext) {
        var head = head
        if head.headers.contains(name: "upgrade") {
            // The decoder reads nothing behind a request that could have upgraded, so this one is the last.
            head.headers.remove(name: "upgrade")
            head.headers.replaceOrAdd(name: "connection", value: "close")
        }
        state = .done
        do {
            try outcomes.serveHTTP(context)
            context.fireChannelRead(Self.wrapInboundOut(.head(head)))
            context.pipeline.syncOperations.removeHandler(self, promise: nil)
        } catch {
            context.close(promise: nil)
        }
    }

    /// The answer waits until the tunnel's other side is there, or does not come.
    private func enter(_ tunnel: TunnelID, _ token: Secret<[UInt8]>, accept: String, context: ChannelHandlerContext) {
        let upgrade = TunnelUpgrade(
            accept: { handlers in
                self.upgrade(accept: accept, to: UpgradeDecision.tunnelSubprotocol, context: context) { context in
                    try context.pipeline.syncOperations.addHandlers(handlers)
                }
                context.channel.readsTunnel()
                try context.channel.syncOptions?.setOption(.autoRead, value: true)
            },
            refuse: { self.refuse($0, context: context) }
        )
        guard outcomes.enterTunnel(tunnel, token, context.channel, upgrade) else { return refuse(.noTunnel, context: context) }
        state = .awaitingTunnel
        // From here on the tunnel's time counts. The decoder must not collect what is sent too early.
        timeout?.cancel()
        try? context.channel.syncOptions?.setOption(.autoRead, value: false)
        // Both sides may vanish without a word.
        try? context.channel.syncOptions?.setOption(.socketOption(.so_keepalive), value: 1)
    }

    private func upgrade(
        accept: String,
        to subprotocol: String,
        context: ChannelHandlerContext,
        serve: (ChannelHandlerContext) throws -> Void
    ) {
        state = .upgraded
        let headers: HTTPHeaders = [
            "upgrade": "websocket", "connection": "upgrade", "sec-websocket-accept": accept,
            "sec-websocket-protocol": subprotocol,
        ]
        let head = HTTPResponseHead(version: .http1_1, status: .switchingProtocols, headers: headers)
        context.write(Self.wrapOutboundOut(.head(head)), promise: nil)
        context.write(Self.wrapOutboundOut(.end(nil)), promise: nil)
        do {
            let pipeline = context.pipeline.syncOperations
            for handler in codec.prefix(1) { pipeline.removeHandler(handler, promise: nil) }
            try serve(context)
            // With whatever was said on the channel at once.
            context.flush()
            // The decoder leaves, and hands over what it holds, in the loop's next turn, after this.
            context.eventLoop.assumeIsolated().execute {
                if case .upgraded = self.state { self.state = .receivingLeftovers }
            }
            for handler in codec.dropFirst() {
                let removed = context.eventLoop.makePromise(of: Void.self)
                removed.futureResult.assumeIsolated().whenComplete { _ in
                    // It does not say that this was all.
                    context.fireChannelReadComplete()
                    pipeline.removeHandler(self, promise: nil)
                }
                pipeline.removeHandler(handler, promise: removed)
            }
        } catch {
            context.close(promise: nil)
        }
    }

    private func refuse(_ problem: ProblemDetails, context: ChannelHandlerContext) {
        state = .done
        metrics.refusedUpgrade(status: problem.status.code)
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { _ in context.close(promise: nil) }
        for part in problem.http1 {
            if case .end = part {
                context.writeAndFlush(Self.wrapOutboundOut(part), promise: written)
            } else {
                context.write(Self.wrapOutboundOut(part), promise: nil)
            }
        }
    }
}

extension ProblemDetails {
    /// The whole answer, the last one of its connection.
    var http1: [HTTPServerResponsePart] {
        let body = ByteBuffer(string: json)
        var headers: HTTPHeaders = [
            "content-type": Self.contentType, "content-length": String(body.readableBytes), "cache-control": "no-store",
            "connection": "close",
        ]
        for field in self.headers { headers.add(name: field.name.rawName, value: field.value) }
        let status = HTTPResponseStatus(statusCode: status.code, reasonPhrase: status.reasonPhrase)
        return [.head(HTTPResponseHead(version: .http1_1, status: status, headers: headers)), .body(.byteBuffer(body)), .end(nil)]
    }
}
