// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Hummingbird
package import Logging
import NIOCore
package import RelayIssuer
import RelayLog
package import RelayProtocol
package import RelayServer
import Synchronization

/// The core and the embedded issuer of a relay, over its store.
package struct Composition: Sendable {
    /// The key of the embedded issuer in stored identities and logins.
    package static let issuerKey = "embedded"

    /// Of a user of the embedded issuer.
    package static func identity(of subject: String) -> Identity { Identity(issuer: issuerKey, subject: subject) }

    package let issuer: Issuer
    /// Whether the embedded issuer serves.
    package let hasIssuer: Bool
    package let parts: RelayService.Parts
    private let administration: RelayAdministration
    private let trusted: TrustedIssuers
    private let wakes: PushWakes
    private let origins: [Origin]
    private let tasks: BackgroundTasks
    private let logger: Logger

    package init(
        _ configuration: RelayConfiguration,
        stores: Stores,
        metrics: PrometheusMetrics,
        logger: Logger
    ) async throws {
        let (store, key) = (stores.relay, stores.key)
        let clock = RelayClock.system
        let now: @Sendable () -> Milliseconds = { clock.now().time }
        let tasks = BackgroundTasks()
        let events = EventLog(logger: logger, metrics: metrics)
        let revocations = LoginRevocations()
        let relay = RelayAccounts()
        let origins = try configuration.origins()
        var settings = Issuer.Settings(origins: origins.map(\.description), audience: "\(key.id)")
        settings.mayInvite = { await relay.mayInvite(key: $0, subject: $1) }
        settings.accounts = relay
        settings.operatorName = configuration.operatorName
        settings.events = { events.record($0) }
        settings.failuresPerMinute = configuration.tokenFailuresPerMinute
        settings.failureAddresses = configuration.tokenFailureAddresses
        // An endpoint refreshes every 15 minutes.
        settings.grantsPerMinute = 10 * configuration.limits[.endpointsPerAccount]
        let issuer = Issuer(store: stores.issuer, master: stores.master, settings: settings, now: now, logger: logger) {
            revocations.add($0)
        }
        let file = try Self.issuersFile(configuration)
        let trusted = TrustedIssuers(
            embedded: file.isEmbeddedTrusted ? Self.trusted(issuer, at: key.id) : nil,
            others: file.issuers,
            now: now
        ) { TokenVerifier(issuers: $0, now: now, logger: logger, tasks: tasks, metrics: IssuerMetrics(factory: metrics)) }
        let tokens = trusted.verifier
        for login in try await issuer.revokedLogins() { tokens.revoke(login) }
        try await tokens.revokeStored(in: store)
        // The verifiers of other issuers share the revoked logins.
        revocations.begin { tokens.revoke($0) }
        let readiness = Readiness(store: store, leases: stores.leases, now: now)
        let registry = AppRegistry(store: store, key: key, now: now)
        let hasNodes = stores.leases != nil
        let wakes = try PushWakes(configuration.push, registry: registry, metrics: metrics, now: now, logger: logger) { credential in
            hasNodes ? StoreToken(credential: "\(credential)", store: store, key: key) : nil
        }
        let core = RelayCore(
            store: store,
            leases: stores.leases,
            nodeURL: configuration.nodeURL,
            relay: key.id,
            limits: configuration.limits,
            now: now,
            logger: logger,
            logins: IssuerLogins(issuer: issuer),
            wakes: wakes,
            events: { events.record($0) },
            identityChanged: { change in
                let subjects = change.others.filter { $0.issuer == Self.issuerKey }.map(\.subject)
                tasks.start {
                    for subject in subjects {
                        do {
                            try await issuer.note(
                                change.kind == .linked ? .identityLinked : .identityRemoved,
                                of: subject,
                                detail: change.identity.issuer
                            )
                        } catch {
                            logger.error("a change of an account's identities could not be recorded", metadata: ["error": "\(error)"])
                        }
                    }
                }
            },
            nameAccount: { AccountName.choose(from: $0, taken: $1)?.text },
            tasks: tasks,
            tunnelMetrics: TunnelMetrics(factory: metrics)
        )
        relay.begin(core)
        var operated = registry
        operated.withdrawn = { core.tellRegistrations(of: $0) }
        let administration = RelayAdministration(
            core: core,
            issuer: issuer,
            tokens: trusted,
            registry: operated,
            credentialsChanged: {
                await wakes.reload()
                core.credentialsChanged()
            },
            otherIssuers: { trusted.others },
            events: { events.record($0) },
            logger: logger
        )
        self.tasks = tasks
        self.origins = origins
        self.administration = administration
        self.trusted = trusted
        self.wakes = wakes
        self.logger = logger
        let others = stores.leases.map { _ in
            OtherNodes(issuer: issuer, store: store, tokens: tokens, trusted: trusted, wakes: wakes, now: now)
        }
        let warnings = file.issuers.flatMap { $0.warnings(origins: origins) }
        self.issuer = issuer
        self.hasIssuer = file.isEmbeddedTrusted
        self.parts = RelayService.Parts(
            core: core,
            tokens: trusted,
            issuers: { trusted.accepted(own: issuer.urls) },
            metrics: metrics,
            events: { events.record($0) },
            obstacle: { await readiness.obstacle },
            node: { [leases = stores.leases] in leases?.nodeID },
            administer: { await administration.answer($0) },
            addRoutes: { router in
                guard file.isEmbeddedTrusted else { return }
                issuer.addRoutes(to: router) { [proxies = configuration.trustedProxies] request, context in
                    let fields = request.headers.filter { $0.name.canonicalName == TrustedProxies.header }.map(\.value)
                    let address = proxies.client(of: context.remoteAddress, forwardedFor: fields)
                    return ClientNetworks(address?.networks.map(\.description) ?? [])
                }
            },
            prepare: {
                for warning in warnings { logger.warning("\(warning)") }
                await wakes.prepare()
                tasks.start { await tokens.checkIssuers() }
            },
            run: {
                await withDiscardingTaskGroup { group in
                    group.addTask { await wakes.run() }
                    if let others { group.addTask { await others.run() } }
                }
            },
            tasks: tasks
        )
    }
}

// MARK: What changes while the relay runs

extension Composition {
    private static func issuersFile(_ configuration: RelayConfiguration) throws(ConfigurationError) -> IssuersFile {
        guard let path = configuration.issuersFile else { return IssuersFile() }
        return try IssuersFile(path: path, environment: ProcessInfo.processInfo.environment)
    }

    /// Makes the account of the first start.
    /// - Returns: The subject of its user.
    package func addFirstAccount(named name: String) async throws -> String {
        try await administration.addAccount(named: name, by: .firstStart).subject
    }

    /// Reads the file of the trusted issuers again. After an error the old ones stay.
    package func reloadIssuers(_ configuration: RelayConfiguration) async {
        do throws(ConfigurationError) {
            let file = try Self.issuersFile(configuration)
            guard file.isEmbeddedTrusted == hasIssuer else {
                throw ConfigurationError("whether the relay's own issuer serves (embedded) changes only with a restart")
            }
            trusted.replace(others: file.issuers)
            for warning in file.issuers.flatMap({ $0.warnings(origins: origins) }) { logger.warning("\(warning)") }
            tasks.start { [trusted] in await trusted.verifier.checkIssuers() }
            logger.notice("reloaded the issuers", metadata: ["count": "\(file.issuers.count + (hasIssuer ? 1 : 0))"])
        } catch {
            logger.error("the old issuers stay", metadata: ["reason": "\(error)"])
        }
    }

    /// Reads the push credentials again.
    package func reloadCredentials() async {
        guard await wakes.reload() else { return }
        // The core finds out what it can wake now.
        parts.core.handleDeadlines()
        logger.notice("reloaded the push credentials")
    }

    /// The embedded issuer as the relay trusts it: like any other one.
    private static func trusted(_ issuer: Issuer, at relay: RelayID) -> TrustedIssuer {
        var trusted = TrustedIssuer(
            key: issuerKey,
            urls: Set(issuer.urls),
            audience: .exactly("\(relay)"),
            check: .keys { FetchedKeys(try await issuer.publishedKeys()) }
        )
        trusted.autoProvision = true
        trusted.namesInviters = true
        trusted.endsLogins = true
        return trusted
    }
}

/// Readiness of the relay: whether a write reaches the disk. It tests at most once per second, independent of the number of requests.
private actor Readiness {
    private let store: any RelayStore
    private let leases: (any AccountLeases)?
    private let now: @Sendable () -> Milliseconds
    private var last: (time: Int64, obstacle: String?)?
    /// Since when a test waits for the store, which may be for as long as a database is away.
    private var testing: Int64?

    init(store: any RelayStore, leases: (any AccountLeases)?, now: @escaping @Sendable () -> Milliseconds) {
        self.store = store
        self.leases = leases
        self.now = now
    }

    /// Why the relay is not ready, as text; `nil` if it is.
    var obstacle: String? {
        get async {
            let time = now().count
            if let last, (0..<1_000).contains(time - last.time) { return last.obstacle }
            if let obstacle = leases?.obstacle { return obstacle }
            if let testing {
                return time - testing < 2_000 ? last?.obstacle : "The relay cannot store anything now: its database does not answer."
            }
            testing = time
            defer { testing = nil }
            var obstacle: String?
            do {
                try await store.transactGlobally { try $0.probe() }
            } catch {
                let reason = if case .unavailable(let reason) = error as? StoreError { reason } else { "its database fails" }
                obstacle = "The relay cannot store anything now: \(reason)."
            }
            last = (time, obstacle)
            return obstacle
        }
    }
}

/// Passes revocations to the verifier, which is created after the issuer.
private final class LoginRevocations: Sendable {
    private let receiver = Mutex<(@Sendable (RevokedLogin) -> Void)?>(nil)

    func begin(_ receive: @escaping @Sendable (RevokedLogin) -> Void) { receiver.withLock { $0 = receive } }
    func add(_ login: RevokedLogin) { receiver.withLock { $0 }?(login) }
}

extension RelayConfiguration {
    /// The addresses that endpoints dial and tokens contain: the configured URLs, otherwise the addresses of `listen`.
    package func origins() throws -> [Origin] {
        guard urls.isEmpty else { return urls }
        var origins: [Origin] = []
        for address in listen {
            guard address.port != 0 else {
                throw ConfigurationError(
                    "listen: this command cannot know port 0; give --listen the port that the relay's ready line names"
                )
            }
            let scheme = try security(of: address) == .plain ? "http" : "https"
            for host in try hosts(of: address) {
                let origin = Origin(scheme: scheme, host: host, port: address.port)
                if !origins.contains(origin) { origins.append(origin) }
            }
        }
        // Addresses that other machines can dial come first, because an invitation uses the first one.
        return origins.filter { !$0.isLoopback } + origins.filter(\.isLoopback)
    }

    private func hosts(of address: ListenAddress) throws -> [String] {
        guard address.host == "0.0.0.0" || address.host == "::" else {
            return address.isLoopback ? [address.host, "localhost"] : [address.host]
        }
        let own = try System.enumerateDevices().compactMap { $0.address?.ipAddress }.filter { !$0.contains("%") && !$0.hasPrefix("fe80") }
        return own + ["localhost"]
    }
}
