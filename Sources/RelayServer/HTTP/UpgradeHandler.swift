// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import HTTPTypes
import NIOCore
import NIOHTTP1
import RelayProtocol

/// The two answers to a tunnel request, given when the result is known.
struct TunnelUpgrade {
    /// Replaces HTTP by these handlers.
    var accept: ([any ChannelHandler]) throws -> Void
    var refuse: (ProblemDetails) -> Void
}

/// Looks at each request of a connection, after the HTTP decoder: the HTTP server behind it gets ordinary ones, and a request for a
/// WebSocket ends HTTP on the connection. NIO's own upgrade handlers lose a request that no upgrader accepts.
final class UpgradeHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private enum State {
        case awaitingRequest
        /// The HTTP server owes this number of responses.
        case serving(owed: Int)
        /// A request for a WebSocket waits for the responses before it, and then for the end of the HTTP server.
        case leavingHTTP(HTTPRequestHead, isComplete: Bool, owed: Int)
        /// A response of the HTTP server is the last of the connection.
        case lastResponse
        /// The head of an upgrade request has arrived, its end has not.
        case awaitingEnd(Upgrade)
        /// Waits for the other side of a tunnel.
        case awaitingTunnel
        /// The codec is being removed.
        case upgraded
        /// The decoder passes on the bytes after the request.
        case receivingLeftovers
        case done
    }

    private enum Upgrade {
        case controlChannel(accept: String)
        case tunnel(accept: String, TunnelID, token: Secret<[UInt8]>)
    }

    /// The effects of the handler on the pipeline.
    struct Outcomes {
        /// Whether the client of a request may have one more connection.
        var requestBegins: (HTTPRequestHead) -> Bool
        /// Adds the HTTP server's handlers behind this one.
        var serveHTTP: (ChannelHandlerContext) throws -> HTTPServerHandlers
        /// Adds the control channel's handlers behind this one.
        var serveControlChannel: (ChannelHandlerContext) throws -> Void
        /// Presents a token; returns whether the connection is admitted.
        var enterTunnel: (TunnelID, Secret<[UInt8]>, any Channel, TunnelUpgrade) -> Bool
        /// The connection needs no HTTP server.
        var finished: () -> Void
    }

    private let origins: OwnOrigins
    private let patience: TimeAmount
    private let codec: [any RemovableChannelHandler]
    private let metrics: TransportMetrics
    private let outcomes: Outcomes
    private var state = State.awaitingRequest
    /// In the pipeline from the first ordinary request on.
    private var server: HTTPServerHandlers?
    private var timeout: Scheduled<Void>?

    /// - Parameters:
    ///   - patience: how long the head of the first request may take, with the TLS handshake.
    ///   - codec: encoder and decoder, in the order of their removal.
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
            // Half a request gets no response.
            self.state = .done
            context.close(promise: nil)
        }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        timeout?.cancel()
        timeout = nil
        // Resolves the future of the HTTP server, so that it does not wait forever.
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
        case .serving(let owed):
            serve(Self.unwrapInboundIn(data), owed: owed, context: context)
        case .leavingHTTP(let head, _, let owed):
            guard case .end = Self.unwrapInboundIn(data) else { return }
            state = .leavingHTTP(head, isComplete: true, owed: owed)
        case .lastResponse:
            // The rest of the request that gets it.
            if case .head = Self.unwrapInboundIn(data) { return }
            context.fireChannelRead(data)
        case .awaitingEnd(.controlChannel(let accept)):
            guard case .end = Self.unwrapInboundIn(data) else { return }
            upgrade(accept: accept, to: UpgradeDecision.controlSubprotocol, context: context, serve: outcomes.serveControlChannel)
        case .awaitingEnd(.tunnel(let accept, let tunnel, let token)):
            guard case .end = Self.unwrapInboundIn(data) else { return }
            enter(tunnel, token, accept: accept, context: context)
        case .upgraded, .awaitingTunnel:
            // The decoder has read bytes after the upgrade request as another request, so it disagrees about the upgrade.
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
            return refuse(ProblemDetails(.badRequest, "This is not an HTTP/1.1 request."), context: context)
        }
        switch state {
        // The HTTP server answers.
        case .serving, .lastResponse: context.fireErrorCaught(error)
        default: context.close(promise: nil)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is ChannelShouldQuiesceEvent:
            switch state {
            // After the responses that are due.
            case .serving, .lastResponse: context.fireUserInboundEventTriggered(event)
            default: context.close(promise: nil)
            }
        case ChannelEvent.inputClosed:
            // The client sends no more requests, but a response may still be due.
            switch state {
            case .awaitingRequest, .awaitingTunnel, .leavingHTTP(_, _, owed: 0): context.close(promise: nil)
            case .leavingHTTP:
                state = .lastResponse
                context.fireUserInboundEventTriggered(event)
            case .serving, .lastResponse: context.fireUserInboundEventTriggered(event)
            case .awaitingEnd, .upgraded, .receivingLeftovers, .done: break
            }
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }

    // MARK: Requests

    private func decide(_ head: HTTPRequestHead, context: ChannelHandlerContext) {
        guard outcomes.requestBegins(head) else { return refuse(.tooManyConnections, context: context) }
        let address = context.localAddress
        let decision = UpgradeDecision(
            head: head,
            isOwnHost: { origins.allows(host: $0, on: address) },
            isOwnOrigin: { origins.allows(origin: $0, on: address) }
        )
        switch decision {
        case .ordinary: beginHTTP(head, context: context)
        case .controlChannel(let accept): state = .awaitingEnd(.controlChannel(accept: accept))
        case .tunnel(let accept, let tunnel, let token): state = .awaitingEnd(.tunnel(accept: accept, tunnel, token: token))
        case .refused(let problem): refuse(problem, context: context)
        }
    }

    /// The first ordinary request brings the HTTP server.
    private func beginHTTP(_ head: HTTPRequestHead, context: ChannelHandlerContext) {
        timeout?.cancel()
        do {
            server = try outcomes.serveHTTP(context)
            serve(.head(head), owed: 0, context: context)
        } catch {
            context.close(promise: nil)
        }
    }

    private func serve(_ part: HTTPServerRequestPart, owed: Int, context: ChannelHandlerContext) {
        guard case .head(var head) = part else { return context.fireChannelRead(Self.wrapInboundOut(part)) }
        if UpgradeDecision.isWanted(by: head) {
            state = .leavingHTTP(head, isComplete: false, owed: owed)
            // The decoder would collect the bytes of the WebSocket.
            try? context.channel.syncOptions?.setOption(.autoRead, value: false)
            if owed == 0 { server?.end(context: context) }
            return
        }
        state = .serving(owed: owed + 1)
        if head.headers.contains(name: "upgrade") {
            // After a request that asked for an upgrade, the decoder reads nothing more, so the connection must end.
            head.headers.remove(name: "upgrade")
            head.headers.replaceOrAdd(name: "connection", value: "close")
        }
        // Nothing counts after the last request of a connection (RFC 9112 §9.6).
        if !head.isKeepAlive { state = .lastResponse }
        context.fireChannelRead(Self.wrapInboundOut(.head(head)))
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let owed: Int
        switch state {
        case .serving(let count), .leavingHTTP(_, _, let count): owed = count
        default: return context.write(data, promise: promise)
        }
        switch Self.unwrapOutboundIn(data) {
        case .head(let head) where head.status.code >= 200 && !head.isKeepAlive: state = .lastResponse
        case .end:
            if case .leavingHTTP(let head, let isComplete, _) = state {
                state = .leavingHTTP(head, isComplete: isComplete, owed: owed - 1)
                context.write(data, promise: promise)
                if owed == 1 { server?.end(context: context) }
                return
            }
            state = .serving(owed: owed - 1)
        default: break
        }
        context.write(data, promise: promise)
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        // The HTTP server ends by closing its output, but the connection goes on.
        guard case .leavingHTTP(let head, let isComplete, owed: 0) = state, mode == .output else {
            return context.close(mode: mode, promise: promise)
        }
        promise?.succeed()
        server?.remove(context: context)
        state = .awaitingRequest
        decide(head, context: context)
        if isComplete { channelRead(context: context, data: Self.wrapInboundOut(.end(nil))) }
    }

    // MARK: WebSockets

    /// Delays the response until the tunnel is paired or has failed.
    private func enter(_ tunnel: TunnelID, _ token: Secret<[UInt8]>, accept: String, context: ChannelHandlerContext) {
        let upgrade = TunnelUpgrade(
            accept: { handlers in
                self.upgrade(accept: accept, to: UpgradeDecision.tunnelSubprotocol, context: context) { context in
                    try context.pipeline.syncOperations.addHandlers(handlers, position: .after(context.handler))
                }
                context.channel.readsTunnel()
                try context.channel.syncOptions?.setOption(.autoRead, value: true)
            },
            refuse: { self.refuse($0, context: context) }
        )
        guard outcomes.enterTunnel(tunnel, token, context.channel, upgrade) else { return refuse(.noTunnel, context: context) }
        state = .awaitingTunnel
        // The tunnel has its own deadlines. Pauses reading, or the decoder would collect early bytes.
        timeout?.cancel()
        try? context.channel.syncOptions?.setOption(.autoRead, value: false)
        // Detects clients that disappear during the wait.
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
            if server != nil { try context.channel.syncOptions?.setOption(.autoRead, value: true) }
            for handler in codec.prefix(1) { pipeline.removeHandler(handler, promise: nil) }
            try serve(context)
            // Together with the first messages of the channel.
            context.flush()
            // The decoder is removed and passes on its bytes in the next iteration of the loop, after this task.
            context.eventLoop.assumeIsolated().execute {
                if case .upgraded = self.state { self.state = .receivingLeftovers }
            }
            for handler in codec.dropFirst() {
                let removed = context.eventLoop.makePromise(of: Void.self)
                removed.futureResult.assumeIsolated().whenComplete { _ in
                    // The decoder does not mark the end of those bytes.
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
        metrics.rejectedUpgrade(status: problem.status.code)
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
    /// The complete response, the last one of its connection.
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
