// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix

extension ClientBootstrap {
    /// Connects to a host by its name or address. An address needs neither the resolver nor the race between IPv6 and IPv4 (RFC 8305),
    /// which cost more than the connection; but for Apple's resolver, which knows what becomes of an IPv4 address in a network of IPv6 alone
    /// (RFC 7050).
    func connect(toHost host: String, port: Int) -> EventLoopFuture<any Channel> {
        #if !canImport(Darwin)
        if let address = try? SocketAddress(ipAddress: host, port: port) { return connect(to: address) }
        #endif
        return connect(host: host, port: port)
    }
}

extension ClientBootstrap {
    /// A bootstrap of connections to a relay, on one loop.
    /// - Parameter initialize: Readies each channel before it connects; several may be tried for one host.
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
