// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket
import RelayProtocol

/// Dials one way into a tunnel.
struct TunnelDialer: Sendable {
    static let subprotocol = "device-relay.tunnel.v1"
    /// A frame is held until it is whole.
    static let maximumFrameBytes = 1 << 20

    private let entrance: TunnelEntrance
    private let trust: RelayTrust
    let loop: any EventLoop
    private let install: @Sendable (any Channel) throws -> Void

    init(
        _ entrance: TunnelEntrance,
        trust: RelayTrust,
        loop: any EventLoop,
        install: @escaping @Sendable (any Channel) throws -> Void
    ) {
        self.entrance = entrance
        self.trust = trust
        self.loop = loop
        self.install = install
    }

    func dial(_ candidate: TunnelCandidate, _ attempt: TunnelAttempt) {
        switch candidate {
        case .socket(let host, let port):
            connect(host, port, attempt) { channel in
                try channel.pipeline.syncOperations.addHandler(
                    TunnelEntranceHandler(
                        preface: TunnelPreface(tunnel: entrance.tunnel, token: entrance.token),
                        attempt: attempt,
                        install: install
                    )
                )
            }
        case .webSocket(let address, let path):
            connect(address.host, address.port, attempt) { channel in
                if let tls = try RelayTLS.context(for: address) {
                    let handler = try RelayTLS.handler(tls, address, trust) { attempt.fail(.unreachable(.untrusted($0))) }
                    try channel.pipeline.syncOperations.addHandler(handler)
                }
                try addHTTP(to: channel, address, path, attempt)
            }
        }
    }

    private func connect(
        _ host: String,
        _ port: Int,
        _ attempt: TunnelAttempt,
        _ initialize: @escaping @Sendable (any Channel) throws -> Void
    ) {
        ClientBootstrap(group: loop)
            .connectTimeout(.seconds(15))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard attempt.add(channel) else { throw ChannelError.alreadyClosed }
                    try initialize(channel)
                }
            }
            .connect(toHost: host, port: port)
            .whenComplete { result in
                switch result {
                case .success: attempt.connected()
                case .failure(let error): attempt.fail(.unreachable(DialFailure(connecting: error)))
                }
            }
    }

    private func addHTTP(to channel: any Channel, _ address: RelayAddress, _ path: String, _ attempt: TunnelAttempt) throws {
        let upgrader = NIOWebSocketClientUpgrader(maxFrameSize: Self.maximumFrameBytes, automaticErrorHandling: false) { channel, head in
            channel.eventLoop.makeCompletedFuture {
                guard head.headers[canonicalForm: "Sec-WebSocket-Protocol"].map(String.init) == [Self.subprotocol],
                    head.headers["Sec-WebSocket-Extensions"].isEmpty
                else {
                    return attempt.fail(.unreachable(.notARelay(status: 101, retryAfter: nil)))
                }
                // The relay says yes when both sides are there.
                try channel.pipeline.syncOperations.addHandler(TunnelWebSocketHandler())
                attempt.win(channel, install: install)
            }
        }
        let request = UpgradeRequestHandler(
            address,
            path: path,
            subprotocol: Self.subprotocol,
            authorization: "Tunnel " + Base64.url.encode(entrance.token.exposed.bytes)
        ) { attempt.fail(PeerTransportError(upgrading: $0)) }
        let bound = NIOLoopBound(request, eventLoop: channel.eventLoop)
        try channel.pipeline.syncOperations.addHTTPClientHandlers(
            leftOverBytesStrategy: .forwardBytes,
            withClientUpgrade: (
                upgraders: [upgrader],
                completionHandler: { context in context.pipeline.syncOperations.removeHandler(bound.value, promise: nil) }
            )
        )
        try channel.pipeline.syncOperations.addHandler(request)
    }
}

extension PeerTransportError {
    /// What a relay answers in place of the upgrade.
    fileprivate init(upgrading failure: DialFailure) {
        switch failure {
        case .notARelay(status: 404, retryAfter: _): self = .refused(.refused)
        case .notARelay(status: 409, retryAfter: _): self = .refused(.replaced)
        case .notARelay(status: 410, retryAfter: _): self = .refused(.closed)
        case .notARelay(status: 504, retryAfter: _): self = .refused(.timedOut)
        default: self = .unreachable(failure)
        }
    }
}
