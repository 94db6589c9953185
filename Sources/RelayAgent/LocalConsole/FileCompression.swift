// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOHTTP1
import NIOHTTPCompression
import NIOHTTPTypesHTTP1

/// Compresses the console's files. It adds itself where the responses are still HTTP/1.
final class FileCompression: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    func handlerAdded(context: ChannelHandlerContext) {
        let pipeline = context.pipeline.syncOperations
        guard let codec = try? pipeline.context(handlerType: HTTP1ToHTTPServerCodec.self) else { return }
        let compressor = HTTPResponseCompressor { head, isSupported in
            let type = head.headers.first(name: "Content-Type") ?? ""
            let isText = ["text/html", "text/css", "text/javascript", "image/svg+xml", "application/json"].contains { type.hasPrefix($0) }
            // What the API answers is small, and mixes texts of others with the person's own. It has no policy for pages.
            let isFile = head.headers.contains(name: "Content-Security-Policy")
            return isText && isFile && isSupported ? .compressIfPossible : .doNotCompress
        }
        try? pipeline.addHandler(compressor, position: .before(codec.handler))
        guard let past = try? pipeline.context(handler: compressor) else { return }
        try? pipeline.addHandler(UnaskedAnswers(past: past), position: .after(compressor))
    }
}

/// Leads answers without a request past the compressor, which traps on one. The server gives such an answer to bytes that are no request, to
/// a request whose end does not come, and with `100 Continue`.
private final class UnaskedAnswers: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// Writes to it come out behind the compressor.
    private let past: ChannelHandlerContext
    private var unanswered = 0
    private var isUnasked = false

    init(past: ChannelHandlerContext) { self.past = past }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .head = unwrapInboundIn(data) { unanswered += 1 }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .head = unwrapOutboundIn(data) {
            isUnasked = unanswered == 0
            // What the compressor holds of an earlier answer comes first.
            if isUnasked { context.flush() } else { unanswered -= 1 }
        }
        (isUnasked ? past : context).write(data, promise: promise)
    }
}
