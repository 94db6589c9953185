// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOHTTP1

/// Takes all `Host` fields away where there are several: whoever stands before the relay may have gone by another one than the
/// first, by which the request would be judged (RFC 9112 §3.2).
final class OneHostHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .head(var head) = Self.unwrapInboundIn(data), head.headers["host"].count > 1 {
            head.headers.remove(name: "host")
            context.fireChannelRead(Self.wrapInboundOut(.head(head)))
        } else {
            context.fireChannelRead(data)
        }
    }
}
