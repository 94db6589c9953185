// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayComposition
import RelayProtocol
import RelayServer
import RelayStorage
import ServiceLifecycle
import Synchronization
import UnixSignals

/// Composes the relay from its settings, and runs it until SIGTERM or SIGINT.
/// - Parameter makeParts: Makes the core, the token verifier, the issuer, and the text to print once when the relay is ready.
func runRelay(
    _ configuration: RelayConfiguration,
    makeParts: (RelayConfiguration, StoreLock, RelayKey, PrometheusMetrics, Logger) async throws -> (RelayService.Parts, greeting: String?)
) async throws {
    LoggingSystem.bootstrap { StreamLogHandler.standardError(label: $0) }
    var logger = Logger(label: "relayd")
    logger.logLevel = configuration.logLevel
    // Reserves the ports before the URLs are derived from them.
    var configuration = configuration
    let ports = try configuration.takePorts()
    defer { withExtendedLifetime(ports) {} }
    let directory = try DataDirectory(configuration.dataDirectory, .made)
    let lock = try directory.lock()
    let key = try RelayKey.load(in: directory.path)
    let serving = Serving(relay: key.id, origins: try configuration.origins())
    let runFile = Mutex<FileLock?>(nil)
    let (parts, greeting) = try await makeParts(configuration, lock, key, PrometheusMetrics(), logger)
    let service = try RelayService(configuration: configuration, key: key, parts: parts, logger: logger) { [logger] urls in
        // Other `relayd` commands find the running relay by the run file.
        do {
            let made = try serving.writeRunFile(in: directory.path)
            runFile.withLock { $0 = made }
        } catch {
            logger.warning("\(error); `relayd invite` needs --url")
        }
        // A parent process waits for this first line on standard output.
        StandardStream.output.writeLine("relayd \(key.id) ready at \(urls.map(\.description).joined(separator: " "))")
        if let greeting { StandardStream.output.writeLine(greeting) }
    }
    let group = ServiceGroup(
        configuration: ServiceGroupConfiguration(
            services: [service],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger.forServiceGroups
        )
    )
    defer { runFile.withLock { $0 = nil } }
    try await group.run()
}
