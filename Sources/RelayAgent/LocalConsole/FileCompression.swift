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
    }
}
