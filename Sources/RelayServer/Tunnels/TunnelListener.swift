// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import NIOPosix
import RelayProtocol
import ServiceLifecycle
import Synchronization

/// The ports for tunnels over plain TCP. They need no TLS: the endpoints encrypt the session themselves, and a stolen token gains only a
/// failed handshake.
final class TunnelListener: Service {
    let addresses: [ListenAddress]
    let gate: any TunnelGate
    let unauthenticated: UnauthenticatedConnections
    let connections: OpenConnections
    let metrics: TransportMetrics
    let tunnelMetrics: TunnelMetrics
    let patience: TimeAmount
    let files: OpenFiles
    /// How long tunnels may continue when the relay stops.
    let drain: Duration
    let logger: Logger
    private let channels = Mutex<[any Channel]>([])
    private let dataPath = Mutex<(any TunnelDataPath)?>(nil)
    private let reachablePorts = Mutex<[Int]>([])
    /// The bound ports, without those that are unreachable from outside.
    var ports: [Int] { reachablePorts.withLock { $0 } }

    init(
        addresses: [ListenAddress],
        gate: any TunnelGate,
        unauthenticated: UnauthenticatedConnections,
        connections: OpenConnections,
        metrics: TransportMetrics,
        tunnelMetrics: TunnelMetrics,
        patience: TimeAmount,
        files: OpenFiles,
        drain: Duration,
        logger: Logger
    ) {
        self.addresses = addresses
        self.gate = gate
        self.unauthenticated = unauthenticated
        self.connections = connections
        self.metrics = metrics
        self.tunnelMetrics = tunnelMetrics
        self.patience = patience
        self.files = files
        self.drain = drain
        self.logger = logger
    }

    /// Starts to listen.
    /// - Returns: the ports, without those that are unreachable from outside.
    func bind(urls: [Origin]) async throws -> [Int] {
        guard !addresses.isEmpty else { return [] }
        let dataPath = makePlainDataPath()
        self.dataPath.withLock { $0 = dataPath }
        let bootstrap = bootstrap(dataPath)
        var ports: [Int] = []
        for address in addresses {
            do {
                let channel = try await bootstrap.bind(host: address.host, port: address.port).get()
                channels.withLock { $0.append(channel) }
                let port = channel.localAddress?.port ?? address.port
                // Behind a proxy on this machine, a loopback port is not reachable from outside.
                let isHidden = address.isLoopback && !urls.isEmpty && !urls.contains(where: \.isLoopback)
                if !isHidden, !ports.contains(port) { ports.append(port) }
                logger.info("listening for tunnels", metadata: ["host": "\(address.host)", "port": "\(port)"])
            } catch {
                await close()
                await dataPath.stop()
                throw ListenError(error, address: address, setting: .tunnelListen) ?? error
            }
        }
        reachablePorts.withLock { $0 = ports }
        return ports
    }

    func close() async {
        let listening = channels.withLock { channels in
            defer { channels = [] }
            return channels
        }
        for channel in listening { try? await channel.close() }
    }

    private func bootstrap(_ dataPath: any TunnelDataPath) -> ServerBootstrap {
        ServerBootstrap(group: EventLoops.connections, childGroup: EventLoops.connections)
            .serverChannelOption(.backlog, value: Int32(RelayService.backlog))
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelInitializer { [files, unauthenticated] channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers([
                        AcceptRestHandler(files), AcceptThrottleHandler(among: unauthenticated),
                    ])
                }
            }
            .childChannelOption(.socketOption(.so_keepalive), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { [gate, unauthenticated, connections, metrics, tunnelMetrics, patience] channel in
                connections.opened(channel)
                guard let ticket = unauthenticated.admit(channel.remoteAddress) else {
                    metrics.rejectedConnection()
                    channel.close(promise: nil)
                    return channel.eventLoop.makeSucceededVoidFuture()
                }
                channel.closeFuture.whenComplete { _ in ticket.release() }
                return channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    let reads = PreAuthReadThrottle(among: unauthenticated)
                    let known = {
                        ticket.release()
                        pipeline.removeHandler(reads, promise: nil)
                    }
                    try pipeline.addHandlers([
                        reads,
                        TunnelPrefaceHandler(gate: gate, patience: patience, metrics: tunnelMetrics, dataPath: dataPath, known: known),
                    ])
                }
            }
    }

    func run() async throws {
        try? await gracefulShutdown()
        await close()
        // The core has informed the endpoints. Bytes in transit may still pass, for a limited time.
        let deadline = ContinuousClock.now + drain
        while gate.entrantCount > 0, ContinuousClock.now < deadline, (try? await Task.sleep(for: .milliseconds(10))) != nil {}
        gate.closeTunnels()
        await dataPath.withLock { $0 }?.stop()
    }
}
