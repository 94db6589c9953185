// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket
import RelayProtocol

/// Dials a WebSocket at a relay: TLS and the upgrade (RFC 6455 §4.1), on a TCP connection.
struct WebSocketDial: Sendable {
    let address: RelayAddress
    let path: String
    let subprotocol: String
    var authorization: String?
    /// A frame is held until it is whole.
    let maximumFrameBytes: Int
    let trust: RelayTrust

    /// Readies a channel that is about to connect.
    /// - Parameters:
    ///   - opened: Called when the relay has agreed: adds what reads the frames.
    ///   - failed: Says why that does not happen.
    func install(
        on channel: any Channel,
        opened: @escaping @Sendable (any Channel) throws -> Void,
        failed: @escaping @Sendable (DialFailure) -> Void
    ) throws {
        let pipeline = channel.pipeline.syncOperations
        if let tls = try RelayTLS.context(for: address) {
            try pipeline.addHandler(RelayTLS.handler(tls, address, trust) { failed(.untrusted($0)) })
        }
        let subprotocol = subprotocol
        let upgrader = NIOWebSocketClientUpgrader(maxFrameSize: maximumFrameBytes, automaticErrorHandling: false) { channel, head in
            channel.eventLoop.makeCompletedFuture {
                guard head.headers[canonicalForm: "Sec-WebSocket-Protocol"].map(String.init) == [subprotocol],
                    head.headers["Sec-WebSocket-Extensions"].isEmpty
                else { return failed(.notARelay(status: 101, retryAfter: nil)) }
                try opened(channel)
            }
        }
        let request = UpgradeRequestHandler(address, path: path, subprotocol: subprotocol, authorization: authorization, failed: failed)
        let bound = NIOLoopBound(request, eventLoop: channel.eventLoop)
        try pipeline.addHTTPClientHandlers(
            leftOverBytesStrategy: .forwardBytes,
            withClientUpgrade: (
                upgraders: [upgrader],
                completionHandler: { context in context.pipeline.syncOperations.removeHandler(bound.value, promise: nil) }
            )
        )
        try pipeline.addHandler(request)
    }
}
