// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOHTTPTypes

/// The handlers of the HTTP server at the end of a connection's pipeline. The server can end, and the connection go on as a WebSocket.
///
/// NIO's bridge to the server's task cannot be removed, and passes on no reads once the task is done. So reads then begin in front of it.
final class HTTPServerHandlers {
    private let start = Start()
    private let end = End()
    private let handlers: [any RemovableChannelHandler & ChannelHandler]

    /// Adds the handlers at the end of a pipeline, with the bridge behind them.
    /// - Parameter bridged: Takes the bridge.
    init(
        _ handlers: [any RemovableChannelHandler & ChannelHandler],
        to channel: any Channel,
        bridged: (NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>) -> Void
    ) throws {
        self.handlers = handlers
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(start)
        for handler in handlers { try pipeline.addHandler(handler) }
        bridged(
            try NIOAsyncChannel(wrappingChannelSynchronously: channel, configuration: .init(isOutboundHalfClosureEnabled: true))
        )
        try pipeline.addHandler(end)
    }

    /// Lets the server end when it has no request. It answers by closing its output.
    /// - Parameter context: The handler in front of it.
    func end(context: ChannelHandlerContext) { context.fireUserInboundEventTriggered(ChannelEvent.inputClosed) }

    /// Removes what can be removed, after the end of the server.
    func remove(context: ChannelHandlerContext) {
        for handler in handlers { context.pipeline.syncOperations.removeHandler(handler, promise: nil) }
        end.first = start
    }

    /// Where reads begin after the end of the server.
    private final class Start: ChannelInboundHandler {
        typealias InboundIn = Any
        private(set) var context: ChannelHandlerContext?

        func handlerAdded(context: ChannelHandlerContext) { self.context = context }
        func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }
    }

    private final class End: ChannelOutboundHandler {
        typealias OutboundIn = Any
        var first: Start?

        func read(context: ChannelHandlerContext) {
            if let first { first.context?.read() } else { context.read() }
        }
    }
}
