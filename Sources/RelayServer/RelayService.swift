// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Hummingbird
import HummingbirdCore
package import Logging
import NIOCore
package import RelayProtocol
import ServiceLifecycle
import Synchronization

/// The relay: its listening addresses, and the core and issuer behind them. Runs until it is told to stop.
package struct RelayService: Service {
    /// How many connections wait to be accepted. All endpoints come at once after a restart, and one that finds the queue full comes again
    /// a second later, or three, or seven. The system may allow fewer (Linux: `net.core.somaxconn`, 4096).
    static let backlog = 4_096

    /// What the relay is made of besides its transport.
    package struct Parts: Sendable {
        package var core: any RelayCoreProtocol
        package var tokens: any TokenVerifying
        /// The issuers whose tokens count.
        package var issuers: [String]
        package var metrics: PrometheusMetrics
        /// Answers the operator's commands; without it they reach nobody.
        package var administer: (@Sendable (AdminRequest) async -> AdminAnswer)?
        /// Why requests cannot be served now, for people; `nil` if they can.
        package var obstacle: @Sendable () async -> String?
        /// Adds routes, such as the issuer's; once for every listening address.
        package var addRoutes: @Sendable (Router<RelayRequestContext>) -> Void

        package init(
            core: any RelayCoreProtocol,
            tokens: any TokenVerifying,
            issuers: [String],
            metrics: PrometheusMetrics,
            obstacle: @escaping @Sendable () async -> String?,
            administer: (@Sendable (AdminRequest) async -> AdminAnswer)? = nil,
            addRoutes: @escaping @Sendable (Router<RelayRequestContext>) -> Void = { _ in }
        ) {
            self.core = core
            self.tokens = tokens
            self.issuers = issuers
            self.metrics = metrics
            self.administer = administer
            self.obstacle = obstacle
            self.addRoutes = addRoutes
        }
    }

    fileprivate struct Listener {
        var address: ListenAddress
        var setting: RelaySetting
        var application: Application<RouterResponder<RelayRequestContext>>
    }

    private let configuration: RelayConfiguration
    private let core: any RelayCoreProtocol
    private let logger: Logger
    private let contexts: [TLSContext]
    private let listeners: [Listener]
    private let tunnels: TunnelListener
    private let admin: AdminSocket?
    /// How many connections that are not authenticated there are.
    package let unauthenticated: UnauthenticatedConnections
    /// All connections.
    package let connections = OpenConnections()

    /// - Parameter ready: called once, when all addresses are listened on, with the URLs that lead to them.
    package init(
        configuration: RelayConfiguration,
        key: RelayKey,
        parts: Parts,
        logger: Logger,
        clock: RelayClock = .system,
        intervals: RelayMessage.Welcome.Intervals = RelayMessage.Welcome.Intervals(),
        ready: @escaping @Sendable ([Origin]) -> Void
    ) throws {
        self.configuration = configuration
        self.core = parts.core
        self.admin = parts.administer.map {
            AdminSocket(path: AdminSocket.path(in: configuration.dataDirectory), answer: $0, logger: logger)
        }
        self.logger = logger
        let metrics = TransportMetrics(factory: parts.metrics)
        let unauthenticated = UnauthenticatedConnections(
            allowed: configuration.unauthenticatedPerAddress,
            proxies: configuration.trustedProxies
        )
        self.unauthenticated = unauthenticated
        let connections = connections
        let settings = RelayChannelStateMachine.Settings(
            relay: key.id,
            limits: configuration.limits,
            intervals: intervals,
            urls: configuration.urls.map(\.description)
        )
        let tunnelMetrics = TunnelMetrics(factory: parts.metrics)
        let tunnels = TunnelListener(
            addresses: configuration.tunnelAddresses,
            gate: parts.core,
            unauthenticated: unauthenticated,
            connections: connections,
            metrics: metrics,
            tunnelMetrics: tunnelMetrics,
            patience: .milliseconds(settings.helloTime.count),
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
            let origins = OwnOrigins(urls: configuration.urls, isTLS: tls != nil)
            let services = ControlServices(
                core: parts.core,
                tokens: parts.tokens,
                settings: settings,
                origins: origins,
                metrics: metrics,
                logger: logger,
                clock: clock,
                outboundBytes: configuration.outboundBytes
            )
            let routes = RelayRoutes(
                origins: origins,
                issuers: parts.issuers,
                tunnelPorts: { tunnels.ports },
                obstacle: parts.obstacle
            )
            let application = Application(
                responder: routes.makeRouter(adding: parts.addRoutes).buildResponder(),
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
                configuration: ApplicationConfiguration(
                    address: .hostname(address.host, port: address.port),
                    backlog: Self.backlog
                ),
                onServerRunning: { channel in
                    try? await channel.eventLoop
                        .submit {
                            try channel.pipeline.syncOperations.addHandler(AcceptThrottleHandler(among: unauthenticated), position: .first)
                        }
                        .get()
                    bound.add(channel.localAddress, scheme: tls == nil ? "http" : "https")
                },
                eventLoopGroupProvider: .shared(EventLoops.connections),
                logger: logger.quietened
            )
            listeners.append(Listener(address: address, setting: .listen, application: application))
        }
        if let address = configuration.metricsListen {
            let application = Application(
                responder: MetricsRoutes(address: address, metrics: parts.metrics).makeRouter().buildResponder(),
                server: .http1(configuration: .init(idleTimeout: .seconds(Int64(configuration.idleSeconds)))),
                configuration: ApplicationConfiguration(address: .hostname(address.host, port: address.port)),
                // Nothing that an endpoint dials.
                onServerRunning: { _ in bound.add(nil, scheme: nil) },
                logger: logger.quietened
            )
            listeners.append(Listener(address: address, setting: .metricsListen, application: application))
        }
        self.contexts = contexts
        self.listeners = listeners
        warnOfCertificate()
    }

    private func warnOfCertificate() {
        guard let file = configuration.certificateFile else { return }
        for problem in CertificateWarning.found(inFile: file, for: configuration.urls) { logger.warning("\(problem)") }
    }

    /// Reads certificate files again, for new connections. On an error the old certificate stays.
    package func reloadCertificates() {
        for context in contexts {
            do throws(TLSError) {
                try context.reload()
                logger.info("the certificate was read again")
            } catch {
                logger.error("the old certificate stays", metadata: ["reason": "\(error)"])
            }
        }
        warnOfCertificate()
    }

    package func run() async throws {
        try await core.start(tunnelPorts: try await tunnels.bind(urls: configuration.urls))
        // What comes last stops first: the core tells its channels, then tunnels have some time, then connections are closed.
        var services: [ServiceGroupConfiguration.ServiceConfiguration] = listeners.map { listener in
            .init(service: ListenerService(listener: listener, connections: connections))
        }
        if !contexts.isEmpty { services.append(.init(service: CertificateReload(reload: { reloadCertificates() }))) }
        if let admin { services.append(.init(service: admin)) }
        services.append(.init(service: FreedMemory(connections: connections)))
        services.append(.init(service: tunnels))
        services.append(.init(service: CoreService(core: core)))
        var group = ServiceGroupConfiguration(services: services, logger: logger.forServiceGroups)
        // Idle connections end at once, control channels soon; only requests that take long are waited for.
        group.maximumGracefulShutdownDuration = .seconds(configuration.drainSeconds)
        try await ServiceGroup(configuration: group).run()
    }
}

/// Gives the core its time, and tells it when the relay stops.
private struct CoreService: Service {
    let core: any RelayCoreProtocol

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                try await Task.sleep(for: .seconds(1))
                core.timePassed()
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
            try await listener.application.run()
            // The application waits for its requests only; control channels have been asked to close.
            await connections.drained()
        } catch {
            throw ListenError(error, address: listener.address, setting: listener.setting) ?? error
        }
    }
}

/// Collects what was bound, until it is all.
private final class BoundAddresses: Sendable {
    private let expected: Int
    private let urls: [Origin]
    private let ready: @Sendable ([Origin]) -> Void
    private let bound = Mutex((count: 0, origins: [Origin]()))

    init(expected: Int, urls: [Origin], ready: @escaping @Sendable ([Origin]) -> Void) {
        self.expected = expected
        self.urls = urls
        self.ready = ready
    }

    /// - Parameter scheme: how endpoints dial it, if they do.
    func add(_ address: SocketAddress?, scheme: String?) {
        let reachable = scheme.map { scheme in
            Self.hosts(of: address).map { Origin(scheme: scheme, host: $0, port: address?.port ?? 0) }
        }
        let (count, all) = bound.withLock { bound in
            bound.count += 1
            bound.origins += reachable ?? []
            return bound
        }
        if count == expected { ready(urls + all) }
    }

    /// Who listens on all addresses is reached at each of this machine's.
    private static func hosts(of address: SocketAddress?) -> [String] {
        guard let host = address?.ipAddress else { return ["localhost"] }
        guard host == "0.0.0.0" || host == "::", let devices = try? System.enumerateDevices() else { return [host] }
        let hosts = devices.compactMap { $0.address?.ipAddress }.filter { other in
            // Addresses that are good on one link only need the link's name with them.
            !other.lowercased().hasPrefix("fe80:") && (host == "::" || !other.contains(":"))
        }
        return hosts.isEmpty ? [host] : hosts
    }
}

extension Logger {
    /// A service that fails says why to whoever runs it; the group need not say it again.
    package var forServiceGroups: Logger {
        var logger = self
        if logLevel > .debug { logger.logLevel = .critical }
        return logger
    }

    /// The libraries' own words on starting and stopping are for who looks for a fault.
    fileprivate var quietened: Logger {
        var logger = self
        if logLevel == .info { logger.logLevel = .notice }
        return logger
    }
}
