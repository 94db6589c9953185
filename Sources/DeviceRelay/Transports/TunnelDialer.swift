// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import RelayProtocol

/// Dials a candidate of a tunnel.
struct TunnelDialer: Sendable {
    static let subprotocol = "device-relay.tunnel.v1"
    /// The limit bounds memory, because a frame is buffered until it is complete.
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
            let webSocket = WebSocketDial(
                address: address,
                path: path,
                subprotocol: Self.subprotocol,
                authorization: "Tunnel " + Base64.url.encode(entrance.token.exposed.bytes),
                maximumFrameBytes: Self.maximumFrameBytes,
                trust: trust
            )
            connect(address.host, address.port, attempt) { channel in
                try webSocket.install(
                    on: channel,
                    opened: { try opened($0, attempt) },
                    failed: { attempt.fail(PeerTransportError(upgrading: $0)) }
                )
            }
        }
    }

    /// The relay accepts the upgrade only after both sides have arrived.
    private func opened(_ channel: any Channel, _ attempt: TunnelAttempt) throws {
        try channel.pipeline.syncOperations.addHandler(TunnelWebSocketClientHandler())
        attempt.win(channel, install: install)
    }

    private func connect(
        _ host: String,
        _ port: Int,
        _ attempt: TunnelAttempt,
        _ initialize: @escaping @Sendable (any Channel) throws -> Void
    ) {
        ClientBootstrap
            .toRelay(on: loop) { channel in
                guard attempt.add(channel) else { throw ChannelError.alreadyClosed }
                try initialize(channel)
            }
            .connect(toHost: host, port: port)
            .whenComplete { result in
                switch result {
                case .success: attempt.connected()
                case .failure(let error): attempt.fail(.unreachable(DialFailure(connecting: error)))
                }
            }
    }
}

extension PeerTransportError {
    /// Converts the relay's answer to a rejected upgrade.
    fileprivate init(upgrading failure: DialFailure) {
        switch failure {
        case .status(404, retryAfter: _): self = .refused(.refused)
        case .status(409, retryAfter: _): self = .refused(.replaced)
        case .status(410, retryAfter: _): self = .refused(.closed)
        case .status(504, retryAfter: _): self = .refused(.timedOut)
        // The connection was there: the relay, or the network, has closed it.
        case .unreachable: self = .closed
        default: self = .unreachable(failure)
        }
    }
}
