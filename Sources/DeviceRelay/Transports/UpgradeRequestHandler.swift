// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOHTTP1

/// Requests the upgrade to a WebSocket from a relay, and reports why it failed.
final class UpgradeRequestHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private let head: HTTPRequestHead
    private let failed: @Sendable (DialFailure) -> Void

    init(
        _ address: RelayAddress,
        path: String,
        subprotocol: String,
        authorization: String? = nil,
        failed: @escaping @Sendable (DialFailure) -> Void
    ) {
        var headers = HTTPHeaders()
        headers.add(name: "Host", value: address.server.authority)
        headers.add(name: "Sec-WebSocket-Protocol", value: subprotocol)
        if let authorization { headers.add(name: "Authorization", value: authorization) }
        head = HTTPRequestHead(version: .http1_1, method: .GET, uri: path, headers: headers)
        self.failed = failed
    }

    func channelActive(context: ChannelHandlerContext) {
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(let head) = unwrapInboundIn(data) else { return }
        let seconds = head.headers.first(name: "Retry-After").flatMap { Int64($0) }.map { min(max($0, 0), 86_400) }
        failed(.status(Int(head.status.code), retryAfter: seconds.map { $0 * 1_000 }))
    }

    func channelInactive(context: ChannelHandlerContext) {
        failed(.hungUp)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        failed(error is NIOHTTPClientUpgradeError ? .status(101, retryAfter: nil) : DialFailure(onChannel: error))
        context.close(promise: nil)
    }
}
