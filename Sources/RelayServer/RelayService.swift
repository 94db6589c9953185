// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import Hummingbird
import HummingbirdCore
package import Logging
import NIOCore
import NIOPosix
import RelayHTTP
package import RelayLog
package import RelayProtocol
import ServiceLifecycle

/// The relay as a service: its listening addresses, with the core and issuer behind them. Runs until it is stopped.
package struct RelayService: Service {
    /// The length of the listen backlog. After a restart all endpoints connect at once, and a client that finds the backlog full retries
    /// after one, three or seven seconds. The system may allow less (Linux: `net.core.somaxconn`, 4096).
    static let backlog = 4_096

    /// The parts of the relay besides its transport.
    package struct Parts: Sendable {
        package var core: any RelayCoreProtocol
        package var tokens: any TokenVerifying
        /// The accepted issuers, which may change while the relay runs.
        package var issuers: @Sendable () -> AcceptedIssuers
        package var metrics: PrometheusMetrics
        /// Told what happens to endpoints.
        package var events: @Sendable (RelayEvent) -> Void
        /// Answers the operator's commands; without it there is no admin socket.
        package var administer: (@Sendable (AdminRequest) async -> AdminAnswer)?
        /// Why the relay cannot serve requests now, as text; `nil` if it can.
        package var obstacle: @Sendable () async -> String?
        /// This node; `nil` if it is the only one.
        package var node: @Sendable () -> NodeID?
        /// Adds routes, such as the issuer's. Called once for each listening address.
        package var addRoutes: @Sendable (Router<RelayRequestContext>) -> Void
        /// Called before the relay listens.
        package var prepare: @Sendable () async -> Void
        /// Runs beside the relay until it is cancelled. Called after `prepare`.
        package var run: @Sendable () async -> Void
        /// The tasks of the parts. They end with the relay.
        package var tasks: BackgroundTasks

        package init(
            core: any RelayCoreProtocol,
            tokens: any TokenVerifying,
            issuers: @escaping @Sendable () -> AcceptedIssuers,
            metrics: PrometheusMetrics,
            events: @escaping @Sendable (RelayEvent) -> Void = { _ in },
            obstacle: @escaping @Sendable () async -> String?,
            node: @escaping @Sendable () -> NodeID? = { nil },
            administer: (@Sendable (AdminRequest) async -> AdminAnswer)? = nil,
            addRoutes: @escaping @Sendable (Router<RelayRequestContext>) -> Void = { _ in },
            prepare: @escaping @Sendable () async -> Void = {},
            run: @escaping @Sendable () async -> Void = {},
            tasks: BackgroundTasks = BackgroundTasks()
        ) {
            self.core = core
            self.tokens = tokens
            self.issuers = issuers
            self.metrics = metrics
            self.events = events
            self.administer = administer
            self.obstacle = obstacle
            self.node = node
            self.addRoutes = addRoutes
            self.prepare = prepare
            self.run = run
            self.tasks = tasks
        }
    }

    fileprivate struct Listener {
        var address: ListenAddress
        var setting: RelaySetting
        var service: HTTPService<RouterResponder<RelayRequestContext>>
    }

    private let configuration: RelayConfiguration
    private let core: any RelayCoreProtocol
    private let logger: Logger
    private let contexts: [TLSContext]
    private let listeners: [Listener]
    private let tunnels: TunnelListener
    private let admin: AdminSocket?
    private let prepare: @Sendable () async -> Void
    private let background: @Sendable () async -> Void
    private let tasks: BackgroundTasks
    private let files: OpenFiles
    package let unauthenticated: UnauthenticatedConnections
    /// All connections, authenticated or not.
    package let connections = OpenConnections()

    /// - Parameters:
    ///   - software: the version of this program, which endpoints are told.
    ///   - ready: called once when all addresses are bound, with the URLs that lead to them.
    package init(
        configuration: RelayConfiguration,
        key: RelayKey,
        parts: Parts,
        logger: Logger,
        clock: RelayClock = .system,
        intervals: RelayMessage.Welcome.Intervals = RelayMessage.Welcome.Intervals(),
        software: String? = nil,
        ready: @escaping @Sendable ([Origin]) -> Void
    ) throws {
        self.configuration = configuration
        self.core = parts.core
        self.prepare = parts.prepare
        self.background = parts.run
        self.tasks = parts.tasks
        self.logger = logger
        let metrics = TransportMetrics(factory: parts.metrics)
        let unauthenticated = UnauthenticatedConnections(
            allowed: configuration.unauthenticatedPerAddress,
            proxies: configuration.trustedProxies,
            foundProxy: {
                logger.warning(
                    "a proxy on this machine forwards requests, but is not trusted: all its clients count as one address; set --trusted-proxy"
                )
            }
        )
        self.unauthenticated = unauthenticated
        let connections = connections
        let files = OpenFiles(logger: logger)
        self.files = files
        self.admin = parts.administer.map { administer in
            AdminSocket(
                path: AdminSocket.path(in: configuration.dataDirectory),
                answer: { request in
                    guard request != .countForwarding else { return .forwarding(unauthenticated.forwarding.counts) }
                    return await administer(request)
                },
                logger: logger,
                files: files
            )
        }
        let settings = RelayChannelStateMachine.Settings(
            relay: key.id,
            limits: configuration.limits,
            intervals: intervals,
            urls: configuration.urls.map(\.description),
            software: software
        )
        // One for all addresses: an endpoint gains nothing by using several.
        let rates = EndpointRates(limits: configuration.limits)
        let tunnelMetrics = TunnelMetrics(factory: parts.metrics)
        let tunnels = TunnelListener(
            addresses: configuration.tunnelAddresses,
            gate: parts.core,
            unauthenticated: unauthenticated,
            connections: connections,
            metrics: metrics,
            tunnelMetrics: tunnelMetrics,
            patience: .milliseconds(settings.helloTime.count),
            files: files,
            drain: min(.seconds(3), .seconds(configuration.drainSeconds) / 2),
            logger: logger
        )
        self.tunnels = tunnels
        let bound = BoundAddresses(
            expected: configuration.listen.count + (configuration.metricsListen == nil ? 0 : 1),
            urls: configuration.urls,
            ready: ready
        )
        var contexts: [TLSContext] = []
        var listeners: [Listener] = []
        for address in configuration.listen {
            let tls: TLSContext? =
                switch try configuration.security(of: address) {
                case .plain: nil
                case .files(let certificate, let key): try TLSContext(.files(certificate: certificate, key: key))
                case .ownKey: try TLSContext(.ownKey(key))
                }
            if let tls { contexts.append(tls) }
            let nodeURL = configuration.nodeURL.flatMap { configuration.urls.contains($0) ? nil : $0 }
            let origins = OwnOrigins(urls: configuration.urls + (nodeURL.map { [$0] } ?? []), isTLS: tls != nil)
            let services = ControlServices(
                core: parts.core,
                tokens: parts.tokens,
                settings: settings,
                origins: origins,
                rates: rates,
                metrics: metrics,
                logger: logger,
                events: parts.events,
                clock: clock,
                outboundBytes: configuration.outboundBytes
            )
            let routes = RelayRoutes(
                origins: origins,
                issuers: parts.issuers,
                tunnelPorts: { tunnels.ports },
                obstacle: parts.obstacle,
                node: parts.node
            )
            let service = HTTPService(
                routes.makeRouter(adding: parts.addRoutes).buildResponder(),
                server: HTTPServerBuilder { responder in
                    RelayChannel(
                        responder: responder,
                        origins: origins,
                        tls: tls,
                        unauthenticated: unauthenticated,
                        connections: connections,
                        metrics: metrics,
                        patience: .milliseconds(settings.helloTime.count),
                        idleTimeout: .seconds(configuration.idleSeconds),
                        makeControlChannel: { channel, client, known in
                            ControlChannelHandler(services: services, channel: channel, client: client, welcomed: known)
                        },
                        gate: parts.core,
                        tunnelMetrics: tunnelMetrics
                    )
                },
                configuration: ServerConfiguration(
                    address: .hostname(address.host, port: address.port),
                    backlog: Self.backlog
                ),
                group: EventLoops.connections,
                logger: logger.forHTTPServers,
                isRunning: { channel in
                    try? await channel.eventLoop
                        .submit {
                            try channel.pipeline.syncOperations.addHandlers(
                                [AcceptRestHandler(files), AcceptThrottleHandler(among: unauthenticated)],
                                position: .first
                            )
                        }
                        .get()
                    bound.add(channel.localAddress, scheme: tls == nil ? "http" : "https")
                }
            )
            listeners.append(Listener(address: address, setting: .listen, service: service))
        }
        if let address = configuration.metricsListen {
            let service = HTTPService(
                MetricsRoutes(address: address, metrics: parts.metrics).makeRouter().buildResponder(),
                server: .http1(configuration: .init(idleTimeout: .seconds(Int64(configuration.idleSeconds)))),
                configuration: ServerConfiguration(address: .hostname(address.host, port: address.port)),
                group: MultiThreadedEventLoopGroup.singleton,
                logger: logger.forHTTPServers,
                // Endpoints do not dial this address.
                isRunning: { channel in
                    try? await channel.eventLoop
                        .submit { try channel.pipeline.syncOperations.addHandler(AcceptRestHandler(files), position: .first) }
                        .get()
                    bound.add(nil, scheme: nil)
                }
            )
            listeners.append(Listener(address: address, setting: .metricsListen, service: service))
        }
        self.contexts = contexts
        self.listeners = listeners
        parts.metrics.add { [contexts, obstacle = parts.obstacle] in
            let expiry = contexts.compactMap(\.expires).min()?.timeIntervalSince1970
            return [
                MetricSample("relay_connections", Double(connections.current)),
                MetricSample("relay_connections_unauthenticated", Double(unauthenticated.total)),
                MetricSample("relay_store_writable", await obstacle() == nil ? 1 : 0),
            ] + (expiry.map { [MetricSample("relay_certificate_expiry_timestamp_seconds", $0)] } ?? [])
        }
        warnOfCertificate()
    }

    private func warnOfCertificate() {
        guard let file = configuration.certificateFile else { return }
        for problem in CertificateWarning.found(inFile: file, for: configuration.urls) { logger.warning("\(problem)") }
    }

    /// Reloads the certificate files for new connections. After an error the old certificate stays.
    package func reloadCertificates() {
        guard configuration.certificateFile != nil else { return }
        do throws(TLSError) {
            for context in contexts { try context.reload() }
            logger.notice("reloaded the certificate")
        } catch {
            logger.error("the old certificate stays", metadata: ["reason": "\(error)"])
        }
        warnOfCertificate()
    }

    package func run() async throws {
        files.warnIfFew()
        await prepare()
        try await core.start(tunnelPorts: try await tunnels.bind(urls: configuration.urls))
        // Services stop in reverse order: the core informs its channels, then tunnels get some time, then connections are closed.
        var services: [ServiceGroupConfiguration.ServiceConfiguration] = [.init(service: tasks)]
        services += listeners.map { .init(service: ListenerService(listener: $0, connections: connections)) }
        if let admin = await admin?.open() { services.append(.init(service: admin)) }
        services.append(.init(service: BackgroundService(body: background)))
        services.append(.init(service: FreedMemory(connections: connections)))
        services.append(.init(service: tunnels))
        services.append(.init(service: CoreService(core: core)))
        var group = ServiceGroupConfiguration(services: services, logger: logger.forServiceGroups)
        // Idle connections end at once, and control channels soon; only long requests delay the stop.
        group.maximumGracefulShutdownDuration = .seconds(configuration.drainSeconds)
        try await ServiceGroup(configuration: group).run()
    }
}

/// Runs until the relay stops.
private struct BackgroundService: Service {
    let body: @Sendable () async -> Void

    func run() async throws {
        await cancelWhenGracefulShutdown { await body() }
        try? await gracefulShutdown()
    }
}

/// Calls the core when something may be due, and informs it when the relay stops.
private struct CoreService: Service {
    let core: any RelayCoreProtocol

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                try await core.untilDue()
                core.handleDeadlines()
            }
        }
        await core.stop()
    }
}

/// One listening address.
private struct ListenerService: Service {
    let listener: RelayService.Listener
    let connections: OpenConnections

    func run() async throws {
        do {
            try await listener.service.run()
            // The service waits only for its requests; control channels may still be closing.
            await connections.drained()
        } catch {
            throw ListenError(error, address: listener.address, setting: listener.setting) ?? error
        }
    }
}
