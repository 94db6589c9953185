// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import BuildVersion
import Logging
import RelayComposition
import RelayIssuer
import RelayLog
import RelayProtocol
import RelayServer
import RelayStorage
import ServiceLifecycle
import Synchronization

/// Composes the relay from its settings, and runs it until SIGTERM or SIGINT.
/// - Parameter greeting: Makes the text to print once when the relay is ready; it may use the open ports.
func runRelay(
    _ options: ConfigurationOptions,
    greeting: @escaping @Sendable (Composition, RelayConfiguration, RelayKey) async throws -> String?
) async throws {
    let signals = await ProcessSignals()
    var configuration = try options.read()
    let output = LogOutput(configuration.logFormat, level: configuration.logLevel) { StandardStream.error.writeLine($0) }
    LoggingSystem.bootstrap { _ in RelayLogHandler(output) }
    let logger = Logger(label: "relayd")
    // Reserves the ports before the URLs are derived from them.
    let asSet = configuration
    let ports = try configuration.takePorts()
    defer { withExtendedLifetime(ports) {} }
    let directory = try DataDirectory(configuration.dataDirectory, .made)
    let lock = try directory.lock()
    let metrics = PrometheusMetrics(known: MetricDescription.all)
    let clock = RelayClock.system
    let stores = try Stores.open(configuration, holding: lock, metrics: metrics, now: { clock.now().time }, logger: logger)
    defer { stores.close() }
    let key = stores.key
    let serving = try Serving(relay: key.id, configuration)
    let runFile = Mutex<FileLock?>(nil)
    metrics.add { [process = ProcessMetrics()] in process.samples + stores.samples() + [BuildVersion.sample] }
    let composition = try await Composition(configuration, stores: stores, metrics: metrics, logger: logger)
    let (ready, isReady) = AsyncStream.makeStream(of: [Origin].self, bufferingPolicy: .bufferingOldest(1))
    let service = try RelayService(
        configuration: configuration,
        key: key,
        parts: composition.parts,
        logger: logger,
        software: BuildVersion.release
    ) { urls in
        // Other `relayd` commands find the running relay by the run file.
        do {
            let made = try serving.writeRunFile(in: directory.path)
            runFile.withLock { $0 = made }
        } catch {
            logger.warning("\(error); `relayd invite` needs --url")
        }
        isReady.yield(urls)
    }
    defer { runFile.withLock { $0 = nil } }
    let greeter = Greeter(ready: ready) { [configuration] urls in
        let text = try await greeting(composition, configuration, key)
        let version: Logger.MetadataValue = "\(BuildVersion.text)"
        logger.notice(
            "relay started",
            metadata: ["relay": "\(key.id)", "urls": "\(urls.map(\.description).joined(separator: " "))", "version": version]
        )
        ServiceManagerNotice.ready.send()
        // A parent process waits for this first line on standard output, and may then stop the relay or invite a device.
        do throws(OutputError) {
            try print(asIs: "relayd \(key.id) ready at \(urls.map(\.description).joined(separator: " "))")
            if let text { try print(text) }
        } catch {
            // The relay works without it. `relayd invite` and `relayd account set-up` print later links.
            logger.warning("the ready line was not written", metadata: ["reason": "\(error)"])
        }
    }
    let group = ServiceGroup(
        configuration: ServiceGroupConfiguration(services: [service, greeter], logger: logger.forServiceGroups)
    )
    let reload = Reload(options: options, asSet: asSet, output: output, service: service, composition: composition, logger: logger)
    try await withThrowingTaskGroup(of: Void.self) { tasks in
        tasks.addTask { [drainSeconds = configuration.drainSeconds] in
            for await _ in signals.stops {
                // Devices and tunnels get that time to leave.
                logger.notice("relay stopping", metadata: ["drainSeconds": "\(drainSeconds)"])
                ServiceManagerNotice.stopping.send()
                await group.triggerGracefulShutdown()
            }
        }
        tasks.addTask { for await _ in signals.reloads { await reload.run() } }
        defer { tasks.cancelAll() }
        try await group.run()
    }
    logger.notice("relay stopped")
}

extension BuildVersion {
    fileprivate static var sample: MetricSample {
        let labels = [("version", release), ("commit", commit), ("protocol", "\(ProtocolVersion.current)")]
        return MetricSample("relay_build_info", 1, labels: labels)
    }
}

/// Makes the account and the links of the first start when all ports are open, so that a start that fails uses up none. Then it says that
/// the relay is ready.
private struct Greeter: Service {
    let ready: AsyncStream<[Origin]>
    let greet: @Sendable ([Origin]) async throws -> Void

    func run() async throws {
        for await urls in ready.cancelOnGracefulShutdown() {
            try await greet(urls)
            break
        }
        try? await gracefulShutdown()
    }
}

/// What SIGHUP does. Each part says in one line that it was reloaded, or why the old one stays.
private struct Reload: Sendable {
    let options: ConfigurationOptions
    /// The settings of the start.
    let asSet: RelayConfiguration
    let output: LogOutput
    let service: RelayService
    let composition: Composition
    let logger: Logger

    func run() async {
        var configuration = asSet
        do {
            configuration = try options.read()
            output.level = configuration.logLevel
            logger.notice("reloaded the log level", metadata: ["logLevel": "\(configuration.logLevel)"])
        } catch {
            logger.error("the old settings stay", metadata: ["reason": "\(error)"])
        }
        service.reloadCertificates()
        await composition.reloadIssuers(configuration)
        await composition.reloadCredentials()
        for name in configuration.changes(since: asSet) where ![RelaySetting.logLevel, .issuersFile].map(\.rawValue).contains(name) {
            logger.warning("a changed setting needs a restart", metadata: ["setting": "\(name)"])
        }
    }
}
