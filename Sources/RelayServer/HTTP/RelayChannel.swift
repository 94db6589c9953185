// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import HummingbirdCore
package import Logging
package import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import NIOHTTPTypesHTTP1
import RelayProtocol

/// An accepted connection: TLS if configured, HTTP, and the upgrade by one of its requests. It replaces Hummingbird's own channel, which
/// has no WebSocket support.
package struct RelayChannel: HTTPChannelHandler {
    /// A connection that may become an HTTP connection by its first request.
    package struct Value: ServerChildChannelValue {
        package let channel: any Channel
        /// `nil` for a connection that needs no HTTP server.
        let http: EventLoopFuture<NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>?>
    }

    package let responder: Responder
    let origins: OwnOrigins
    let tls: TLSContext?
    let unauthenticated: UnauthenticatedConnections
    let connections: OpenConnections
    let metrics: TransportMetrics
    /// How long the first request may take, with the TLS handshake.
    let patience: TimeAmount
    /// How long a connection may be idle between requests.
    let idleTimeout: Duration
    /// Takes the client's address and a closure to call after `welcome`.
    let makeControlChannel: @Sendable (any Channel, IPAddress?, @escaping () -> Void) -> ControlChannelHandler
    let gate: any TunnelGate
    let tunnelMetrics: TunnelMetrics

    package func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        let promise = channel.eventLoop.makePromise(of: NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>?.self)
        let value = Value(channel: channel, http: promise.futureResult)
        connections.opened(channel)
        channel.readsSmall()
        // Errors must not leave this function: they would reach the listening socket.
        if let ticket = unauthenticated.admit(channel.remoteAddress) {
            channel.closeFuture.whenComplete { _ in ticket.release() }
            do {
                try addHandlers(to: channel, ticket: ticket, decided: promise, logger: logger)
            } catch {
                promise.succeed(nil)
                channel.close(promise: nil)
            }
        } else {
            metrics.rejectedConnection()
            promise.succeed(nil)
            channel.close(promise: nil)
        }
        return channel.eventLoop.makeSucceededFuture(value)
    }

    private func addHandlers(
        to channel: any Channel,
        ticket: UnauthenticatedConnections.Ticket,
        decided: EventLoopPromise<NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>?>,
        logger: Logger
    ) throws {
        let pipeline = channel.pipeline.syncOperations
        let reads = PreAuthReadThrottle(among: unauthenticated)
        try pipeline.addHandler(reads)
        if let tls { try pipeline.addTLS(tls.current, on: channel) }
        let encoder = HTTPResponseEncoder()
        var decoderLimits = NIOHTTPDecoderLimitConfiguration()
        decoderLimits.maxHeaderFieldSize = 16 << 10
        decoderLimits.maxHeaderListSize = 32 << 10
        decoderLimits.maxHeaderFieldCount = 128
        let decoder = ByteToMessageHandler(
            HTTPRequestDecoder(
                leftOverBytesStrategy: .forwardBytes,
                informationalResponseStrategy: .drop,
                limitConfiguration: decoderLimits
            )
        )
        let known = {
            ticket.release()
            pipeline.removeHandler(reads, promise: nil)
        }
        let outcomes = UpgradeHandler.Outcomes(
            requestBegins: { ticket.requestBegins(forwardedFor: $0.headers[TrustedProxies.header]) },
            serveHTTP: { context in
                try HTTPServerHandlers(
                    [
                        RequestHandler(reads: reads, ticket: ticket, metrics: metrics),
                        HTTP1ToHTTPServerCodec(secure: tls != nil),
                        HTTPConnectionStateHandler(idleTimeout: idleTimeout, logger: logger),
                    ],
                    to: context.channel
                ) { decided.succeed($0) }
            },
            serveControlChannel: { context in
                let channel = makeControlChannel(context.channel, ticket.client, known)
                let handlers: [any ChannelHandler] = tls == nil ? [channel] : [WriteSplitter(), channel]
                try context.pipeline.syncOperations.addHandlers(handlers, position: .after(context.handler))
            },
            enterTunnel: { tunnel, token, channel, upgrade in
                let handler = TunnelHandler(
                    tunnel: tunnel,
                    channel: channel,
                    gate: gate,
                    greeting: TunnelHandler.Greeting(upgrade, paired: known),
                    metrics: tunnelMetrics
                )
                guard handler.enter(token: token.exposed) else {
                    tunnelMetrics.rejectedEntry()
                    return false
                }
                return true
            },
            finished: { decided.succeed(nil) }
        )
        try pipeline.addHandlers([encoder, decoder])
        try pipeline.addHandler(
            UpgradeHandler(origins: origins, patience: patience, codec: [encoder, decoder], metrics: metrics, outcomes: outcomes)
        )
    }

    package func handle(value: Value, logger: Logger) async {
        guard let http = try? await value.http.get() else { return }
        await handleHTTP(asyncChannel: http, logger: logger)
    }
}
