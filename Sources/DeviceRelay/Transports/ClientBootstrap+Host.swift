// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix

extension ClientBootstrap {
    /// Connects to a host by its name or address. An IP address is connected directly, because the resolver and the race between IPv6 and
    /// IPv4 (RFC 8305) cost more than the connection. Apple's systems are the exception: their resolver maps IPv4 addresses in IPv6-only
    /// networks (RFC 7050).
    func connect(toHost host: String, port: Int) -> EventLoopFuture<any Channel> {
        #if !canImport(Darwin)
        if let address = try? SocketAddress(ipAddress: host, port: port) { return connect(to: address) }
        #endif
        return connect(host: host, port: port)
    }
}

extension ClientBootstrap {
    /// Creates a bootstrap for connections to a relay, on one loop.
    /// - Parameter initialize: Prepares each channel before it connects. One host may need several channels.
    static func toRelay(
        on loop: any EventLoop,
        timeout: TimeAmount = .seconds(15),
        initialize: @escaping @Sendable (any Channel) throws -> Void
    ) -> ClientBootstrap {
        ClientBootstrap(group: loop)
            .connectTimeout(timeout)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in channel.eventLoop.makeCompletedFuture { try initialize(channel) } }
    }
}
