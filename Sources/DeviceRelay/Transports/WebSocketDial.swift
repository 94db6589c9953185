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
    /// The limit bounds memory, because a frame is buffered until it is complete.
    let maximumFrameBytes: Int
    let trust: RelayTrust

    /// Prepares a channel before it connects.
    /// - Parameters:
    ///   - opened: Called when the relay has accepted the upgrade. It adds the handler of frames.
    ///   - failed: Called with the reason if the upgrade fails.
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
                else { return failed(.status(101, retryAfter: nil)) }
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
